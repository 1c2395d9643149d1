// The rows of the tuned table, for tests of its contents.
#pragma once

#include <vector>

#include "kernels/gemm/choice.h"

namespace ptxbuilder::test {

struct TunedRow {
  DType a, d;
  const char* layout;  // in the letters of GEMM libraries for row-major data: T or N for B, then for A
  kernels::GemmSize size;
  const char* tile;

  kernels::GemmOperation operation() const {
    kernels::GemmOperation o;
    o.a = o.b = a;
    o.d = d;
    o.b_k_major = layout[0] == 'T';
    o.a_k_major = layout[1] == 'N';
    return o;
  }
};

inline const std::vector<TunedRow>& tuned_rows() {
  static const std::vector<TunedRow> all = {
#define PTXBUILDER_TUNED(a, d, layout, m, n, k, tile) {DType::a, DType::d, layout, {m, n, k, 1}, tile},
#include "kernels/gemm/tuned.def"
#undef PTXBUILDER_TUNED
  };
  return all;
}

}  // namespace ptxbuilder::test
