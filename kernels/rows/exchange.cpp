#include "kernels/rows/exchange.h"

#include "ptxbuilder/ir/instruction.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kPlaces = 32;  // of a set, which is at least as large as a stage of 128 bytes
constexpr int kReadByAll = 4, kLanes = 32;

f32 combined(Reduction operation, f32 a, f32 b) {
  if (operation == Reduction::add) return a + b;
  if (operation == Reduction::max) return max(a, b);
  throw Error("rows are reduced by add and max");
}

// Of `count` numbers. Where they are many, each lane reads some.
f32 all_of(Reduction operation, sptr<f32> parts, int count) {
  if (count <= kReadByAll) {
    f32 all = parts[0];
    for (int i = 1; i < count; ++i) all = combined(operation, all, parts[i]);
    return all;
  }
  const u32 lane = tid_x() % kLanes;
  std::optional<f32> mine;
  for (int first = 0; first < count; first += kLanes) {
    // A lane that has no number takes the first one again, which leaves a maximum as it is.
    const pred there = lane + first < static_cast<uint32_t>(count);
    const f32 part = parts[select(there, lane + first, u32(0))];
    const f32 taken = operation == Reduction::add ? select(there, part, f32(0)) : part;
    mine = mine ? combined(operation, *mine, taken) : taken;
  }
  f32 all = *mine;
  for (uint32_t distance = 16; distance > 0; distance /= 2)
    all = combined(operation, all, bit_cast<f32>(shfl_sync_bfly(bit_cast<u32>(all), distance)));
  return all;
}

}  // namespace

RowExchange::RowExchange(Kernel& kernel, const RowProblem& problem)
    : warps_(problem.tile.warps),
      ctas_(problem.operation->reduces ? problem.tile.ctas : 1),
      is_repeated_(problem.operation->has_sums()) {
  if (!problem.operation->reduces || !problem.tile.is_shared()) return;
  const int places = (warps_ * ctas_ + kPlaces - 1) / kPlaces * kPlaces;
  parts_ = kernel.shared<f32>({1, places}, SwizzleNone, 2, "parts");
  turn_.emplace(u32(0));
  if (ctas_ == 1) {
    all_ = kernel.named_barrier(warps_ * kLanes);
    return;
  }
  kernel.cluster(static_cast<uint32_t>(ctas_));
  arrived_.emplace(kernel, std::vector<int>{1, 1}, std::vector<std::string>{"numbers of a row"});
  phases_.emplace(*arrived_);
  sync_cluster();  // no CTA is sent anything before its barriers are there
  if (is_repeated_) barrier_cluster_arrive();
}

void RowExchange::finish() {
  if (arrived_ && is_repeated_) barrier_cluster_wait();
}

void RowExchange::send_in_cta(sptr<f32> parts, f32 x) {
  if_(tid_x() % kLanes == 0, [&] { parts[tid_x() / kLanes] = x; });
  all_->sync();
}

void RowExchange::send_to_cluster(sptr<f32> parts, f32 x) {
  const u32 turn = *turn_, lane = tid_x() % kLanes;
  const smem arrived = (*arrived_)[turn];
  if_(tid_x() == 0, [&] { mbarrier_arrive_expect_tx(arrived, warps_ * ctas_ * 4); });
  const smem place = parts + (cluster_ctarank() * warps_ + tid_x() / kLanes);
  if_(lane < ctas_, [&] {
    instruction<"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32">(
        mapa(place, lane), bit_cast<u32>(x), mapa(arrived, lane));
  });
  const u32 parity = phases_->parity(turn);
  while_([&] { return !mbarrier_try_wait_parity_acquire_cluster(arrived, parity); }, [] {});
  phases_->skip(turn);
}

f32 RowExchange::reduce(Reduction operation, f32 x) {
  const sptr<f32> parts((*parts_)[turn_->value()].address());
  if (ctas_ == 1)
    send_in_cta(parts, x);
  else
    send_to_cluster(parts, x);
  *turn_ = *turn_ ^ 1u;
  const f32 all = all_of(operation, parts, warps_ * ctas_);
  if (arrived_ && is_repeated_) {
    // All have read the numbers of the call before this one, whose places the next call takes.
    barrier_cluster_wait();
    barrier_cluster_arrive();
  } else if (arrived_ && ++calls_ > 2) {
    throw Error("a row that CTAs share is reduced twice at most, unless its operation sums over rows");
  }
  return all;
}

}  // namespace ptxbuilder::kernels
