// Exchanges numbers of a row between the warps that share the row, in one CTA or in a cluster.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/rows/operation.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

using Numbers = RegisterTile<f32>;

// The numbers that each of the warps that share a row holds. A row that one warp holds has one part.
class RowParts {
 public:
  // Reduces the results of `of` over all parts, with add or max; all threads get the result.
  using OfNumbers = std::function<Numbers(const std::vector<Numbers>&)>;
  Numbers reduce(Reduction operation, const OfNumbers& of) const;

 private:
  friend class RowExchange;
  explicit RowParts(std::vector<Numbers> own) : own_(std::move(own)) {}

  std::vector<Numbers> own_;
  std::optional<sptr<f32>> places_;  // the places of all parts, if there are several
  int count_ = 1;
};

// Each warp sends its numbers to a place in shared memory of every CTA, and all threads read all numbers.
// There are several sets of places, which calls use in turn. A CTA needs two sets: a thread that writes a
// place for the second time has passed the barrier of the call in between, at which all threads arrived after
// they had read the first numbers. Sending to another CTA does not order earlier accesses, so if rows follow
// each other, the CTAs of a cluster also synchronize after they have read half of the sets.
class RowExchange {
 public:
  // Construct the exchange outside roles.
  RowExchange(Kernel& kernel, const RowProblem& problem);

  // Sends numbers of each row, which all threads of a warp must hold identically. All threads that share a
  // row must call this, and must read the result before they call it again.
  RowParts operator()(std::vector<Numbers> own);
  // Call this after the last exchange.
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
  std::optional<NamedBarrier> all_;  // present if one CTA holds the row
  std::optional<Barriers> arrived_;  // present if several CTAs hold the row
  std::optional<Phases> phases_;
};

}  // namespace ptxbuilder::kernels
