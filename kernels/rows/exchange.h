// The warps that share a row, of one CTA or of those of a cluster, exchange here what each has of it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/rows/operation.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

using Numbers = RegisterTile<f32>;

// The warps that share a row know some numbers of it each. Rows that a warp has alone are one part.
class RowParts {
 public:
  // It reduces what `of` makes of the numbers of each part over all parts, by add or max; all threads get it.
  using OfNumbers = std::function<Numbers(const std::vector<Numbers>&)>;
  Numbers reduce(Reduction operation, const OfNumbers& of) const;

 private:
  friend class RowExchange;
  explicit RowParts(std::vector<Numbers> own) : own_(std::move(own)) {}

  std::vector<Numbers> own_;
  std::optional<sptr<f32>> places_;  // of all parts, where there are several
  int count_ = 1;
};

// Each warp sends its numbers to a place in shared memory of every CTA, and all threads read all numbers.
// There are sets of places, which calls take in turn. In a CTA there are two: whoever writes a place for the
// second time has passed the meeting of the call between, to which all came when they had read the first
// ones. What is sent to another CTA orders nothing of what came before it, so that where rows follow each
// other the CTAs of a cluster also meet when they have read half of the sets.
class RowExchange {
 public:
  // It is made outside of roles.
  RowExchange(Kernel& kernel, const RowProblem& problem);

  // It sends numbers of each row, which all threads of a warp have alike. All threads that share a row call
  // it, and read what they get before they call it again.
  RowParts operator()(std::vector<Numbers> own);
  // It is called after the last exchange.
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
  std::optional<NamedBarrier> all_;  // where one CTA has the row
  std::optional<Barriers> arrived_;  // where several have it
  std::optional<Phases> phases_;
};

}  // namespace ptxbuilder::kernels
