// Defines register tiles without a static element type. RegisterTile adds the type.
#pragma once

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/packed.h"
#include "ptxbuilder/plan/elements.h"
#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder {

// An operation that combines several elements into one.
enum class Reduction : uint8_t { add, max, min, prod };

namespace detail {

// The registers of one thread, in the order of the layout's values. A register holds one f32, tf32, s32, u32
// or predicate, two f16 or bf16 elements, or four bytes. Bits beyond the last element are undefined.
struct TileValues {
  std::optional<DType> dtype;  // empty for predicates
  RegisterLayout layout;
  std::vector<Value> words;
};

// A tile or, if there is no layout, a scalar. For a scalar, there is one register, which contains the scalar
// in each of its parts.
struct TileOperand {
  std::optional<RegisterLayout> layout;
  std::vector<Value> words;
  Where where = Where::here();
};

inline TileOperand operand_of(const TileValues& x) { return {x.layout, x.words, {}}; }

// A partial reduction: one value for each row or column, in the layout of the completed reduction. Each
// thread holds the result for its own elements only. Threads whose numbers differ only in `shared_bits` share
// a row or column. Elements have 32 bits.
struct PartialValues {
  TileValues own;
  int shared_bits;
};

// Returns whether elements are f16 or bf16.
inline bool is_half(std::optional<DType> dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Return the number of elements in a register, and the register's class.
int per_word(std::optional<DType> dtype);
Class word_class(std::optional<DType> dtype);

template <class T>
constexpr std::optional<DType> dtype_of_element() {
  if constexpr (requires { T::dtype; }) return T::dtype;
  return std::nullopt;
}

// Returns the elements that a thread holds as f32 (also for tf32), f16, bf16, s32, u32 or pred values.
// Elements of 8 bits are returned as u32.
std::vector<Value> elements_of(const TileValues& x);
TileValues from_elements(std::optional<DType> dtype, const RegisterLayout& layout,
                         const std::vector<Value>& elements);
Value tile_element(const TileValues& x, int i);
TileValues tile_part(const TileValues& x, const TilePart& part);
// Make a tile from a thread's elements or registers. Both functions throw Error if the layout requires a
// different number of elements or registers.
TileValues tile_of_elements(std::optional<DType> dtype, const RegisterLayout& layout,
                            const std::vector<Value>& elements);
TileValues tile_of_registers(DType dtype, const RegisterLayout& layout, const std::vector<u32>& registers);
std::vector<u32> registers_of(const TileValues& x);

TileOperand scalar_operand(DType dtype, Value value, Where where);
TileValues filled(DType dtype, Value value, const RegisterLayout& layout);

// Applies an operation to each element. If `dtype` is empty, the operands are predicates, and the operation
// must be bit_and, bit_or or bit_xor.
TileValues tile_arithmetic(Arithmetic operation, std::optional<DType> dtype, const TileOperand& a,
                           const TileOperand& b);
TileValues tile_comparison(Comparison comparison, DType dtype, const TileOperand& a, const TileOperand& b);
TileValues tile_not(const TileValues& a);  // inverts predicates, or every bit
TileValues tile_unary(Unary operation, const TileValues& a);
TileValues tile_fma(DType dtype, const TileOperand& a, const TileOperand& b, const TileOperand& c);
TileValues tile_select(DType dtype, const TileOperand& condition, const TileOperand& a, const TileOperand& b);
TileValues tile_divide_approx(DType dtype, const TileOperand& a, const TileOperand& b);
TileValues tile_function(const TileValues& x, const std::function<f32(f32)>& function);
TileValues tile_index(const RegisterLayout& layout, bool rows);

TileValues tile_convert(DType to, const TileValues& x);

// Combines two registers of the same class.
Value combined(Reduction operation, Class cls, Value a, Value b);
PartialValues tile_partial(Reduction operation, const TileValues& x, bool keep_rows);
TileValues tile_complete(Reduction operation, const PartialValues& x);
void check_same_parts(const PartialValues& a, const PartialValues& b);
PartialValues partial_combine(Reduction operation, const PartialValues& a, const PartialValues& b);
PartialValues partial_scale(Arithmetic operation, const PartialValues& x, const TileOperand& factor);
TileValues tile_reduce(Reduction operation, const TileValues& x, bool keep_rows);
TileValues tile_broadcast(const TileValues& x, const RegisterLayout& layout);
TileValues tile_layout_cast(const TileValues& x, const RegisterLayout& layout);

std::vector<llvm::Value*> tile_variables(const TileValues& like);
void tile_assign(const std::vector<llvm::Value*>& variables, const RegisterLayout& layout,
                 const TileOperand& value);
TileValues tile_read(const std::vector<llvm::Value*>& variables, std::optional<DType> dtype,
                     const RegisterLayout& layout);

}  // namespace detail

}  // namespace ptxbuilder
