// Defines functions on tiles that a store applies to a product before rounding. The functions compose like
// other functions:
//
//   GlobalTensor bias(pbias, {n}), residual(pc, {m, n}, {ldc, 1});
//   store<bf16>(D, acc, row, col, [&](const RegisterTile<f32>& x, const PanelPlace& at) {
//     return gelu(add_residual(add_bias(x * alpha, bias, at), residual, at, beta));
//   });
//
// Rows and columns refer to the output, even if the store is transposed. For example, a bias applies to the
// columns of the output. Elements that are read outside a tensor are 0.
#pragma once

#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder {

// Returns max(x, 0), except that NaN stays NaN, which max() would replace with 0.
inline RegisterTile<f32> relu(const RegisterTile<f32>& x) {
  return select(x < 0, RegisterTile<f32>(0, x.layout()), x);
}

// Returns the square of relu(x). The result is infinite if x is above the square root of the greatest f32.
inline RegisterTile<f32> relu_squared(const RegisterTile<f32>& x) { return x * relu(x); }

// Returns 1 / (1 + e^-x), using the approximate ex2 (PTX ISA, ex2.approx).
inline RegisterTile<f32> sigmoid(const RegisterTile<f32>& x) {
  constexpr double kLog2OfE = 1.4426950408889634;
  return 1 / (exp2(x * -kLog2OfE, Approx::yes) + 1);
}

// Returns x sigmoid(x), also called swish.
inline RegisterTile<f32> silu(const RegisterTile<f32>& x) { return x * sigmoid(x); }

// Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), where 1 + tanh(y) = 2 sigmoid(2 y).
inline RegisterTile<f32> gelu(const RegisterTile<f32>& x) {
  constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
  return x * sigmoid((x + x * x * x * 0.044715) * kTwoRootTwoOverPi);
}

// Return the derivatives of the activations above, for the backward pass through a network.
inline RegisterTile<f32> relu_slope(const RegisterTile<f32>& x) {
  return select(x > 0, RegisterTile<f32>(1, x.layout()), 0);
}
inline RegisterTile<f32> relu_squared_slope(const RegisterTile<f32>& x) { return relu(x) * 2; }
inline RegisterTile<f32> silu_slope(const RegisterTile<f32>& x) {
  const RegisterTile<f32> s = sigmoid(x);
  return s + x * s * (1 - s);
}
inline RegisterTile<f32> gelu_slope(const RegisterTile<f32>& x) {
  constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
  const RegisterTile<f32> s = sigmoid((x + x * x * x * 0.044715) * kTwoRootTwoOverPi);
  // The bound avoids an infinite x^2. For such an x, s (1 - s) is already 0.
  const RegisterTile<f32> square = min(x * x, 1e30F);
  return s + x * s * (1 - s) * (square * (3 * 0.044715 * kTwoRootTwoOverPi) + kTwoRootTwoOverPi);
}

// Return columns 0, 2, 4, ... or columns 1, 3, 5, ... of a panel, for a store with StoreOptions::pairs. Each
// thread holds both columns of a pair, so no instructions are needed. Both functions throw Error unless the
// tile is in wgmma_layout(64, n) and n is a multiple of 16.
//   silu(even_columns(x)) * odd_columns(x)
RegisterTile<f32> even_columns(const RegisterTile<f32>& x, Where where = Where::here());
RegisterTile<f32> odd_columns(const RegisterTile<f32>& x, Where where = Where::here());

// Returns x rounded to T, for networks that store sums as T before further operations.
template <TileElement T>
RegisterTile<f32> rounded(const RegisterTile<f32>& x) {
  return astype<f32>(astype<T>(x));
}

// Return the elements that belong to a panel, from a vector with one element for each column (row) of the
// output. In arithmetic with the panel, each element applies to the corresponding column (row).
template <TileElement T>
RegisterTile<f32> of_columns(const GlobalTensor<T, 1>& v, const RegisterLayout& panel, const PanelPlace& at) {
  if (at.transposed) return astype<f32>(load(v.as_col().tile(at.row, 0), panel.reduced_rows()));
  return astype<f32>(load(v.as_row().tile(0, at.col), panel.reduced_cols()));
}
template <TileElement T>
RegisterTile<f32> of_rows(const GlobalTensor<T, 1>& v, const RegisterLayout& panel, const PanelPlace& at) {
  if (at.transposed) return astype<f32>(load(v.as_row().tile(0, at.col), panel.reduced_cols()));
  return astype<f32>(load(v.as_col().tile(at.row, 0), panel.reduced_rows()));
}
// Return the elements that belong to a panel, from a matrix with the output's shape or from a tensor with one
// such matrix per batch. If the store has no batch, the overload for batches throws Error.
template <TileElement T>
RegisterTile<f32> of_elements(const GlobalTensor<T, 2>& c, const RegisterLayout& panel,
                              const PanelPlace& at) {
  return astype<f32>(load((at.transposed ? c.transposed() : c).tile(at.row, at.col), panel));
}
template <TileElement T>
RegisterTile<f32> of_elements(const GlobalTensor<T, 3>& c, const RegisterLayout& panel, const PanelPlace& at,
                              Where where = Where::here()) {
  AtLine line(where);
  if (!at.batch) throw Error("epilogue: a tensor of batches, but the store has no batch");
  return of_elements(c(*at.batch, _, _), panel, at);
}

template <TileElement T>
RegisterTile<f32> add_bias(const RegisterTile<f32>& x, const GlobalTensor<T, 1>& bias, const PanelPlace& at) {
  return x + of_columns(bias, x.layout(), at);
}
// Multiply each column (row) of x by its own scale.
template <TileElement T>
RegisterTile<f32> scale_columns(const RegisterTile<f32>& x, const GlobalTensor<T, 1>& scales,
                                const PanelPlace& at) {
  return x * of_columns(scales, x.layout(), at);
}
template <TileElement T>
RegisterTile<f32> scale_rows(const RegisterTile<f32>& x, const GlobalTensor<T, 1>& scales,
                             const PanelPlace& at) {
  return x * of_rows(scales, x.layout(), at);
}
// Returns x + beta * c, rounded once. c may be in the memory that the output overwrites.
template <TileElement T, size_t rank>
RegisterTile<f32> add_residual(const RegisterTile<f32>& x, const GlobalTensor<T, rank>& c,
                               const PanelPlace& at, const TileArgument<f32>& beta = 1) {
  return fma(of_elements(c, x.layout(), at), beta, x);
}

// Returns x unchanged, and raises the number at `greatest` to the greatest absolute value in an output of
// `rows` x `cols`. If the output contains a NaN, the number becomes NaN. Use this function to compute the
// scales of 8-bit outputs.
RegisterTile<f32> amax(const RegisterTile<f32>& x, gptr<f32> greatest, const Index& rows, const Index& cols,
                       const PanelPlace& at, Where where = Where::here());

}  // namespace ptxbuilder
