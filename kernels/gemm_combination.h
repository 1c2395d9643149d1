// What the small matrix products that combine one way to copy with one way to multiply have in common.
#pragma once

#include "kernels/command/family.h"
#include "kernels/gemm_run.h"

namespace ptxbuilder::kernels {

inline std::vector<command::Field> combination_fields() {
  return {{"m", 256, "rows of A and D"},
          {"n", 256, "rows of B, columns of D", 8},
          {"k", 256, "columns of A and B", 8}};
}

// D[m,n] = sum_k A[m,k] B[n,k] in bf16 by CTAs of bm x bn, checked and measured. `arguments` are the
// kernel's.
using CombinationArguments = std::function<std::vector<runtime::Argument>(
    const command::Tensor& a, const command::Tensor& b, const command::Tensor& d)>;
inline void run_combination(const command::Fields& f, command::Run& run, size_t bm, size_t bn,
                            const CombinationArguments& arguments) {
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  runtime::Dim3 grid = {static_cast<uint32_t>((n + bn - 1) / bn), static_cast<uint32_t>((m + bm - 1) / bm)};
  run_product(run, {m, n, k}, [&](const auto& a, const auto& b, const auto& d) {
    run.launch({.grid = grid}, arguments(a, b, d));
  });
}

inline runtime::Argument size_argument(const command::Fields& f, const std::string& name) {
  return runtime::scalar(static_cast<uint32_t>(f[name]));
}

}  // namespace ptxbuilder::kernels
