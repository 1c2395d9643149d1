// Evaluates layout expressions in CuTe's notation: composition((4,(2,4)):(1,(16,4)), 8:2).
//
//   expression  term, or term o term ... (a composition). Sw<3,4,3> o L and Sw<3,4,3> o 64 o L add a swizzle
//               to a layout.
//   term        primary or shape:stride, followed by any number of calls. L(3), L(1,2) and L((1,2)) evaluate
//               a layout, and L(_,2) slices it. A term may begin with the base that CuTe prints before a
//               layout: smem_ptr[16b](unset) o L or ArithTuple(_0,_0) o L. In
//               Sw<3,4,3> o smem_ptr[16b](unset) o L, the swizzle acts on bytes, so the value is
//               Sw<3,3,3> o L.
//   primary     an integer, 2@1 (a stride scaled to a basis vector), _, (a,b,..), <a,b,..>, Sw<B,M,S>, or
//               function(a, b, ..)
//
// A tuple of integers is a shape, stride, coordinate or tiler, depending on the context; (4) is a tuple of
// one element. If a layout is expected, a shape stands for its compact layout, in which the first mode is
// contiguous.
#pragma once

#include <string_view>

#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// The value of an expression.
using LayoutValue = std::variant<bool, IntTuple, Tiler, Layout, ComposedLayout, XorSwizzle>;

// Evaluates an expression. If the expression is invalid, throws an Error whose message states the column
// first. `text` may have up to 16384 characters, and its parentheses may be nested at most 64 levels deep.
LayoutValue evaluate_layout(std::string_view text);

// Returns the value as CuTe would print it.
std::string to_string(const LayoutValue& value);

// Returns f(0) to f(size - 1) for a layout f, with or without a swizzle. The results are integers or, if the
// strides have a basis, coordinates. Throws Error for other kinds of values, and for more than 2^20 entries.
std::vector<IntTuple> index_table(const LayoutValue& value);

// A function that an expression can call: its syntax, such as "complement(L[, n])", and a summary, such as
// "what L leaves out below n".
struct LayoutFunction {
  std::string_view signature, summary;
};
std::vector<LayoutFunction> layout_functions();

}  // namespace ptxbuilder
