// Where the warps that share a row, of one CTA or of those of a cluster, exchange what each has of it.
#pragma once

#include <optional>

#include "kernels/rows/operation.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

// Each warp sends its number to a place in shared memory of every CTA, and all threads read all numbers.
// There are two sets of places, which calls take in turn. In a CTA, whoever writes a place for the second
// time has passed the meeting of the call between, to which all came when they had read the first ones. What
// is sent to another CTA orders nothing of what came before it, so that where rows follow each other the CTAs
// of a cluster also tell when they have read.
class RowExchange {
 public:
  // It is made outside of roles.
  RowExchange(Kernel& kernel, const RowProblem& problem);

  bool is_needed() const { return parts_.has_value(); }
  // The last call was made.
  void finish();
  // Of a number that all threads of a warp have, the sum or maximum over all warps that share the row.
  f32 reduce(Reduction operation, f32 x);

 private:
  void send_in_cta(sptr<f32> parts, f32 x);
  void send_to_cluster(sptr<f32> parts, f32 x);

  const int warps_, ctas_;
  const bool is_repeated_;
  int calls_ = 0;
  std::optional<SharedTile> parts_;
  std::optional<Var<u32>> turn_;
  std::optional<NamedBarrier> all_;  // where one CTA has the row
  std::optional<Barriers> arrived_;  // where several have it
  std::optional<Phases> phases_;
};

}  // namespace ptxbuilder::kernels
