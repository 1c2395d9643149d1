// Arithmetic on register tiles: which layout a result has, and one instruction a register.
#include <fmt/format.h>

#include "ptxbuilder/ir/instructions.h"
#include "ptxbuilder/ir/math.h"
#include "ptxbuilder/tile/register_values.h"

namespace ptxbuilder::detail {
namespace {

bool is_half(std::optional<DType> dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

Class element_class(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return Class::f16;
    case DType::bf16:
      return Class::bf16;
    default:
      return word_class(dtype);
  }
}

// The layout of a result: that of the tiles, of which splats give way.
RegisterLayout common_layout(std::initializer_list<const TileOperand*> operands) {
  std::optional<RegisterLayout> common;
  for (const TileOperand* o : operands) {
    if (!o->layout || (common && *common == *o->layout)) continue;
    if (common) {
      Where where = o->where ? o->where : (*operands.begin())->where;
      if (!(common->extent() == o->layout->extent()))
        throw Error(where, fmt::format("register tiles of {} x {} and {} x {} elements, {} and {}; broadcast "
                                       "brings a reduced one back",
                                       common->rows(), common->cols(), o->layout->rows(), o->layout->cols(),
                                       common->describe(), o->layout->describe()));
      if (o->layout->is_splat()) continue;
      if (!common->is_splat())
        throw Error(where, fmt::format("register tiles of different layouts, {} and {}; layout_cast one of "
                                       "them to the other's",
                                       common->describe(), o->layout->describe()));
    }
    common = o->layout;
  }
  return *common;
}

// An operand's register i, for a result of `layout`.
llvm::Value* word(const TileOperand& o, const RegisterLayout& layout, size_t i) {
  bool one = !o.layout || (o.layout->is_splat() && !layout.is_splat());
  return o.words[one ? 0 : i].handle();
}

size_t word_count(DType dtype, const RegisterLayout& layout) {
  int per = per_word(dtype);
  return static_cast<size_t>((layout.values() + per - 1) / per);
}

// An operand as a thread's elements of `layout`, for what has no packed instruction.
std::vector<Value> expanded(DType dtype, const TileOperand& o, const RegisterLayout& layout) {
  TileValues x{dtype, layout, {}};
  for (size_t i = 0; i < word_count(dtype, layout); ++i) x.words.emplace_back(word(o, layout, i));
  return elements_of(x);
}

}  // namespace

TileValues tile_arithmetic(Arithmetic operation, DType dtype, const TileOperand& a, const TileOperand& b) {
  TileValues x{dtype, common_layout({&a, &b}), {}};
  for (size_t i = 0; i < word_count(dtype, x.layout); ++i) {
    llvm::Value *left = word(a, x.layout, i), *right = word(b, x.layout, i);
    x.words.emplace_back(is_half(dtype) ? packed_arithmetic(operation, dtype, left, right)
                                        : arithmetic(operation, word_class(dtype), left, right));
  }
  return x;
}

TileValues tile_comparison(Comparison comparison, DType dtype, const TileOperand& a, const TileOperand& b) {
  RegisterLayout layout = common_layout({&a, &b});
  std::vector<Value> left = expanded(dtype, a, layout), right = expanded(dtype, b, layout);
  TileValues x{std::nullopt, layout, {}};
  for (size_t i = 0; i < left.size(); ++i)
    x.words.emplace_back(
        detail::comparison(comparison, element_class(dtype), left[i].handle(), right[i].handle()));
  return x;
}

TileValues tile_logic(Arithmetic operation, const TileOperand& a, const TileOperand& b) {
  TileValues x{std::nullopt, common_layout({&a, &b}), {}};
  for (int i = 0; i < x.layout.values(); ++i) {
    size_t at = static_cast<size_t>(i);
    x.words.emplace_back(arithmetic(operation, Class::pred, word(a, x.layout, at), word(b, x.layout, at)));
  }
  return x;
}

TileValues tile_not(const TileValues& a) {
  TileValues x = a;
  for (Value& v : x.words) v = !pred(v.handle());
  return x;
}

TileValues tile_unary(Unary operation, const TileValues& a) {
  TileValues x = a;
  for (Value& v : x.words)
    v = Value(is_half(a.dtype) ? packed_unary(operation, *a.dtype, v.handle())
                               : unary(operation, word_class(a.dtype), v.handle()));
  return x;
}

TileValues tile_fma(DType dtype, const TileOperand& a, const TileOperand& b, const TileOperand& c) {
  TileValues x{dtype, common_layout({&a, &b, &c}), {}};
  for (size_t i = 0; i < word_count(dtype, x.layout); ++i) {
    llvm::Value *p = word(a, x.layout, i), *q = word(b, x.layout, i), *r = word(c, x.layout, i);
    x.words.emplace_back(is_half(dtype) ? packed_fma(dtype, p, q, r) : fma(p, q, r));
  }
  return x;
}

TileValues tile_select(DType dtype, const TileOperand& condition, const TileOperand& a,
                       const TileOperand& b) {
  RegisterLayout layout = common_layout({&condition, &a, &b});
  std::vector<Value> yes = expanded(dtype, a, layout), no = expanded(dtype, b, layout), chosen;
  for (size_t i = 0; i < yes.size(); ++i)
    chosen.emplace_back(detail::select(word(condition, layout, i), yes[i].handle(), no[i].handle()));
  return from_elements(dtype, layout, chosen);
}

TileValues tile_divide_approx(DType dtype, const TileOperand& a, const TileOperand& b) {
  RegisterLayout layout = common_layout({&a, &b});
  auto wide = [&](const TileOperand& o) {
    return tile_convert(DType::f32, from_elements(dtype, layout, expanded(dtype, o, layout)), o.where);
  };
  TileValues x = wide(a), y = wide(b);
  for (size_t i = 0; i < x.words.size(); ++i)
    x.words[i] = div_full_ftz_f32(f32(x.words[i].handle()), f32(y.words[i].handle()));
  return tile_convert(dtype, x, a.where);
}

TileValues tile_function(const TileValues& x, const std::function<f32(f32)>& function) {
  TileValues wide = tile_convert(DType::f32, x, {});
  for (Value& v : wide.words) v = function(f32(v.handle()));
  return tile_convert(*x.dtype, wide, {});
}

}  // namespace ptxbuilder::detail
