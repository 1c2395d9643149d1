// What a matrix product should be, in float64, for the kernels to be checked against.
#pragma once

#include "kernels/command/run.h"

namespace ptxbuilder::kernels {

// The lengths and strides of one dot product: sum over k of a[i a_row + k a_step] b[j b_row + k b_step], both
// from their starts.
struct DotProduct {
  size_t k;
  size_t a_row, a_step, b_row, b_step;
  size_t a_start = 0, b_start = 0;
};

struct Dot {
  double sum, magnitude;  // of the products, and of their absolute values
};

inline Dot dot_product(const command::Tensor& a, const command::Tensor& b, size_t i, size_t j,
                       const DotProduct& p) {
  Dot dot = {0, 0};
  for (size_t k = 0; k < p.k; ++k) {
    double product = a[p.a_start + i * p.a_row + k * p.a_step] * b[p.b_start + j * p.b_row + k * p.b_step];
    dot.sum += product;
    dot.magnitude += std::abs(product);
  }
  return dot;
}

// The tolerance is one rounding to the output's type, and what the tensor core's f32 accumulation loses: it
// aligns the products of a step to the largest and cuts them off, a relative 2^-22 or so of the sum of
// magnitudes for each of k / 16 steps; 2^-20 of the whole sum bounds what random data show.
inline command::Expected dot(const command::Tensor& a, const command::Tensor& b, size_t i, size_t j,
                             const DotProduct& p, DType output) {
  const Dot d = dot_product(a, b, i, j, p);
  return {d.sum, command::unit_roundoff(output) * std::abs(d.sum) * 1.01 + 0x1p-20 * d.magnitude};
}

}  // namespace ptxbuilder::kernels
