// A as rows that an index names, in gemm(): the threads of the producer copy each of them to its place.
#pragma once

#include "kernels/gemm/gathered_tile.h"
#include "kernels/gemm/parameters.h"
#include "kernels/gemm/staged_operand.h"

namespace ptxbuilder::kernels {

class GatheredOperand {
 public:
  // It is made in the role of the producer, whose threads all call what follows.
  GatheredOperand(const GemmOperation& o, const GemmParameters& p, const SharedTile& tile)
      : index_(p.get<gptr<s32>>("a_rows")),
        tile_(o.a, tile, p.get<gmem>("A"), p.get<u32>("rows_of_a"), p.get<u32>("K"), p.get<u32>("lda")) {}

  // The next stages have the product's rows from `first` on, and zeros for those from `end` on.
  void begin(u32 first, u32 end) { tile_.point(index_, first, end); }
  void load(const Stage& s, u32 k) const { tile_.load(s, k); }

 private:
  gptr<s32> index_;
  GatheredTile tile_;
};

}  // namespace ptxbuilder::kernels
