#include "ptxbuilder/product/global_sum.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/profile.h"
#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder {
namespace {

constexpr int kCols = 8;                         // number of columns in which each thread holds one vector
constexpr int kVectorBytes = 16;                 // size of a thread's vector
constexpr int kPieceBytes = 128 * kVectorBytes;  // size of a warpgroup's vectors, in thread order
constexpr int kInFlight = 16;                    // number of vectors that a thread loads before it adds them

// Marks this launch's sums as stored. The number is arbitrary, but must not otherwise occur in memory.
constexpr uint64_t kMark = 0xc2b2ae3d27d4eb4f;
constexpr int kMarkBytes = 8;

int vector_count(int m, int n) { return m / hopper::wgmma_rows * (n / kCols); }
// Returns the size of the marks of a CTA. Each of its two places has one mark for each owner, for the
// greatest number of owners.
int mark_bytes(int m, int n, int consumers) { return 2 * kMarkBytes * vector_count(m, n) * consumers; }

}  // namespace

GlobalSum::GlobalSum(int m, int n, int piece_cols, int consumers, int most_parts, int apart, gptr<f32> memory,
                     Where where)
    : m_(m),
      n_(n),
      piece_cols_(piece_cols),
      consumers_(consumers),
      most_parts_(most_parts),
      apart_(apart),
      memory_(memory) {
  if (m < 1 || n < 1 || consumers < 1 || most_parts < 1 || apart < 1)
    throw Error(where, fmt::format("global sum: {} x {} sums of {} warpgroups in {} parts, {} apart, were "
                                   "requested, but each number must be at least one",
                                   m, n, consumers, most_parts, apart));
  if (piece_cols < kCols || piece_cols % kCols != 0 || n % piece_cols != 0)
    throw Error(
        where,
        fmt::format(
            "global sum: pieces have {} columns, but the number must be a multiple of {} that divides {}",
            piece_cols, kCols, n));
}

size_t GlobalSum::bytes(int m, int n, int consumers, int ctas, int places) {
  const int marks = mark_bytes(m, n, consumers), sums = 4 * m * n * consumers;
  return static_cast<size_t>(marks) * static_cast<size_t>(ctas) +
         static_cast<size_t>(sums) * static_cast<size_t>(places);
}

u32 GlobalSum::owners_of(const TileParts& parts) const {
  return min(parts.owners, u32(static_cast<uint32_t>(pieces())));
}

u32 GlobalSum::place_of(const TileParts& parts, u32 rank) const { return parts.place + rank * apart_; }

u32 GlobalSum::warpgroup() const { return detail::warpgroup_in_cta() - detail::first_warpgroup_of_role(); }

// Returns the address in `place` of the vectors of this thread, or of the thread with the same number in
// another CTA. The vectors are stored one piece after another.
gmem GlobalSum::sums(u32 place) const {
  const u64 number(place * consumers_ + warpgroup());
  const u64 marks = u64(nctaid_x() * nctaid_y()) * static_cast<uint64_t>(mark_bytes(m_, n_, consumers_));
  return memory_ +
         (marks + number * static_cast<uint64_t>(4 * m_ * n_) + u64((tid_x() & 127) * kVectorBytes));
}

// Returns the address of a mark. The marks of one tile for one owner are adjacent, so the lanes that read
// these marks share cache lines.
gmem GlobalSum::mark(u32 owner, u32 place) const {
  const u32 line = warpgroup() * vector_count(m_, n_) + owner;
  return memory_ + u64(line * (2 * nctaid_x() * nctaid_y()) + place) * static_cast<uint64_t>(kMarkBytes);
}

// Stores a piece of this thread's sums to the thread's vectors in memory.
void GlobalSum::store_piece(const Accumulator& acc, gmem to, int row, int col) const {
  for (int at = col; at < col + piece_cols_; at += kCols) {
    const RegisterTile<f32> x = load<f32>(acc, {row, at, hopper::wgmma_rows, kCols});
    const std::array<f32, 4> vector = {x.value(0), x.value(1), x.value(2), x.value(3)};
    const int number = row / hopper::wgmma_rows * (n_ / kCols) + at / kCols;
    ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>(number * kPieceBytes)), vector);
  }
}

// First stores the pieces that other CTAs complete, and notifies these CTAs. Then stores this CTA's own
// pieces, while the other CTAs store theirs.
void GlobalSum::give(const Accumulator& acc, const TileParts& parts, Where where) const {
  AtLine line(where);
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("global sum: the accumulator is {} x {} {}, but {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
  const gmem to = sums(place_of(parts, parts.rank));
  const u32 owners = owners_of(parts);
  const auto store_pieces = [&](bool own) {
    u32 completes = 0;
    for (int row = 0; row < m_; row += hopper::wgmma_rows)
      for (int col = 0; col < n_; col += piece_cols_) {
        const pred is_own = completes == parts.rank;
        if_(own ? is_own : !is_own, [&] { store_piece(acc, to, row, col); });
        completes = select(completes + 1 == owners, u32(0), completes + 1);
      }
  };
  store_pieces(false);
  sync_warpgroup();
  const u32 owner = tid_x() & 127;  // a separate thread notifies each owner
  if_((owner < owners) & (owner != parts.rank),
      [&] { st_release_gpu_global_u64(mark(owner, place_of(parts, parts.rank)), u64(kMark)); });
  store_pieces(true);
}

// Waits for all other CTAs of the tile. Each thread waits for different CTAs.
void GlobalSum::wait(const TileParts& parts) const {
  Var<u32> rank(tid_x() & 127);
  while_([&] { return rank.value() < parts.count; },
         [&] {
           if_(rank.value() != parts.rank, [&] {
             constexpr AcquireForm form = {Scope::gpu, DType::u64};
             const gmem given = mark(parts.rank, place_of(parts, rank.value()));
             detail::wait_while(
                 {.counter = given, .is_wide = true, .what = "the mark of another part of the sum"},
                 [&] { return ld_acquire<form>(given) != u64(kMark); }, [] { nanosleep(20); });
             (gptr<u64>(given))[0] = u64(0);
           });
           rank = rank.value() + 128;
         });
  sync_warpgroup();
}

// Returns the sum of a piece over all parts. The loads for `at_once` parts are in flight at the same time.
RegisterTile<f32> GlobalSum::total(u32 piece, const TileParts& parts) const {
  const int vectors = piece_cols_ / kCols, at_once = std::clamp(kInFlight / vectors, 1, most_parts_);
  const RegisterLayout layout = wgmma_layout(hopper::wgmma_rows, piece_cols_);
  const uint64_t part_bytes = static_cast<uint64_t>(4 * m_ * n_) * static_cast<uint64_t>(consumers_ * apart_);
  const gmem from = sums(parts.place) + u64(piece * (vectors * kPieceBytes));
  Var<RegisterTile<f32>> sum(RegisterTile<f32>(0, layout));
  for_(0, parts.count, at_once, [&](u32 first) {
    std::vector<std::vector<f32>> given;
    for (int i = 0; i < at_once; ++i) {
      const gmem part = from + u64(min(first + i, parts.count - 1)) * part_bytes;
      auto& elements = given.emplace_back();
      for (int v = 0; v < vectors; ++v)
        for (const f32& x : load<4>(gptr<f32>(part + static_cast<uint64_t>(v * kPieceBytes))))
          elements.push_back(x);
    }
    for (int i = 0; i < at_once; ++i) {
      if (i > 0)
        for (f32& x : given[static_cast<size_t>(i)]) x = select(first + i < parts.count, x, f32(0));
      sum = sum.value() + RegisterTile<f32>::of(layout, given[static_cast<size_t>(i)]);
    }
  });
  return sum;
}

void GlobalSum::complete(const TileParts& parts,
                         const std::function<void(u32 piece, const RegisterTile<f32>& sum)>& body,
                         Where where) const {
  AtLine line(where);
  const u32 owners = owners_of(parts);
  if_(parts.rank < owners, [&] {
    region("given", [&] { wait(parts); });
    for_(parts.rank, u32(static_cast<uint32_t>(pieces())), owners,
         [&](u32 piece) { body(piece, total(piece, parts)); });
  });
}

}  // namespace ptxbuilder
