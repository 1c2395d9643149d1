// Layout expressions in CuTe's notation, evaluated: composition((4,(2,4)):(1,(16,4)), 8:2).
//
//   expression  term, or term o term ...: composition; Sw<3,4,3> o L and Sw<3,4,3> o 64 o L swizzle a layout
//   term        primary or shape:stride, then any number of calls: L(3), L(1,2), L((1,2)) evaluate, L(_,2)
//               slices
//               What CuTe prints ahead of a layout is read too: smem_ptr[16b](unset) o L, ArithTuple(_0,_0) o
//               L, and Sw<3,4,3> o smem_ptr[16b](unset) o L, whose swizzle acts on bytes, which is Sw<3,3,3>
//               o L
//   primary     an integer, 2@1 (a stride scaled to a basis vector), _, (a,b,..), <a,b,..>, Sw<B,M,S>, or
//               function(a, b, ..)
//
// A tuple of integers alone is a shape, stride, coordinate, or tiler, as its place wants it; (4) is a tuple
// of one. Where a layout is wanted, a shape means its compact layout, the first mode contiguous.
#pragma once

#include <string_view>

#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// An expression yields one of these.
using LayoutValue = std::variant<bool, IntTuple, Tiler, Layout, ComposedLayout, XorSwizzle>;

// Throws Error that begins with "column N: ". Texts are at most 16384 characters, nested at most 64 deep.
LayoutValue evaluate_layout(std::string_view text);

// The text is as CuTe prints it.
std::string to_string(const LayoutValue& value);

// f(0) to f(size - 1) of a layout, swizzled or not: integers, or coordinates where its strides have a basis.
// Throws Error for other values, and for more than 2^20 entries.
std::vector<IntTuple> index_table(const LayoutValue& value);

// An expression can call these: "complement(L[, n])" and "what L leaves out below n".
struct LayoutFunction {
  std::string_view signature, summary;
};
std::vector<LayoutFunction> layout_functions();

}  // namespace ptxbuilder
