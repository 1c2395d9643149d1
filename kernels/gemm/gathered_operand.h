// The operand A of gemm() if its rows are selected by indices. The threads of the producer copy each row into
// the tile.
#pragma once

#include "kernels/gemm/gathered_tile.h"
#include "kernels/gemm/parameters.h"
#include "kernels/gemm/staged_operand.h"

namespace ptxbuilder::kernels {

class GatheredOperand {
 public:
  // The producer constructs this object in its role, and all threads of the producer must call the functions
  // below.
  GatheredOperand(const GemmOperation& o, const GemmParameters& p, const SharedTile& tile)
      : index_(p.get<gptr<s32>>("a_rows")),
        tile_(o.a, tile, p.get<gmem>("A"), p.get<u32>("rows_of_a"), p.get<u32>("K"), p.get<u32>("lda")) {}

  // Selects the product's rows that begin at `first` for the next loads. Rows at `end` and above are replaced
  // with zeros.
  void begin(u32 first, u32 end) { tile_.point(index_, first, end); }
  void load(const Stage& s, u32 k) const { tile_.load(s, k); }

 private:
  gptr<s32> index_;
  GatheredTile tile_;
};

}  // namespace ptxbuilder::kernels
