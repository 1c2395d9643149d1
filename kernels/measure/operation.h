// Converts a problem of the benchmark to an operation of the project's matrix product.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

inline kernels::GemmOperation operation_of(const GemmProblem& p) {
  kernels::GemmOperation o;
  o.a = p.a;
  o.b = p.b;
  o.d = p.d;
  o.a_k_major = p.a_k_major;
  o.b_k_major = p.b_k_major;
  o.fast_accumulation = p.fast_accumulation;
  o.d_by_threads = p.d_columns_by_tma() < p.n;
  return o;
}

}  // namespace ptxbuilder::bench
