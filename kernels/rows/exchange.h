// Exchanges numbers between the warps that share a row, within a CTA or a cluster.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/rows/operation.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

using Numbers = RegisterTile<f32>;

// The numbers of all parts of a row. Each warp that shares the row holds one part.
class RowParts {
 public:
  // Calls `of` with the numbers of each part, and reduces the results with add or max. All threads get the
  // result.
  using OfNumbers = std::function<Numbers(const std::vector<Numbers>&)>;
  Numbers reduce(Reduction operation, const OfNumbers& of) const;

 private:
  friend class RowExchange;
  explicit RowParts(std::vector<Numbers> own) : own_(std::move(own)) {}

  std::vector<Numbers> own_;
  std::optional<sptr<f32>> places_;  // numbers of all parts in shared memory, if there are several parts
  int count_ = 1;
};

// Each warp sends its numbers to a place in the shared memory of every CTA, and all threads read all numbers.
// Calls use several sets of places cyclically. Within a CTA, two sets suffice: before a thread writes to a
// place again, it has passed the barrier of the call in between, and all threads had read the old numbers
// when they arrived at this barrier. Sending to another CTA does not order earlier accesses. Therefore, if
// rows follow each other, the CTAs of a cluster also synchronize each time they have read half of the sets.
class RowExchange {
 public:
  // Must be constructed outside roles.
  RowExchange(Kernel& kernel, const RowProblem& problem);

  // Sends the numbers of this warp's part, which must be the same in all threads of the warp. All threads
  // that share a row must call this function, and must read the result before they call it again.
  RowParts operator()(std::vector<Numbers> own);
  // Must be called after the last exchange.
  void finish();

 private:
  void send_in_cta(sptr<f32> places, const std::vector<Numbers>& own);
  void send_to_cluster(sptr<f32> places, const std::vector<Numbers>& own);

  static constexpr uint32_t kCallsOfMeeting = 4;
  const int warps_, ctas_;
  const bool is_repeated_;
  int sets_ = 2;
  int calls_ = 0;
  std::optional<SharedTile> places_;
  std::optional<Var<u32>> turn_;
  std::optional<NamedBarrier> all_;  // set if one CTA holds the row
  std::optional<Barriers> arrived_;  // set if several CTAs share the row
  std::optional<Phases> phases_;
};

}  // namespace ptxbuilder::kernels
