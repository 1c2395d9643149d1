// This code is shared by the small matrix products that combine one way to copy with one way to multiply.
#pragma once

#include "kernels/family/family.h"
#include "kernels/steps/gemm_run.h"

namespace ptxbuilder::kernels {

inline std::vector<command::Field> combination_fields() {
  return {{"m", 256, "rows of A and D"},
          {"n", 256, "rows of B, columns of D", 8},
          {"k", 256, "columns of A and B", 8}};
}

// States the grid and the meanings of a kernel with CTAs of bm x bn; `m` and `n` are rules for D's
// extents.
inline void state_launch(Kernel& k, int bm, int bn, const std::string& m, const std::string& n) {
  k.grid(ctas_along(n, bn), ctas_along(m, bm));
  k.describe({{"A", "m rows of K"}, {"B", "n rows of K"}, {"D", "A B^T: m rows of n"}, {"K", "depth"}});
}

// Checks and measures D[m,n] = sum_k A[m,k] B[n,k] in bf16. `arguments` returns the kernel's arguments.
using CombinationArguments = std::function<std::vector<runtime::Argument>(
    const command::Tensor& a, const command::Tensor& b, const command::Tensor& d)>;
inline void run_combination(const command::Fields& f, command::Run& run,
                            const CombinationArguments& arguments) {
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  run_product(run, {m, n, k},
              [&](const auto& a, const auto& b, const auto& d) { run.launch(arguments(a, b, d)); });
}

inline runtime::Argument size_argument(const command::Fields& f, const std::string& name) {
  return runtime::scalar(static_cast<uint32_t>(f[name]));
}

}  // namespace ptxbuilder::kernels
