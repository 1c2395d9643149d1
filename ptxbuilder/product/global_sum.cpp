#include "ptxbuilder/product/global_sum.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

constexpr int kRows = 64, kCols = 8;             // of a vector of each thread
constexpr int kVectorBytes = 16;                 // of a thread
constexpr int kGroupBytes = 128 * kVectorBytes;  // of a warpgroup: thread after thread

// What says that sums of this launch are given. Any number would do that is found nowhere else.
constexpr uint64_t kMark = 0xc2b2ae3d27d4eb4f;
constexpr int kMarkBytes = 8;

int vectors_of(int m, int n) { return m / kRows * (n / kCols); }
size_t sums_bytes(int m, int n, int consumers) { return size_t{4} * m * n * consumers; }

std::vector<TilePart> vectors_of(const TilePart& piece) {
  std::vector<TilePart> vectors;
  for (int row = piece.row; row < piece.row + piece.rows; row += kRows)
    for (int col = piece.col; col < piece.col + piece.cols; col += kCols)
      vectors.push_back({row, col, kRows, kCols});
  return vectors;
}

std::array<f32, 4> values_of(const RegisterTile<f32>& x) {
  return {x.value(0), x.value(1), x.value(2), x.value(3)};
}

}  // namespace

GlobalSum::GlobalSum(int m, int n, std::vector<TilePart> pieces, int consumers, int most_parts, int in_flight,
                     gptr<f32> memory, Where where)
    : m_(m),
      n_(n),
      pieces_(std::move(pieces)),
      consumers_(consumers),
      most_parts_(most_parts),
      in_flight_(in_flight),
      memory_(memory) {
  if (m < 1 || n < 1 || consumers < 1 || pieces_.empty() || most_parts < 1 || in_flight < 1)
    throw Error(where,
                fmt::format("global sum: {} x {} sums in {} pieces of {} warpgroups, {} parts, {} loads in "
                            "flight; at least one each",
                            m, n, pieces_.size(), consumers, most_parts, in_flight));
}

size_t GlobalSum::bytes(int m, int n, int consumers, int ctas) {
  const size_t marks = size_t{kMarkBytes} * vectors_of(m, n) * consumers;
  return (sums_bytes(m, n, consumers) + marks) * static_cast<size_t>(ctas);
}

void GlobalSum::check(const Accumulator& acc) const {
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("global sum: an accumulator of {} x {} {} where {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
}

u32 GlobalSum::owners_of(const TileParts& parts) const {
  return min(parts.owners, u32(static_cast<uint32_t>(pieces_.size())));
}

// Own are each owners-th piece from this CTA's rank on.
void GlobalSum::each_piece(const TileParts& parts,
                           const std::function<void(int piece, pred own)>& body) const {
  const u32 owners = owners_of(parts);
  Var<u32> next(select(parts.rank < owners, parts.rank, u32(0xffffffff)));
  for (int piece = 0; piece < static_cast<int>(pieces_.size()); ++piece) {
    const pred own = next.value() == static_cast<uint32_t>(piece);
    next = select(own, next.value() + owners, next.value());
    body(piece, own);
  }
}

u32 GlobalSum::warpgroup() const { return detail::warpgroup_in_cta() - detail::first_warpgroup_of_role(); }

// The calling thread's vectors of the calling warpgroup's fellow in the CTA of a place.
gmem GlobalSum::vectors(u32 place) const {
  const u64 number(place * consumers_ + warpgroup());
  return memory_ + (number * static_cast<uint64_t>(4 * m_ * n_) + u64((tid_x() & 127) * kVectorBytes));
}

// Those of one tile, for one owner, lie side by side: the lanes that look at them share a line.
gmem GlobalSum::mark(u32 owner, u32 place) const {
  const u32 ctas = nctaid_x();
  const u64 marks = u64(ctas) * static_cast<uint64_t>(sums_bytes(m_, n_, consumers_));
  const u32 line = warpgroup() * vectors_of(m_, n_) + owner;
  return memory_ + (marks + u64(line * ctas + place) * static_cast<uint64_t>(kMarkBytes));
}

void GlobalSum::give(const Accumulator& acc, const TileParts& parts, Where where) const {
  AtLine line(where);
  check(acc);
  const gmem to = vectors(parts.place + parts.rank);
  each_piece(parts, [&](int piece, pred own) {
    if_(!own, [&] {
      for (const TilePart& v : vectors_of(pieces_[static_cast<size_t>(piece)])) {
        const int number = v.row / kRows * (n_ / kCols) + v.col / kCols;
        ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>(number * kGroupBytes)),
                          values_of(load<f32>(acc, v)));
      }
    });
  });
  sync_warpgroup();
  const u32 owner = tid_x() & 127;  // a thread for each
  if_((owner < owners_of(parts)) & (owner != parts.rank),
      [&] { st_release_gpu_global_u64(mark(owner, parts.place + parts.rank), u64(kMark)); });
}

// A thread for each of the others.
void GlobalSum::wait(const TileParts& parts) const {
  Var<u32> rank(tid_x() & 127);
  while_([&] { return rank.value() < parts.count; },
         [&] {
           if_(rank.value() != parts.rank, [&] {
             constexpr AcquireForm form = {Scope::gpu, DType::u64};
             const gmem given = mark(parts.rank, parts.place + rank.value());
             while_([&] { return ld_acquire<form>(given) != u64(kMark); }, [] { nanosleep(20); });
             (gptr<u64>(given))[0] = u64(0);
           });
           rank = rank.value() + 128;
         });
  sync_warpgroup();
}

// As many of the others at a time as have their loads in flight together: the accumulators lie in between as
// instructions that none may pass.
void GlobalSum::add_others(Accumulator& acc, const std::vector<TilePart>& parts_of_acc,
                           const TileParts& parts) const {
  const int width = static_cast<int>(parts_of_acc.size());
  const int at_once = std::clamp(in_flight_ / width, 1, std::max(most_parts_ - 1, 1));
  const u32 others = parts.count - 1;
  for_(0, others, at_once, [&](u32 first) {
    std::vector<std::vector<Vector>> given;
    for (int i = 0; i < at_once; ++i) {
      const u32 other = i == 0 ? first : min(first + i, others - 1);
      const gmem from = vectors(parts.place + other + u32(other >= parts.rank));
      auto& vectors = given.emplace_back();
      for (const TilePart& v : parts_of_acc) {
        const int number = v.row / kRows * (n_ / kCols) + v.col / kCols;
        vectors.push_back(load<4>(gptr<f32>(from + static_cast<uint64_t>(number * kGroupBytes))));
      }
    }
    for (size_t v = 0; v < parts_of_acc.size(); ++v) {
      Vector sum = values_of(load<f32>(acc, parts_of_acc[v]));
      for (int i = 0; i < at_once; ++i)
        for (size_t e = 0; e < sum.size(); ++e) {
          const f32 more = given[static_cast<size_t>(i)][v][e];
          sum[e] = sum[e] + (i == 0 ? more : select(first + i < others, more, f32(0)));
        }
      const RegisterTile<f32> total(
          detail::TileValues{DType::f32, wgmma_layout(kRows, kCols), {sum.begin(), sum.end()}});
      ptxbuilder::store(acc, total, parts_of_acc[v]);
    }
  });
}

void GlobalSum::complete(Accumulator& acc, const TileParts& parts,
                         const std::function<void(int piece)>& completed, Where where) const {
  AtLine line(where);
  check(acc);
  if_(parts.rank < owners_of(parts), [&] { wait(parts); });
  each_piece(parts, [&](int piece, pred own) {
    if_(own, [&] {
      const std::vector<TilePart> all = vectors_of(pieces_[static_cast<size_t>(piece)]);
      for (auto first = all.begin(); first != all.end();) {
        const auto last = first + std::min<std::ptrdiff_t>(in_flight_, all.end() - first);
        add_others(acc, {first, last}, parts);
        first = last;
      }
      completed(piece);
    });
  });
}

}  // namespace ptxbuilder
