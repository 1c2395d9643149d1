#include "ptxbuilder/product/global_sum.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

constexpr int kRows = 64, kCols = 8;             // of a vector of each thread
constexpr int kVectorBytes = 16;                 // of a thread
constexpr int kGroupBytes = 128 * kVectorBytes;  // of a warpgroup: thread after thread
constexpr int kAtOnce = 8;                       // vectors that are loaded before they are added

// What says that sums of this launch are given. Any number would do that is found nowhere else.
constexpr uint64_t kMark = 0xc2b2ae3d27d4eb4f;
constexpr int kMarkBytes = 8;

using Vector = std::array<f32, 4>;

int vector_count(int m, int n) { return m / kRows * (n / kCols); }
int piece_bytes(const std::vector<TilePart>& pieces) {
  return vector_count(pieces[0].rows, pieces[0].cols) * kGroupBytes;
}

std::vector<TilePart> vectors_of(const TilePart& piece) {
  std::vector<TilePart> vectors;
  for (int row = piece.row; row < piece.row + piece.rows; row += kRows)
    for (int col = piece.col; col < piece.col + piece.cols; col += kCols)
      vectors.push_back({row, col, kRows, kCols});
  return vectors;
}

Vector values_of(const RegisterTile<f32>& x) { return {x.value(0), x.value(1), x.value(2), x.value(3)}; }

u32 owners_of(const TileParts& parts, const std::vector<TilePart>& pieces) {
  return min(parts.owners, u32(static_cast<uint32_t>(pieces.size())));
}

// Own are each owners-th piece from this CTA's rank on.
void each_piece(const std::vector<TilePart>& pieces, const TileParts& parts,
                const std::function<void(int piece, pred own)>& body) {
  const u32 owners = owners_of(parts, pieces);
  Var<u32> next(select(parts.rank < owners, parts.rank, u32(0xffffffff)));
  for (int piece = 0; piece < static_cast<int>(pieces.size()); ++piece) {
    const pred own = next.value() == static_cast<uint32_t>(piece);
    next = select(own, next.value() + owners, next.value());
    body(piece, own);
  }
}

}  // namespace

GlobalSum::GlobalSum(Kernel& kernel, int m, int n, int consumers, gptr<f32> memory, Where where)
    : m_(m),
      n_(n),
      consumers_(consumers),
      memory_(memory),
      role_(kernel.named_barrier(128 * std::max(consumers, 1), where)),
      arrived_(kernel, std::vector<int>(static_cast<size_t>(2 * std::max(consumers, 1)), 1), {"given sums"},
               where) {
  if (m < 1 || n < 1 || consumers < 1)
    throw Error(where,
                fmt::format("global sum: {} x {} sums of {} warpgroups; at least one each", m, n, consumers));
}

size_t GlobalSum::bytes(int m, int n, int consumers, int ctas) {
  const int of_warpgroup = 4 * m * n + kMarkBytes * vector_count(m, n);
  return static_cast<size_t>(of_warpgroup) * static_cast<size_t>(consumers) * static_cast<size_t>(ctas);
}

void GlobalSum::check(const Accumulator& acc, const std::vector<TilePart>& pieces) const {
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("global sum: an accumulator of {} x {} {} where {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
  int elements = 0;
  for (const TilePart& p : pieces)
    elements += p.rows == pieces[0].rows && p.cols == pieces[0].cols ? p.rows * p.cols : 0;
  if (elements != m_ * n_)
    throw Error(fmt::format("global sum: {} pieces, which are not of one size or do not make up {} x {}",
                            pieces.size(), m_, n_));
}

u32 GlobalSum::warpgroup() const { return detail::warpgroup_in_cta() - detail::first_warpgroup_of_role(); }

// Of the calling warpgroup's fellow in the CTA of a place: piece after piece.
gmem GlobalSum::sums(u32 place) const {
  return memory_ + u64(place * consumers_ + warpgroup()) * static_cast<uint64_t>(4 * m_ * n_);
}

// Those of one tile, for one owner, lie side by side: the lanes that look at them share a line.
gmem GlobalSum::mark(u32 owner, u32 place) const {
  const u32 ctas = nctaid_x();
  const u64 marks = u64(ctas * consumers_) * static_cast<uint64_t>(4 * m_ * n_);
  const u32 line = warpgroup() * vector_count(m_, n_) + owner;
  return memory_ + (marks + u64(line * ctas + place) * static_cast<uint64_t>(kMarkBytes));
}

void GlobalSum::give(const Accumulator& acc, const std::vector<TilePart>& pieces, const TileParts& parts,
                     Where where) const {
  AtLine line(where);
  check(acc, pieces);
  const gmem to = sums(parts.place + parts.rank) + u64((tid_x() & 127) * kVectorBytes);
  each_piece(pieces, parts, [&](int piece, pred own) {
    if_(!own, [&] {
      int offset = piece * piece_bytes(pieces);
      for (const TilePart& v : vectors_of(pieces[static_cast<size_t>(piece)])) {
        ptxbuilder::store(gptr<f32>(to + static_cast<uint64_t>(offset)), values_of(load<f32>(acc, v)));
        offset += kGroupBytes;
      }
    });
  });
  sync_warpgroup();
  const u32 owner = tid_x() & 127;  // a thread for each
  if_((owner < owners_of(parts, pieces)) & (owner != parts.rank),
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

// What the others have given of this CTA's pieces, on its way to shared memory: as much at a time as half of
// the scratch holds, while the other half is added.
class GlobalSum::Arrivals {
 public:
  Arrivals(const GlobalSum& sum, const std::vector<TilePart>& pieces, const TileParts& parts, smem scratch,
           int scratch_bytes)
      : sum_(sum),
        parts_(parts),
        bytes_(piece_bytes(pieces)),
        slots_(scratch_bytes / sum.consumers_ / 2 / bytes_),
        owners_(owners_of(parts, pieces)),
        end_(static_cast<uint32_t>(pieces.size())),
        others_(parts.count - 1),
        half_(scratch + sum.warpgroup() * (2 * slots_ * bytes_)),
        next_piece_(parts.rank),
        next_first_(0),
        asked_(0),
        taken_(0) {
    if (slots_ < 1)
      throw Error(
          fmt::format("global sum: pieces of {} B for each of {} warpgroups, two at a time, in {} B of "
                      "shared memory",
                      bytes_, sum.consumers_, scratch_bytes));
  }

  // Asks for as much as a half holds.
  void ask() {
    if_(next_piece_.value() < end_, [&] {
      const u32 first = next_first_, count = min(others_ - first, u32(static_cast<uint32_t>(slots_)));
      if_((tid_x() & 127) == 0, [&] {
        const smem barrier = arrived(asked_);
        mbarrier_arrive_expect_tx(barrier, count * bytes_);
        for_(0, count, [&](u32 i) {
          const u32 other = first + i;
          const gmem from = sum_.sums(parts_.place + other + u32(other >= parts_.rank)) +
                            u64(next_piece_.value()) * static_cast<uint64_t>(bytes_);
          const std::vector<Argument> arguments = {slot(asked_, i), from, u32(static_cast<uint32_t>(bytes_)),
                                                   barrier};
          Builder::current().emit(isa::cp_async_bulk_load({false, false}), arguments, std::nullopt);
        });
      });
      const pred ends = first + count >= others_;
      next_piece_ = select(ends, next_piece_.value() + owners_, next_piece_.value());
      next_first_ = select(ends, u32(0), first + count);
      asked_ = asked_.value() + 1;
    });
  }

  // Adds what all others have given of a piece, the next of this CTA's own.
  void add_to(Accumulator& acc, const std::vector<TilePart>& vectors) {
    const int at_once = std::max(kAtOnce / static_cast<int>(vectors.size()), 1);
    for_(0, others_, slots_, [&](u32 first) {
      const u32 count = min(others_ - first, u32(static_cast<uint32_t>(slots_)));
      barrier_wait(arrived(taken_), (taken_.value() >> 1) & 1);
      const u32 full = count - count % at_once;
      for_(0, full, at_once, [&](u32 i) { add(acc, vectors, i, at_once); });
      if (at_once > 1) for_(full, count, [&](u32 i) { add(acc, vectors, i, 1); });
      taken_ = taken_.value() + 1;
      sync_warpgroup();  // all have read the half
      ask();
    });
  }

 private:
  smem arrived(u32 round) const { return sum_.arrived_[sum_.warpgroup() * 2 + (round & 1)]; }
  smem slot(u32 round, u32 i) const { return half_ + ((round & 1) * slots_ + i) * bytes_; }

  void add(Accumulator& acc, const std::vector<TilePart>& vectors, u32 first, int count) {
    const smem from = slot(taken_, first) + (tid_x() & 127) * kVectorBytes;
    std::vector<Vector> given;
    for (int i = 0; i < count * static_cast<int>(vectors.size()); ++i)
      given.push_back(load<4>(sptr<f32>(from + i * kGroupBytes)));
    for (size_t v = 0; v < vectors.size(); ++v) {
      Vector sum = values_of(load<f32>(acc, vectors[v]));
      for (int i = 0; i < count; ++i)
        for (size_t e = 0; e < sum.size(); ++e)
          sum[e] = sum[e] + given[static_cast<size_t>(i) * vectors.size() + v][e];
      const RegisterTile<f32> total(
          detail::TileValues{DType::f32, wgmma_layout(kRows, kCols), {sum.begin(), sum.end()}});
      ptxbuilder::store(acc, total, vectors[v]);
    }
  }

  const GlobalSum& sum_;
  const TileParts& parts_;
  int bytes_, slots_;
  u32 owners_, end_, others_;
  smem half_;
  Var<u32> next_piece_, next_first_, asked_, taken_;
};

void GlobalSum::complete(Accumulator& acc, const std::vector<TilePart>& pieces, const TileParts& parts,
                         smem scratch, int scratch_bytes, const std::function<void(int piece)>& completed,
                         Where where) const {
  AtLine line(where);
  check(acc, pieces);
  if_(parts.rank < owners_of(parts, pieces), [&] {
    Arrivals arrivals(*this, pieces, parts, scratch, scratch_bytes);
    wait(parts);
    role_.sync();                        // the last wgmma of the others has read the scratch
    fence_proxy_async<Space::global>();  // others wrote as threads what bulk copies read
    arrivals.ask();
    arrivals.ask();
    each_piece(pieces, parts, [&](int piece, pred own) {
      if_(own, [&] {
        arrivals.add_to(acc, vectors_of(pieces[static_cast<size_t>(piece)]));
        completed(piece);
      });
    });
  });
}

}  // namespace ptxbuilder
