#include "ptxbuilder/registers/values.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/registers/place.h"

namespace ptxbuilder::detail {
namespace {

size_t words_for(std::optional<DType> dtype, int elements) {
  int per = per_word(dtype);
  return static_cast<size_t>((elements + per - 1) / per);
}

u32 byte_of(Value word, int i) { return (u32(word.handle()) >> (8 * i)) & 0xff; }

}  // namespace

int per_word(std::optional<DType> dtype) { return dtype ? 4 / size_of(*dtype) : 1; }

Class word_class(std::optional<DType> dtype) {
  if (!dtype) return Class::pred;
  switch (*dtype) {
    case DType::f32:
    case DType::tf32:
      return Class::f32;
    case DType::s32:
      return Class::s32;
    default:
      return Class::u32;
  }
}

std::vector<Value> elements_of(const TileValues& x) {
  if (per_word(x.dtype) == 1) return x.words;
  std::vector<Value> elements;
  for (int v = 0; v < x.layout.values(); ++v) {
    Value word = x.words[static_cast<size_t>(v / per_word(x.dtype))];
    elements.push_back(is_half(x.dtype) ? Value(unpack(*x.dtype, word.handle(), v % 2))
                                        : byte_of(word, v % 4));
  }
  return elements;
}

TileValues from_elements(std::optional<DType> dtype, const RegisterLayout& layout,
                         const std::vector<Value>& elements) {
  if (per_word(dtype) == 1) return {dtype, layout, elements};
  TileValues x{dtype, layout, {}};
  size_t per = static_cast<size_t>(per_word(dtype));
  // Parts of a register beyond the last element repeat the last element, so that all parts of a splat's
  // register have the same value.
  auto at = [&](size_t i) { return elements[std::min(i, elements.size() - 1)]; };
  for (size_t v = 0; v < elements.size(); v += per) {
    if (is_half(dtype)) {
      x.words.emplace_back(pack(*dtype, at(v).handle(), at(v + 1).handle()));
      continue;
    }
    u32 word(at(v).handle());
    for (size_t i = 1; i < per; ++i) word = word | u32(at(v + i).handle()) << static_cast<uint32_t>(8 * i);
    x.words.push_back(word);
  }
  return x;
}

Value tile_element(const TileValues& x, int i) {
  if (i < 0 || i >= x.layout.values())
    throw Error(fmt::format("register tile: value {} was requested, but a thread holds {} of {}", i,
                            x.layout.values(), x.layout.describe()));
  return elements_of(x)[static_cast<size_t>(i)];
}

TileValues tile_part(const TileValues& x, const TilePart& part) {
  const TileExtent extent = x.layout.extent();
  check_part(part, extent, "part");
  if (!(x.layout == wgmma_layout(extent.rows, extent.cols)))
    throw Error(
        fmt::format("part: the layout of the tile is {}; layout_cast it to wgmma_layout({}, {}) first",
                    x.layout.describe(), extent.rows, extent.cols));
  // A thread's values are ordered by groups of 8 columns, and within blocks of 64 rows.
  const int of_8_columns = 4 / per_word(x.dtype), of_block = extent.cols / 8 * of_8_columns;
  TileValues y{x.dtype, wgmma_layout(part.rows, part.cols), {}};
  for (int block = part.row / 64; block < (part.row + part.rows) / 64; ++block) {
    auto first = x.words.begin() + block * of_block + part.col / 8 * of_8_columns;
    y.words.insert(y.words.end(), first, first + part.cols / 8 * of_8_columns);
  }
  return y;
}

TileValues tile_of_elements(std::optional<DType> dtype, const RegisterLayout& layout,
                            const std::vector<Value>& elements) {
  if (static_cast<int>(elements.size()) != layout.values())
    throw Error(fmt::format("register tile: {} elements were given, but a thread holds {} of {}",
                            elements.size(), layout.values(), layout.describe()));
  return from_elements(dtype, layout, elements);
}

TileValues tile_of_registers(DType dtype, const RegisterLayout& layout, const std::vector<u32>& registers) {
  if (registers.size() != words_for(dtype, layout.values()))
    throw Error(
        fmt::format("register tile: {} registers were given, but a thread has {} {}, {} to a register, of {}",
                    registers.size(), layout.values(), name(dtype), per_word(dtype), layout.describe()));
  TileValues x{dtype, layout, {}};
  for (u32 r : registers)
    x.words.push_back(word_class(dtype) == Class::f32 ? Value(bit_cast<f32>(r)) : Value(r));
  return x;
}

std::vector<u32> registers_of(const TileValues& x) {
  std::vector<u32> registers;
  for (Value v : x.words)
    registers.push_back(word_class(x.dtype) == Class::f32 ? bit_cast<u32>(f32(v.handle())) : u32(v.handle()));
  return registers;
}

TileOperand scalar_operand(DType dtype, Value value, Where where) {
  AtLine line(where);
  if (!is_half(dtype)) return {std::nullopt, {value}, where};
  return {std::nullopt, {Value(pack(dtype, value.handle(), value.handle()))}, where};
}

TileValues filled(DType dtype, Value value, const RegisterLayout& layout) {
  Value word = scalar_operand(dtype, value, {}).words[0];
  return {dtype, layout, std::vector<Value>(words_for(dtype, layout.values()), word)};
}

TileValues tile_index(const RegisterLayout& layout, bool rows) {
  if (layout.is_splat())
    throw Error(fmt::format("index: {} holds one value for all elements, which have no separate coordinates",
                            layout.describe()));
  TileValues x{DType::u32, layout, {}};
  Places places(layout);
  for (int v = 0; v < layout.values(); ++v) x.words.push_back(rows ? places.row(v) : places.col(v));
  return x;
}

std::vector<llvm::Value*> tile_variables(const TileValues& like) {
  std::vector<llvm::Value*> variables;
  for (size_t i = 0; i < like.words.size(); ++i)
    variables.push_back(Builder::current().declare_variable(word_class(like.dtype)));
  return variables;
}

void tile_assign(const std::vector<llvm::Value*>& variables, const RegisterLayout& layout,
                 const TileOperand& value) {
  Builder& builder = Builder::current(value.where);
  bool one = !value.layout || (value.layout->is_splat() && value.layout->extent() == layout.extent());
  if (!one && !(*value.layout == layout))
    throw Error(value.where, fmt::format("register tile: a Var of {} cannot hold a tile of {}; assign "
                                         "layout_cast(tile, variable.layout())",
                                         layout.describe(), value.layout->describe()));
  for (size_t i = 0; i < variables.size(); ++i)
    builder.store_variable(variables[i], value.words[one ? 0 : i].handle());
}

TileValues tile_read(const std::vector<llvm::Value*>& variables, std::optional<DType> dtype,
                     const RegisterLayout& layout) {
  TileValues x{dtype, layout, {}};
  for (llvm::Value* v : variables)
    x.words.emplace_back(Builder::current().load_variable(v, word_class(dtype)));
  return x;
}

}  // namespace ptxbuilder::detail
