#include "ptxbuilder/tile/stream_sum.h"

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

void sync_warpgroup(Where where) { bar_sync(detail::warpgroup_in_cta(where) + 1, 128, where); }

}  // namespace

StreamSum::StreamSum(Kernel& kernel, int m, int n, int consumers, int ctas, Where where)
    : m_(m),
      n_(n),
      consumers_(consumers),
      sums_(kernel.builder().zeroed_global(
          "partial_sums", checked_places(m, n, consumers, ctas, where) * static_cast<uint64_t>(4 * m * n))),
      given_(kernel.builder().zeroed_global("given", checked_places(m, n, consumers, ctas, where) * 4)) {}

void StreamSum::check(const Accumulator& acc, Where where) const {
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(where, fmt::format("stream sum: an accumulator of {} x {} {} where {} x {} f32 was declared",
                                   acc.m(), acc.n(), name(acc.dtype()), m_, n_));
}

u64 StreamSum::slot(u32 cta, Where where) const {
  return u64(cta * consumers_ + (detail::warpgroup_in_cta(where) - detail::first_warpgroup_of_role()));
}

Semaphore StreamSum::given(u64 slot) const { return Semaphore(gptr<u32>(given_ + slot * uint64_t{4})); }

void StreamSum::give(const Accumulator& acc, Where where) const {
  AtLine line(where);
  check(acc, where);
  const int groups = acc.elements() / kVector;  // of a block
  u32 thread = tid_x(where) & 127;
  u64 mine = slot(ctaid_x(where), where);
  gmem to = sums_ + (mine * static_cast<uint64_t>(4 * m_ * n_) + u64(thread * (4 * kVector)));
  for (int block = 0; block < m_ / 64; ++block)
    for (int i = 0; i < groups; ++i) {
      const std::array<f32, kVector> values = {
          acc.value(block, kVector * i), acc.value(block, kVector * i + 1), acc.value(block, kVector * i + 2),
          acc.value(block, kVector * i + 3)};
      ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>((block * groups + i) * kGroupBytes)), values,
                        where);
    }
  sync_warpgroup(where);
  if_(
      thread == 0, [&] { given(mine).signal(where); }, where);
}

void StreamSum::take(Accumulator& acc, u32 from, Where where) const {
  AtLine line(where);
  check(acc, where);
  const int groups = acc.elements() / kVector;
  u32 thread = tid_x(where) & 127;
  u64 theirs = slot(from, where);
  gmem at = sums_ + (theirs * static_cast<uint64_t>(4 * m_ * n_) + u64(thread * (4 * kVector)));
  if_(
      thread == 0, [&] { given(theirs).take(where); }, where);
  sync_warpgroup(where);
  // Several loads in flight at a time; the accumulators lie in between as instructions that none may pass.
  const int total = m_ / 64 * groups;
  for (int first = 0; first < total; first += kInFlight) {
    std::vector<std::array<f32, kVector>> parts;
    for (int i = first; i < std::min(total, first + kInFlight); ++i)
      parts.push_back(load<kVector>(gptr<f32>(at + static_cast<uint64_t>(i * kGroupBytes)), where));
    for (int i = first; i < first + static_cast<int>(parts.size()); ++i)
      for (int e = 0; e < kVector; ++e) {
        const int block = i / groups, element = kVector * (i % groups) + e;
        acc.set(
            block, element,
            acc.value(block, element, where) + parts[static_cast<size_t>(i - first)][static_cast<size_t>(e)],
            where);
      }
  }
}

}  // namespace ptxbuilder
