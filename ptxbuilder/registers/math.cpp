// Implements arithmetic on register tiles: determines the layout of each result, and emits one instruction
// per register.
#include "ptxbuilder/ir/math.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/registers/values.h"

namespace ptxbuilder::detail {
namespace {

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

// Returns whether `part` has one value for each row, or for each column, of `whole`.
bool is_line(TileExtent part, TileExtent whole) {
  return (part.rows == whole.rows && part.cols == 1) || (part.cols == whole.cols && part.rows == 1);
}

// Determines the layout of a result, and converts the operands to this layout. Splats are converted to the
// layout of other tiles, and tiles with one value per row or column to the layout of tiles with all elements.
// An operator has no parameter for the source line. While this object exists, the current line is therefore
// the line of the first operand that has one.
class Common {
 public:
  explicit Common(std::initializer_list<const TileOperand*> operands) : line_(line_of(operands)) {
    for (const TileOperand* o : operands)
      if (o->layout && (!whole_ || o->layout->elements() > whole_->elements() ||
                        (o->layout->extent() == whole_->extent() && whole_->is_splat())))
        whole_ = o->layout;
    for (const TileOperand* o : operands)
      if (o->layout) check(*o->layout);
  }

  const RegisterLayout& layout() const { return *whole_; }

  // Returns an operand's registers in the common layout.
  std::vector<Value> words(std::optional<DType> dtype, const TileOperand& o) const {
    const int per = per_word(dtype);
    if (!o.layout || o.layout->is_splat())
      return std::vector<Value>(static_cast<size_t>((whole_->values() + per - 1) / per), o.words[0]);
    if (*o.layout == *whole_) return o.words;
    return tile_broadcast({dtype, *o.layout, o.words}, *whole_).words;
  }
  // Returns a thread's elements of an operand, for operations without a packed instruction.
  std::vector<Value> elements(std::optional<DType> dtype, const TileOperand& o) const {
    return elements_of({dtype, *whole_, words(dtype, o)});
  }

 private:
  static Where line_of(std::initializer_list<const TileOperand*> operands) {
    for (const TileOperand* o : operands)
      if (o->where) return o->where;
    return {};
  }

  void check(const RegisterLayout& given) const {
    if (given == *whole_) return;
    if (given.extent() == whole_->extent()) {
      if (!given.is_splat())
        throw Error(
            fmt::format("the register tiles have different layouts, {} and {}: cast one to the layout of the "
                        "other, as in layout_cast(b, a.layout())",
                        whole_->describe(), given.describe()));
      return;
    }
    if (!is_line(given.extent(), whole_->extent()))
      refuse(given, "one of them must have one value for each row, or for each column, of the other");
    if (given.is_splat()) return;
    if (whole_->is_splat()) refuse(given, "layout_cast the splat to a layout of all elements");
    const RegisterLayout line = given.cols() == 1 ? whole_->reduced_rows() : whole_->reduced_cols();
    if (!(given == line)) refuse(given, fmt::format("layout_cast the second to {}", line.describe()));
  }

  [[noreturn]] void refuse(const RegisterLayout& given, const std::string& rule) const {
    throw Error(fmt::format("the register tiles have {} x {} and {} x {} elements in {} and {}; {}",
                            whole_->rows(), whole_->cols(), given.rows(), given.cols(), whole_->describe(),
                            given.describe(), rule));
  }

  AtLine line_;
  std::optional<RegisterLayout> whole_;
};

}  // namespace

TileValues tile_arithmetic(Arithmetic operation, std::optional<DType> dtype, const TileOperand& a,
                           const TileOperand& b) {
  const Common common({&a, &b});
  TileValues x{dtype, common.layout(), {}};
  std::vector<Value> left = common.words(dtype, a), right = common.words(dtype, b);
  for (size_t i = 0; i < left.size(); ++i) {
    llvm::Value *p = left[i].handle(), *q = right[i].handle();
    x.words.emplace_back(is_half(dtype) ? packed_arithmetic(operation, *dtype, p, q)
                                        : arithmetic(operation, word_class(dtype), p, q));
  }
  return x;
}

TileValues tile_comparison(Comparison comparison, DType dtype, const TileOperand& a, const TileOperand& b) {
  const Common common({&a, &b});
  std::vector<Value> left = common.elements(dtype, a), right = common.elements(dtype, b);
  TileValues x{std::nullopt, common.layout(), {}};
  for (size_t i = 0; i < left.size(); ++i)
    x.words.emplace_back(
        detail::comparison(comparison, element_class(dtype), left[i].handle(), right[i].handle()));
  return x;
}

TileValues tile_not(const TileValues& a) {
  TileValues x = a;
  for (Value& v : x.words) v = Value(complement(v.handle()));
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
  const Common common({&a, &b, &c});
  TileValues x{dtype, common.layout(), {}};
  std::vector<Value> p = common.words(dtype, a), q = common.words(dtype, b), r = common.words(dtype, c);
  for (size_t i = 0; i < p.size(); ++i)
    x.words.emplace_back(is_half(dtype) ? packed_fma(dtype, p[i].handle(), q[i].handle(), r[i].handle())
                                        : fma(p[i].handle(), q[i].handle(), r[i].handle()));
  return x;
}

TileValues tile_select(DType dtype, const TileOperand& condition, const TileOperand& a,
                       const TileOperand& b) {
  const Common common({&condition, &a, &b});
  std::vector<Value> which = common.words(std::nullopt, condition), yes = common.elements(dtype, a),
                     no = common.elements(dtype, b), chosen;
  for (size_t i = 0; i < yes.size(); ++i)
    chosen.emplace_back(detail::select(which[i].handle(), yes[i].handle(), no[i].handle()));
  return from_elements(dtype, common.layout(), chosen);
}

TileValues tile_divide_approx(DType dtype, const TileOperand& a, const TileOperand& b) {
  const Common common({&a, &b});
  auto wide = [&](const TileOperand& o) {
    return tile_convert(DType::f32, {dtype, common.layout(), common.words(dtype, o)});
  };
  TileValues x = wide(a), y = wide(b);
  for (size_t i = 0; i < x.words.size(); ++i)
    x.words[i] = div_full_ftz_f32(f32(x.words[i].handle()), f32(y.words[i].handle()));
  return tile_convert(dtype, x);
}

TileValues tile_function(const TileValues& x, const std::function<f32(f32)>& function) {
  TileValues wide = tile_convert(DType::f32, x);
  for (Value& v : wide.words) v = function(f32(v.handle()));
  return tile_convert(*x.dtype, wide);
}

}  // namespace ptxbuilder::detail
