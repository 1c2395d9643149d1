#include "ptxbuilder/product/stream_sum.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

constexpr int kVector = 4;                      // elements of an access
constexpr int kInFlight = 8;                    // accesses
constexpr int kGroupBytes = 128 * kVector * 4;  // of one access of a warpgroup: thread after thread

uint64_t checked_places(int m, int n, int consumers, int ctas, Where where) {
  if (m < 1 || n < 1 || consumers < 1 || ctas < 1)
    throw Error(where, fmt::format("stream sum: {} x {} sums of {} warpgroups in {} CTAs; at least one each",
                                   m, n, consumers, ctas));
  return static_cast<uint64_t>(consumers) * static_cast<uint64_t>(ctas);
}

}  // namespace

StreamSum::StreamSum(Kernel& kernel, int m, int n, int consumers, int ctas, Where where)
    : m_(m),
      n_(n),
      consumers_(consumers),
      sums_(kernel.builder().zeroed_global(
          "partial_sums", checked_places(m, n, consumers, ctas, where) * static_cast<uint64_t>(4 * m * n))),
      given_(kernel.builder().zeroed_global("given", checked_places(m, n, consumers, ctas, where) * 4)) {}

void StreamSum::check(const Accumulator& acc) const {
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("stream sum: an accumulator of {} x {} {} where {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
}

u64 StreamSum::slot(u32 cta) const {
  return u64(cta * consumers_ + (detail::warpgroup_in_cta() - detail::first_warpgroup_of_role()));
}

Semaphore StreamSum::given(u64 slot) const { return Semaphore(gptr<u32>(given_ + slot * uint64_t{4})); }

void StreamSum::give(const Accumulator& acc, Where where) const {
  AtLine line(where);
  check(acc);
  const int groups = n_ / 8;  // of a block: kVector elements of a thread are of 8 columns
  u32 thread = tid_x() & 127;
  u64 mine = slot(ctaid_x());
  gmem to = sums_ + (mine * static_cast<uint64_t>(4 * m_ * n_) + u64(thread * (4 * kVector)));
  for (int block = 0; block < m_ / 64; ++block)
    for (int i = 0; i < groups; ++i) {
      const RegisterTile<f32> part = load<f32>(acc, {64 * block, 8 * i, 64, 8});
      const std::array<f32, kVector> values = {part.value(0), part.value(1), part.value(2), part.value(3)};
      ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>((block * groups + i) * kGroupBytes)), values);
    }
  detail::sync_warpgroup();
  if_(thread == 0, [&] { given(mine).signal(); });
}

void StreamSum::take(Accumulator& acc, u32 from, Where where) const {
  AtLine line(where);
  check(acc);
  const int groups = n_ / 8;
  u32 thread = tid_x() & 127;
  u64 theirs = slot(from);
  gmem at = sums_ + (theirs * static_cast<uint64_t>(4 * m_ * n_) + u64(thread * (4 * kVector)));
  if_(thread == 0, [&] { given(theirs).take(); });
  detail::sync_warpgroup();
  // Several loads in flight at a time; the accumulators lie in between as instructions that none may pass.
  const int total = m_ / 64 * groups;
  for (int first = 0; first < total; first += kInFlight) {
    std::vector<std::array<f32, kVector>> parts;
    for (int i = first; i < std::min(total, first + kInFlight); ++i)
      parts.push_back(load<kVector>(gptr<f32>(at + static_cast<uint64_t>(i * kGroupBytes))));
    for (int i = first; i < first + static_cast<int>(parts.size()); ++i) {
      const TilePart part = {64 * (i / groups), 8 * (i % groups), 64, 8};
      const auto& taken = parts[static_cast<size_t>(i - first)];
      const RegisterTile<f32> more(
          detail::TileValues{DType::f32, wgmma_layout(64, 8), {taken.begin(), taken.end()}});
      ptxbuilder::store(acc, load<f32>(acc, part) + more, part);
    }
  }
}

}  // namespace ptxbuilder
