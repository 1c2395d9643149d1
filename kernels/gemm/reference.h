// Computes the expected result of a matrix product in float64, so that kernels can be checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/family/run.h"
#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// The length and the strides of one dot product, the sum over k of a[a_start + i a_row + k a_step] b[b_start
// + j b_row + k b_step].
struct DotProduct {
  size_t k;
  size_t a_row, a_step, b_row, b_step;
  size_t a_start = 0, b_start = 0;
};

struct Dot {
  double sum, magnitude;  // sum of the products, and sum of their absolute values
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

// Returns a dot product in which every 128 values of k have a factor. `factor` is called with `depth`, the
// first of the 128 values.
inline Dot scaled_dot_product(const command::Tensor& a, const command::Tensor& b, size_t i, size_t j,
                              DotProduct p, const std::function<double(size_t depth)>& factor) {
  Dot all = {0, 0};
  const size_t k = p.k;
  for (size_t depth = 0; depth < k; depth += kScaleBlock) {
    p.k = std::min<size_t>(k - depth, kScaleBlock);
    const Dot dot = dot_product(a, b, i, j, p);
    const double by = factor(depth);
    all.sum += by * dot.sum;
    all.magnitude += std::abs(by) * dot.magnitude;
    p.a_start += kScaleBlock * p.a_step;
    p.b_start += kScaleBlock * p.b_step;
  }
  return all;
}

// Returns the dot product of two contiguous rows of f32 numbers; f32 represents the values of every input
// type exactly. The code uses vectors of two doubles, which every x86-64 and aarch64 processor supports.
inline Dot dot_product(const float* a, const float* b, size_t k) {
  using Pair [[gnu::vector_size(16)]] = double;
  constexpr size_t kPairs = 4;
  Pair sums[kPairs] = {}, magnitudes[kPairs] = {};
  size_t i = 0;
  for (; i + 2 * kPairs <= k; i += 2 * kPairs)
    for (size_t e = 0; e < kPairs; ++e) {
      const size_t at = i + 2 * e;
      const Pair product = Pair{a[at], a[at + 1]} * Pair{b[at], b[at + 1]};
      sums[e] += product;
      magnitudes[e] += product < 0 ? -product : product;
    }
  Dot dot = {0, 0};
  for (size_t e = 0; e < kPairs; ++e) {
    dot.sum += sums[e][0] + sums[e][1];
    dot.magnitude += magnitudes[e][0] + magnitudes[e][1];
  }
  for (; i < k; ++i) {
    const double product = double{a[i]} * double{b[i]};
    dot.sum += product;
    dot.magnitude += std::abs(product);
  }
  return dot;
}

// Computes the dot products of a batched matrix product. If the run verifies results, all elements are
// converted to f32 once, in the constructor, unless the matrices are too large.
class DotProducts {
 public:
  DotProducts(const command::Run& run, const command::Tensor& a, const command::Tensor& b, size_t m, size_t n,
              size_t batches, const DotProduct& first)
      : a_(a), b_(b), m_(m), n_(n), first_(first) {
    constexpr size_t kMost = 1 << 26;  // limit for the elements of A and B together
    if (!run.verifies() || (m + n) * first.k * batches > kMost) return;
    rows_a_ = rows(a, m, batches, first.a_row, first.a_step);
    rows_b_ = rows(b, n, batches, first.b_row, first.b_step);
  }

  Dot operator()(size_t batch, size_t i, size_t j) const {
    const size_t k = first_.k;
    if (!rows_a_.empty())
      return dot_product(rows_a_.data() + (batch * m_ + i) * k, rows_b_.data() + (batch * n_ + j) * k, k);
    DotProduct p = first_;
    p.a_start = batch * m_ * k;
    p.b_start = batch * n_ * k;
    return dot_product(a_, b_, i, j, p);
  }

 private:
  std::vector<float> rows(const command::Tensor& t, size_t count, size_t batches, size_t row,
                          size_t step) const {
    std::vector<float> numbers;
    numbers.reserve(count * batches * first_.k);
    for (size_t batch = 0; batch < batches; ++batch)
      for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < first_.k; ++k)
          numbers.push_back(static_cast<float>(t[batch * count * first_.k + i * row + k * step]));
    return numbers;
  }

  const command::Tensor &a_, &b_;
  size_t m_, n_;
  DotProduct first_;
  std::vector<float> rows_a_, rows_b_;  // empty if the elements were not converted in the constructor
};

// Returns the expected value and its tolerance. The tolerance is one rounding to the output's type, plus the
// error of the tensor core's f32 accumulation. The tensor core aligns the products of a step to the largest
// product and truncates them. Each of the k / 16 steps thus loses about 2^-22 of its sum of magnitudes; for
// random data, 2^-20 of the total sum of magnitudes bounds the observed errors.
inline command::Expected expected_of(const Dot& d, DType output) {
  return {d.sum, unit_roundoff(output) * std::abs(d.sum) * 1.01 + 0x1p-20 * d.magnitude};
}

// A number, and how far the GPU's result may deviate from it.
struct Approximate {
  double value, lost;
};

namespace detail {

inline constexpr double kGelu = 1.5957691216057308;  // 2 sqrt(2 / pi)
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }
// Returns the slope of x s(x) at x, given s = logistic(f(x)) and the slope `inner` of f at x.
inline double slope_of_gate(double x, double s, double inner) { return s + x * s * (1 - s) * inner; }

struct ActivationReference {
  double (*value)(double x);
  double (*slope)(double x);

  // Returns a bound for how far value() deviates if x deviates by up to x.lost.
  double lost_of(const Approximate& x) const {
    const double y = value(x.value);
    return std::max(
        {1.2 * x.lost, std::abs(value(x.value + x.lost) - y), std::abs(value(x.value - x.lost) - y)});
  }
};
inline constexpr ActivationReference activation_references[] = {
#define PTXBUILDER_ACTIVATION(word, c_word, value, slope, ...) \
  {[]([[maybe_unused]] double x) -> double { return value; },  \
   []([[maybe_unused]] double x) -> double { return slope; }},
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

}  // namespace detail

inline const detail::ActivationReference& reference_of(Activation activation) {
  return detail::activation_references[static_cast<size_t>(activation)];
}

// Returns the share of the sum of magnitudes that the tensor core may lose (see expected_of()). For 8-bit
// floats, the tensor core adds with about 14 bits. With promotion the loss is limited to sums of 128 values
// of k; otherwise every step of 32 values adds to it.
inline double lost_share(const GemmOperation& o) {
  if (is_int8(o.a)) return 0;
  if (size_of(o.a) == 1) return o.promotes() ? 0x1p-12 : 0x1p-10;
  return 0x1p-20;
}

// Returns the input of the activation. `value` must return an operand's element for the current row and
// column. Each factor adds one rounding in f32. The epilogue's arithmetic and the hardware's approximations
// are accurate to a few units in the last place of f32.
inline Approximate input_of(const GemmOperation& o, const Dot& dot, double alpha, double beta,
                            const std::function<double(const ProductOperandRow&)>& value) {
  double factor = o.alpha ? alpha : 1, added = 0;
  for (const ProductOperandRow& row : product_operands) {
    if (!o.has(row.operand)) continue;
    if (row.role == OperandRole::factor) factor *= value(row);
    if (row.role == OperandRole::residual) added += beta * value(row);
    if (row.role == OperandRole::addend) added += value(row);
  }
  const double scaled = factor * dot.sum, x = scaled + added;
  const double in_epilogue = o.has_epilogue() ? 0x1p-22 * std::abs(scaled) + 1e-5 * (1 + std::abs(x)) : 0;
  return {x, std::abs(factor) * dot.magnitude * lost_share(o) + in_epilogue};
}

// Returns the activation's value at x or, in the backward pass, x times the activation's slope at `inputs`.
inline Approximate output_of(const GemmOperation& o, const Approximate& x, double inputs) {
  const detail::ActivationReference& f = reference_of(o.activation);
  if (!o.has_slope()) return {f.value(x.value), f.lost_of(x)};
  const double slope = f.slope(inputs), most = std::max(1.2, std::abs(slope));
  return {x.value * slope, most * (x.lost + 1e-5 * std::abs(x.value))};
}
inline Approximate output_of_gate(const GemmOperation& o, const Approximate& gate, const Approximate& x) {
  const detail::ActivationReference& f = reference_of(o.activation);
  const double open = f.value(gate.value);
  return {open * x.value, f.lost_of(gate) * (std::abs(x.value) + x.lost) + std::abs(open) * x.lost};
}

// Returns y times `factor` (the scale of D), clamped for 8-bit floats. The tolerance includes one rounding to
// D's type, and half the gap between the smallest numbers of this type.
inline command::Expected rounded(const GemmOperation& o, const Approximate& y, double factor) {
  double value = y.value * factor;
  if (is_fp8(o.d)) value = std::clamp(value, -greatest(o.d), greatest(o.d));
  const double subnormal = o.d == DType::f16    ? 0x1p-25
                           : o.d == DType::e4m3 ? 0x1p-10
                           : o.d == DType::e5m2 ? 0x1p-17
                                                : 0;
  return {value, unit_roundoff(o.d) * std::abs(value) * 1.01 + 1.01 * y.lost * std::abs(factor) + subnormal};
}

}  // namespace ptxbuilder::kernels
