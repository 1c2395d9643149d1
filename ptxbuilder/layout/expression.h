// Evaluates layout expressions in CuTe's notation: composition((4,(2,4)):(1,(16,4)), 8:2).
//
//   expression  term, or term o term ...: composition; Sw<3,4,3> o L and Sw<3,4,3> o 64 o L swizzle a layout
//   term        primary or shape:stride, then any number of calls: L(3), L(1,2), L((1,2)) evaluate, L(_,2)
//               slices
//               Also accepts what CuTe prints before a layout: smem_ptr[16b](unset) o L, ArithTuple(_0,_0) o
//               L, and Sw<3,4,3> o smem_ptr[16b](unset) o L, whose swizzle acts on bytes, which is Sw<3,3,3>
//               o L
//   primary     an integer, 2@1 (a stride scaled to a basis vector), _, (a,b,..), <a,b,..>, Sw<B,M,S>, or
//               function(a, b, ..)
//
// A tuple of integers is a shape, stride, coordinate or tiler, depending on the context; (4) is a tuple of
// one element. If a layout is expected, a shape means its compact layout, whose first mode is contiguous.
#pragma once

#include <string_view>

#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// The value of an expression has one of these types.
using LayoutValue = std::variant<bool, IntTuple, Tiler, Layout, ComposedLayout, XorSwizzle>;

// Throws Error that begins with "column N: ". `text` may have up to 16384 characters, nested at most 64
// levels deep.
LayoutValue evaluate_layout(std::string_view text);

// Returns the text that CuTe prints for the value.
std::string to_string(const LayoutValue& value);

// Returns f(0) to f(size - 1) of a layout f, with or without a swizzle: integers or, if its strides have a
// basis, coordinates. Throws Error for other values, and for more than 2^20 entries.
std::vector<IntTuple> index_table(const LayoutValue& value);

// The functions that an expression can call, each with its syntax, "complement(L[, n])", and its meaning,
// "what L leaves out below n".
struct LayoutFunction {
  std::string_view signature, summary;
};
std::vector<LayoutFunction> layout_functions();

}  // namespace ptxbuilder
