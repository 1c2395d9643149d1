#include "ptxbuilder/product/stream_sum.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

constexpr int kVector = 4;                      // elements of an access
constexpr int kInFlight = 8;                    // accesses
constexpr int kGroupBytes = 128 * kVector * 4;  // of one access of a warpgroup: thread after thread

// What says that a place holds sums of this launch. Any number would do that is found nowhere else.
constexpr uint64_t kMark = 0xc2b2ae3d27d4eb4f;
constexpr int kMarkBytes = 16;  // keeps the next place at a multiple of an access

int place_bytes(int m, int n) { return 4 * m * n + kMarkBytes; }

}  // namespace

StreamSum::StreamSum(int m, int n, int consumers, gptr<f32> memory, Where where)
    : m_(m), n_(n), consumers_(consumers), memory_(memory) {
  if (m < 1 || n < 1 || consumers < 1)
    throw Error(where,
                fmt::format("stream sum: {} x {} sums of {} warpgroups; at least one each", m, n, consumers));
}

size_t StreamSum::bytes(int m, int n, int consumers, int ctas) {
  return static_cast<size_t>(place_bytes(m, n)) * static_cast<size_t>(consumers) * static_cast<size_t>(ctas);
}

void StreamSum::check(const Accumulator& acc) const {
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("stream sum: an accumulator of {} x {} {} where {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
}

gmem StreamSum::place(u32 cta) const {
  const u64 number(cta * consumers_ + (detail::warpgroup_in_cta() - detail::first_warpgroup_of_role()));
  return memory_ + number * static_cast<uint64_t>(place_bytes(m_, n_));
}

gmem StreamSum::mark(gmem place) const { return place + static_cast<uint64_t>(4 * m_ * n_); }

void StreamSum::give(const Accumulator& acc, Where where) const {
  AtLine line(where);
  check(acc);
  const int groups = n_ / 8;  // of a block: kVector elements of a thread are of 8 columns
  u32 thread = tid_x() & 127;
  const gmem mine = place(ctaid_x());
  gmem to = mine + u64(thread * (4 * kVector));
  for (int block = 0; block < m_ / 64; ++block)
    for (int i = 0; i < groups; ++i) {
      const RegisterTile<f32> part = load<f32>(acc, {64 * block, 8 * i, 64, 8});
      const std::array<f32, kVector> values = {part.value(0), part.value(1), part.value(2), part.value(3)};
      ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>((block * groups + i) * kGroupBytes)), values);
    }
  sync_warpgroup();
  if_(thread == 0, [&] { st_release_gpu_global_u64(mark(mine), u64(kMark)); });
}

void StreamSum::take(Accumulator& acc, u32 from, Where where) const {
  AtLine line(where);
  check(acc);
  const int groups = n_ / 8;
  u32 thread = tid_x() & 127;
  const gmem theirs = place(from);
  gmem at = theirs + u64(thread * (4 * kVector));
  if_(thread == 0, [&] {
    constexpr AcquireForm form = {Scope::gpu, DType::u64};
    while_([&] { return ld_acquire<form>(mark(theirs)) != u64(kMark); }, [] {});
    gptr<u64>(mark(theirs))[0] = u64(0);
  });
  sync_warpgroup();
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
