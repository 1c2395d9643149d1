// Runs a matrix product. A run draws random operands, launches the kernel, checks the result and measures the
// rates.
#pragma once

#include "kernels/gemm/reference.h"

namespace ptxbuilder::kernels {

// A product D[m,n] = sum_k A[m,k] B[n,k]. A is stored as m rows of k, B as n rows of k or as k rows of n, and
// D as m rows of n.
struct Product {
  size_t m, n, k;
  DType input = DType::bf16, output = DType::bf16;
  bool b_k_major = true;
};

// Returns the launch rule for the number of CTAs along an extent that is divided into tiles.
inline std::string ctas_along(const std::string& extent, int64_t tile) {
  return "ceil_div(" + extent + ", " + std::to_string(tile) + ")";
}

using LaunchProduct =
    std::function<void(const command::Tensor& a, const command::Tensor& b, const command::Tensor& d)>;

// Runs and checks the product. `launch` must call run.launch().
inline void run_product(command::Run& run, const Product& p, const LaunchProduct& launch) {
  const auto [m, n, k, input, output, b_k_major] = p;
  command::Tensor a = run.normal(input, {k, m});
  command::Tensor b =
      run.normal(input, b_k_major ? std::vector<uint64_t>{k, n} : std::vector<uint64_t>{n, k});
  command::Tensor d = run.output(output, {n, m});
  launch(a, b, d);
  const DotProducts dot(run, a, b, m, n, 1, {k, k, 1, b_k_major ? k : 1, b_k_major ? 1 : n});
  run.check(d, static_cast<double>(k),
            [&, n = n, output = output](size_t i) { return expected_of(dot(0, i / n, i % n), output); });
  double dm = static_cast<double>(m), dn = static_cast<double>(n), dk = static_cast<double>(k);
  run.measure(2 * dm * dn * dk, size_of(input) * (dm * dk + dn * dk) + size_of(output) * dm * dn);
}

}  // namespace ptxbuilder::kernels
