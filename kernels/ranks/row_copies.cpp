#include "kernels/ranks/row_copies.h"

#include "kernels/ranks/lane_copies.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBuffers = 2;

// The roles of the warps in the producer's warpgroup. Warp 0 loads tiles, warp 1 sends rows, and warps 2 and
// 3 copy rows to the memory `kept`.
constexpr uint32_t kSendingWarp = 1, kKeepingWarps = 2;

}  // namespace

// Copies pieces with one thread, which stores a piece while it loads the next. The fence of a signal takes
// microseconds, so pieces with the same signal are signalled together, when the last of them has arrived.
class RowCopies::Copier {
 public:
  explicit Copier(const RowCopies& rows) : rows_(rows), phases_(rows.loaded_) {}

  void copy(gmem from, gmem to, u32 bytes, u32 signal) {
    const u32 buffer = count_ % static_cast<uint32_t>(kBuffers);
    const smem place = rows_.buffers_[buffer].address(), loaded = rows_.loaded_[buffer];
    region("wait", [&] { cp_async_bulk_wait_group_read(kBuffers - 1); });
    mbarrier_arrive_expect_tx(loaded, bytes);
    cp_async_bulk_load<BulkLoadForm{}>(place, from, bytes, loaded);
    // The pieces of an owed signal were stored before the most recent piece.
    if_(owed_.value() != Exchange::kNoSignal, [&] {
      cp_async_bulk_wait_group(1);
      rows_.exchange_.signal(owed_, owed_pieces_);
    });
    const pred is_other = signal != signal_.value();
    owed_ = select(is_other, signal_.value(), u32(Exchange::kNoSignal));
    owed_pieces_ = pieces_.value();
    pieces_ = select(is_other, u32(1), pieces_.value() + 1);
    signal_ = signal;
    region("wait", [&] { phases_.wait(buffer); });
    cp_async_bulk_store<BulkStoreForm{}>(to, place, bytes);
    cp_async_bulk_commit_group();
    count_ = count_ + 1;
  }
  // Waits until all pieces have arrived, and sends the outstanding signals.
  void finish() {
    cp_async_bulk_wait_group(0);
    rows_.exchange_.signal(owed_, owed_pieces_);
    rows_.exchange_.signal(signal_, pieces_);
    owed_ = u32(Exchange::kNoSignal), signal_ = u32(Exchange::kNoSignal);
  }

 private:
  const RowCopies& rows_;
  Phases phases_;
  Var<u32> count_{u32(0)};
  Var<u32> signal_{u32(Exchange::kNoSignal)},
      pieces_{u32(0)};  // signal of the most recent pieces, and number of these pieces
  Var<u32> owed_{u32(Exchange::kNoSignal)},
      owed_pieces_{
          u32(0)};  // signal and number of the pieces before those, if their signal has not been sent
};

// A piece of rows. It has no bytes if it is beyond the end of the rows of its rank.
struct RowCopies::Piece {
  u32 block, row;  // number of the block, counted over all ranks; first row of the block within its rank
  u64 offset;      // position in bytes within the rows of its rank
  u32 bytes;
};

RowCopies::RowCopies(Kernel& k, const RankedTile& t, const RankedParameters& p, const Exchange& exchange,
                     const RankedOrder& order, const CopiedRows& rows)
    : tile_(t),
      exchange_(exchange),
      order_(order),
      of_(rows),
      memory_(p.memory()),
      rank_(p.number("rank")),
      rows_(p.number("rows")),
      first_block_(rows.computed ? rows.computed->first_block : u32(0)),
      row_bytes_(u64(rows.row_elements) * static_cast<uint64_t>(size_of(rows.type))),
      pieces_of_block_(pieces_of(u32(static_cast<uint32_t>(t.bm)))),
      buffers_(k.shared<u8>({1, t.piece_bytes}, SwizzleNone, kBuffers, "pieces of rows")),
      loaded_(k, std::vector<int>(kBuffers, 1), {"a piece of rows"}) {}

u32 RowCopies::rows_of(u32 owner) const {
  if (!of_.all_rows) return rows_;
  const u32 first = min(owner * rows_, *of_.all_rows);
  return min(*of_.all_rows - first, rows_);
}

u32 RowCopies::pieces_of(u32 rows) const {
  const auto bytes = static_cast<uint64_t>(tile_.piece_bytes);
  return u32((u64(rows) * row_bytes_ + (bytes - 1)) / bytes);
}

RowCopies::Piece RowCopies::piece(u32 owner, u32 first_block, u32 number) const {
  const u32 block = first_block + number / pieces_of_block_, row = block * tile_.bm;
  const u64 most = static_cast<uint64_t>(tile_.piece_bytes);
  const u64 offset = u64(row) * row_bytes_ + u64(number % pieces_of_block_) * most,
            end = u64(min(row + tile_.bm, rows_of(owner))) * row_bytes_;
  return {owner * order_.blocks_of_rank() + block, row, offset,
          u32(select(offset < end, min(end - offset, most), u64(0)))};
}

gmem RowCopies::gathered(u32 of_rank, u32 owner) const {
  return gmem(pointer_of(of_rank, memory_)) +
         (u64(owner) * (u64(rows_) * row_bytes_) + uint64_t{kExchangeBytes});
}

void RowCopies::wait(u32 block, u32 row) const {
  const u32 owner = block / order_.blocks_of_rank(),
            rows = min(rows_of(owner) - row, u32(static_cast<uint32_t>(tile_.bm)));
  exchange_.wait(first_block_ + block, pieces_of(rows));
  fence_proxy_async<Space::global>();  // TMA is about to load data that TMA of other ranks has stored
}

void RowCopies::send(Copier& copier, u32 first_block, u32 pieces) const {
  const auto ranks = static_cast<uint32_t>(tile_.ranks);
  Var<u32> free_rank(rank_);  // most recent rank whose memory is known to be free
  Var<u32> computed(~0u);     // most recent block that is known to be computed
  // Maximum number of consecutive pieces that a CTA copies at a time. Consecutive pieces share signals.
  constexpr uint32_t kMostAtOnce = 8;
  const u32 at_once = max(min(pieces / nctaid_x(), u32(kMostAtOnce)), u32(1)),
            runs = ceil_div(pieces, at_once);
  for_(ctaid_x(), runs * (ranks - 1), nctaid_x(), [&](u32 run) {
    const u32 to = (rank_ + 1 + run / runs) % ranks, first = run % runs * at_once;
    for_(first, min(first + at_once, pieces), [&](u32 number) {
      const Piece one = piece(rank_, first_block, number);
      if_(one.bytes > 0, [&] {
        if_(free_rank.value() != to, [&] { exchange_.wait_until_free(to); });
        free_rank = to;
        if (of_.computed) {
          if_(computed.value() != one.block, [&] {
            exchange_.wait(first_block_ + one.block, of_.computed->signals);
            fence_proxy_async<Space::global>();
          });
          computed = one.block;
        }
        copier.copy(of_.own + one.offset, gathered(to, rank_) + one.offset, one.bytes,
                    Exchange::signal_of(to, first_block_ + one.block));
      });
    });
  });
  copier.finish();  // without this, each rank would wait for signals that the others owe it
}

// Copies the pieces of one round to the memory `kept`, in the order in which they arrive. The pieces are
// distributed over the warps of all CTAs.
void RowCopies::keep(u32 first_block, u32 pieces) const {
  const auto ranks = static_cast<uint32_t>(tile_.ranks);
  const u32 sources = of_.computed ? ranks - 1 : ranks;  // computed rows are already in place
  const u32 warp = ctaid_x() * kKeepingWarps + (warp_index() - (kSendingWarp + 1));
  for_(warp, pieces * sources, nctaid_x() * kKeepingWarps, [&](u32 number) {
    const u32 owner = (rank_ + sources - number / pieces) % ranks;
    const Piece one = piece(owner, first_block, number % pieces);
    if_(one.bytes > 0, [&] {
      if_((owner != rank_) & (laneid() == 0), [&] {
        const u32 rows = min(rows_of(owner) - one.row, u32(static_cast<uint32_t>(tile_.bm)));
        exchange_.wait(first_block_ + one.block, pieces_of(rows));
      });
      bar_warp_sync(0xffffffff);
      const gmem own = of_.own + one.offset, other = gathered(rank_, owner) + one.offset;
      copy_by_lanes(of_.computed ? other : select(owner == rank_, own, other),
                    *of_.kept + (u64(owner) * (u64(rows_) * row_bytes_) + one.offset), one.bytes);
    });
  });
}

void RowCopies::each_round(const std::function<void(u32 first_block, u32 pieces)>& body) const {
  for_(0, u32(static_cast<uint32_t>(tile_.rounds)), [&](u32 round) {
    const u32 first = min(round * order_.blocks_of_round(), order_.blocks_of_rank()),
              last = min(first + order_.blocks_of_round(), order_.blocks_of_rank());
    body(first, (last - first) * pieces_of_block_);
  });
}

void RowCopies::run() const {
  if_((warp_index() == kSendingWarp) & (laneid() == 0), [&] {
    Copier copier(*this);
    each_round([&](u32 first, u32 pieces) { send(copier, first, pieces); });
    left();
  });
  if (!of_.kept) return;
  if_(warp_index() > kSendingWarp, [&] {
    each_round([&](u32 first, u32 pieces) { keep(first, pieces); });
    bar_warp_sync(0xffffffff);  // all lanes must have read the signals
    if_(laneid() == 0, [&] { left(); });
  });
}

void RowCopies::left() const {
  exchange_.left(
      2 + (of_.kept ? kKeepingWarps : 0),
      Exchange::Blocks{first_block_, order_.blocks_of_rank() * static_cast<uint32_t>(tile_.ranks)});
}

}  // namespace ptxbuilder::kernels
