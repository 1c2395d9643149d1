#include "kernels/rows/exchange.h"

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kLanes = 32, kMostNumbers = 4;  // kMostNumbers is the maximum for a part
constexpr int kReadByAll = 4;                 // up to this many parts, every thread reads all of them

f32 combined(Reduction operation, f32 a, f32 b) {
  if (operation == Reduction::add) return a + b;
  if (operation == Reduction::max) return max(a, b);
  throw Error("rows are reduced with add and max only");
}

}  // namespace

Numbers RowParts::reduce(Reduction operation, const OfNumbers& of) const {
  if (!places_) return of(own_);
  const RegisterLayout& rows = own_[0].layout();
  const auto part = [&](u32 i) {
    std::vector<Numbers> numbers;
    for (size_t k = 0; k < own_.size(); ++k)
      numbers.emplace_back(f32((*places_)[i * own_.size() + static_cast<uint32_t>(k)]), rows);
    return of(numbers).value(0);
  };
  std::optional<f32> all;
  if (count_ <= kReadByAll) {
    for (int i = 0; i < count_; ++i) all = all ? combined(operation, *all, part(i)) : part(i);
    return Numbers(*all, rows);
  }
  const u32 lane = tid_x() % kLanes;
  for (int first = 0; first < count_; first += kLanes) {
    // A lane without a part reads the first part again, which does not affect a maximum.
    const pred there = lane + first < static_cast<uint32_t>(count_);
    const f32 one = part(select(there, lane + first, u32(0)));
    const f32 taken = operation == Reduction::add ? select(there, one, f32(0)) : one;
    all = all ? combined(operation, *all, taken) : taken;
  }
  for (uint32_t distance = 16; distance > 0; distance /= 2)
    all = combined(operation, *all, bit_cast<f32>(shfl_sync_bfly(bit_cast<u32>(*all), distance)));
  return Numbers(*all, rows);
}

RowExchange::RowExchange(Kernel& kernel, const RowProblem& problem)
    : warps_(problem.tile.warps),
      ctas_(problem.operation->reduces ? problem.tile.ctas : 1),
      is_repeated_(problem.operation->takes_turns()) {
  if (!problem.operation->reduces || !problem.tile.is_shared()) return;
  const int places =
      (warps_ * ctas_ * kMostNumbers + kLanes - 1) / kLanes * kLanes;  // rounded up to stages of 128 bytes
  if (ctas_ > 1 && is_repeated_) sets_ = 2 * kCallsOfMeeting;
  places_ = kernel.shared<f32>({1, places}, SwizzleNone, sets_, "parts");
  turn_.emplace(u32(0));
  if (ctas_ == 1) {
    all_ = kernel.named_barrier(warps_ * kLanes);
    return;
  }
  kernel.cluster(static_cast<uint32_t>(ctas_));
  arrived_.emplace(kernel, std::vector<int>(static_cast<size_t>(sets_), 1),
                   std::vector<std::string>{"numbers of a row"});
  phases_.emplace(*arrived_);
  // A CTA may receive data only after its barriers are initialized. This arrival announces that they are; the
  // first call waits for it, after its row has been loaded. The arrival is relaxed, because a release would
  // delay the start by the processing time of a row.
  barrier_cluster_arrive_relaxed();
  detail::TileContext::of(kernel.builder()).unpublished_barriers = false;
}

void RowExchange::finish() {
  if (arrived_ && is_repeated_) barrier_cluster_wait();
}

void RowExchange::send_in_cta(sptr<f32> places, const std::vector<Numbers>& own) {
  if_(tid_x() % kLanes == 0, [&] {
    for (size_t k = 0; k < own.size(); ++k)
      places[tid_x() / kLanes * own.size() + static_cast<uint32_t>(k)] = own[k].value(0);
  });
  all_->sync();
}

void RowExchange::send_to_cluster(sptr<f32> places, const std::vector<Numbers>& own) {
  if (is_repeated_) {
    // The calls up to the next synchronization use places whose old numbers all threads had read at the
    // previous synchronization. A barrier also waits for a thread's stores, so only some calls have one.
    if_(*turn_ % kCallsOfMeeting == 0, [] {
      barrier_cluster_wait();
      barrier_cluster_arrive();
    });
  } else if (calls_ == 0) {
    barrier_cluster_wait();
  } else if (calls_ > 1) {
    throw Error("a row that CTAs share is exchanged twice at most, unless CTAs take rows in turn");
  }
  ++calls_;
  const u32 turn = *turn_, lane = tid_x() % kLanes;
  const smem arrived = (*arrived_)[turn];
  const auto count = static_cast<uint32_t>(own.size());
  if_(tid_x() == 0,
      [&] { mbarrier_arrive_expect_tx(arrived, static_cast<uint32_t>(warps_ * ctas_) * count * 4); });
  const sptr<f32> place = places + (cluster_ctarank() * warps_ + tid_x() / kLanes) * count;
  if_(lane < ctas_, [&] {
    for (uint32_t k = 0; k < count; ++k)
      instruction<"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32">(
          mapa(smem(place + k), lane), bit_cast<u32>(own[k].value(0)), mapa(arrived, lane));
  });
  const u32 parity = phases_->parity(turn);
  barrier_wait_cluster(arrived, parity);
  phases_->skip(turn);
}

RowParts RowExchange::operator()(std::vector<Numbers> own) {
  RowParts parts(std::move(own));
  if (!places_) return parts;
  if (parts.own_.size() > kMostNumbers) throw Error("a part of a row has at most four numbers");
  parts.places_ = sptr<f32>((*places_)[turn_->value()].address());
  parts.count_ = warps_ * ctas_;
  if (ctas_ == 1)
    send_in_cta(*parts.places_, parts.own_);
  else
    send_to_cluster(*parts.places_, parts.own_);
  *turn_ = (turn_->value() + 1) % static_cast<uint32_t>(sets_);
  return parts;
}

}  // namespace ptxbuilder::kernels
