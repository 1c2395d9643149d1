#include "kernels/ranks/token_exchange.h"

#include <fmt/format.h>

#include <array>
#include <functional>

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/lane_copies.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/named_barrier.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kWarp = 32, kWarps = 8, kThreads = kWarps * kWarp;

u32 word_at(gmem words, u32 index) { return instruction<"ld.global.u32">(words + u64(index) * uint64_t{4}); }
void store_word(gmem words, u32 index, u32 value) {
  instruction<"st.global.u32">(words + u64(index) * uint64_t{4}, value);
}

// Adds up `count` numbers with the lanes of a warp. Every lane gets the sum.
u32 sum_by_lanes(u32 count, const std::function<u32(u32)>& number) {
  Var<u32> sum(0);
  for_(laneid(), count, u32(kWarp), [&](u32 i) { sum = sum.value() + number(i); });
  return instruction<"redux.sync.add.u32">(sum.value(), u32(0xffffffff));
}

class TokenExchange {
 public:
  TokenExchange(const Parameters& p, int ranks, const NamedBarrier& meeting)
      : meeting_(meeting),
        ranks_(static_cast<uint32_t>(ranks)),
        rank_(p.get<u32>("rank")),
        rows_(p.get<u32>("rows")),
        experts_(p.get<u32>("experts")),
        row_bytes_(p.get<u32>("row_bytes")),
        most_rows_(p.get<u32>("most_rows")),
        part_bytes_(p.get<u64>("part_bytes")),
        rows_at_(p.get<u64>("rows_at")),
        sorted_(p.get<gptr<u32>>("sorted")),
        ends_(p.get<gptr<u32>>("ends")),
        grouped_(p.get<gptr<u32>>("grouped")),
        splits_(p.get<gptr<u32>>("splits")),
        memory_(memory_of(p, ranks)),
        exchange_(pointer_of(rank_, memory_), memory_, rank_) {}

  void dispatch(gmem grouped_ends) const {
    each_rank([&](u32 to) {
      const u32 begin = end_of(to * experts_);
      for_(tid_x(), experts_, u32(kThreads), [&](u32 expert) {
        store_word(ends_place(to, rank_), expert, end_of(to * experts_ + expert + 1) - begin);
      });
      if_(tid_x() == 0, [&] {
        for (uint32_t i = 0; i < kTokenSizes; ++i) store_word(sizes_place(to, rank_), u32(i), sizes()[i]);
      });
      each_row(end_of((to + 1) * experts_) - begin, [&](u32 row) {
        copy_by_lanes(row_of(sorted_, begin + row), row_of(rows_place(to, rank_), row), row_bytes_);
      });
    });
    // Each thread that has waited for a rank compares the sizes of this rank with its own.
    meet_peers([&](u32 from) {
      const auto differs = [&](uint32_t i) {
        return word_at(sizes_place(rank_, from), u32(i)) != sizes()[i];
      };
      if_(differs(0) | differs(1) | differs(2), [] { trap(); });
    });
    const auto sent = [&](u32 from, u32 expert) { return sent_of(ends_place(rank_, from), expert); };
    each_rank([&](u32 from) {
      each_row(sent(from, experts_), [&](u32 row) {
        copy_by_lanes(row_of(rows_place(rank_, from), row), row_of(grouped_, grouped_row(from, row, sent)),
                      row_bytes_);
      });
    });
    if_(ctaid_x() == 0, [&] {
      for_(tid_x(), experts_, u32(kThreads), [&](u32 expert) {
        Var<u32> end(0);
        each_rank([&](u32 from) {
          const u32 of_rank = sent(from, expert + 1);
          store_word(splits_, from * experts_ + expert, of_rank);
          end = end.value() + of_rank;
        });
        store_word(grouped_ends, expert, end.value());
      });
    });
    left();
  }

  void combine() const {
    const auto sent = [&](u32 from, u32 expert) { return sent_of(splits_ + first_split(from), expert); };
    each_rank([&](u32 to) {
      each_row(sent(to, experts_), [&](u32 row) {
        copy_by_lanes(row_of(grouped_, grouped_row(to, row, sent)), row_of(rows_place(to, rank_), row),
                      row_bytes_);
      });
    });
    meet_peers();
    each_rank([&](u32 from) {
      const u32 begin = end_of(from * experts_);
      each_row(end_of((from + 1) * experts_) - begin, [&](u32 row) {
        copy_by_lanes(row_of(rows_place(rank_, from), row), row_of(sorted_, begin + row), row_bytes_);
      });
    });
    left();
  }

 private:
  // Returns how many rows rank `from` has sent for the experts of this rank that precede `expert`.
  using Sent = std::function<u32(u32 from, u32 expert)>;

  static std::vector<gptr<u32>> memory_of(const Parameters& p, int ranks) {
    std::vector<gptr<u32>> all;
    for (int r = 0; r < ranks; ++r) all.push_back(p.get<gptr<u32>>(fmt::format("memory_{}", r)));
    return all;
  }

  // Runs `body` for each rank, beginning with the next rank, so that no rank receives the rows of all others
  // at the same time.
  void each_rank(const std::function<void(u32 rank)>& body) const {
    for_(0, u32(ranks_), [&](u32 i) { body((rank_ + 1 + i) % ranks_); });
  }
  void each_row(u32 rows, const std::function<void(u32 row)>& body) const {
    for_(ctaid_x() + nctaid_x() * (tid_x() / kWarp), rows, nctaid_x() * kWarps, body);
  }
  void meet_peers(const std::function<void(u32 rank)>& check = nullptr) const {
    meeting_.sync();
    exchange_.signal(tid_x());
    exchange_.wait(tid_x());
    if (check) if_(tid_x() < ranks_, [&] { check(tid_x()); });
    meeting_.sync();
  }
  void left() const {
    if_(tid_x() == 0, [&] { exchange_.left(); });
  }

  // Returns the end of the rows of the first `experts` experts, counted over all ranks. Ends beyond the last
  // row are clamped.
  u32 end_of(u32 experts) const {
    Var<u32> end(0);
    if_(experts > 0, [&] { end = min(word_at(ends_, experts - 1), rows_); });
    return end.value();
  }
  static u32 sent_of(gmem splits, u32 expert) {
    Var<u32> sent(0);
    if_(expert > 0, [&] { sent = word_at(splits, expert - 1); });
    return sent.value();
  }
  u64 first_split(u32 from) const { return u64(from * experts_) * uint64_t{4}; }
  // Returns the position in `grouped` of a row that rank `from` has sent. Before it are the rows of all ranks
  // for earlier experts, the rows of earlier ranks for the same expert, and the earlier rows of the same
  // rank.
  u32 grouped_row(u32 from, u32 row, const Sent& sent) const {
    const u32 expert =
        sum_by_lanes(experts_, [&](u32 e) { return select(sent(from, e + 1) <= row, u32(1), u32(0)); });
    return row + sum_by_lanes(u32(ranks_), [&](u32 other) {
             const u32 ahead = sent(other, expert + select(other < from, u32(1), u32(0)));
             return select(other == from, u32(0), ahead);
           });
  }
  gmem row_of(gmem rows, u32 row) const { return rows + u64(row) * u64(row_bytes_); }
  // Returns the part of sender `from` in the memory of rank `of_rank`. In each part, the sizes come first,
  // and the address of the part does not depend on the sizes that a rank passes. Ranks that pass different
  // sizes can therefore detect this, and do not overwrite the sizes of other ranks.
  gmem part(u32 of_rank, u32 from) const {
    return gmem(pointer_of(of_rank, memory_)) +
           (u64(exchange_.place() * ranks_ + from) * part_bytes_ + uint64_t{kExchangeBytes});
  }
  std::array<u32, kTokenSizes> sizes() const { return {experts_, most_rows_, row_bytes_}; }
  gmem sizes_place(u32 of_rank, u32 from) const {
    return part(of_rank, from) + u64(ctaid_x() * kTokenSizes) * uint64_t{4};
  }
  gmem ends_place(u32 of_rank, u32 from) const {
    constexpr uint64_t of_sizes = uint64_t{PeerExchange::most_ctas()} * kTokenSizes * 4;
    return part(of_rank, from) + (u64(ctaid_x() * experts_) * uint64_t{4} + of_sizes);
  }
  gmem rows_place(u32 of_rank, u32 from) const { return part(of_rank, from) + rows_at_; }

  const NamedBarrier& meeting_;
  uint32_t ranks_;
  u32 rank_, rows_, experts_, row_bytes_, most_rows_;
  u64 part_bytes_, rows_at_;
  gmem sorted_, ends_, grouped_, splits_;
  std::vector<gptr<u32>> memory_;
  PeerExchange exchange_;
};

}  // namespace

Kernel token_exchange(TokenForm form, int ranks, Where where) {
  AtLine line(where);
  using enum Parameter::Kind;
  const bool dispatches = form == TokenForm::dispatch;
  Kernel k(dispatches ? "token_dispatch" : "token_combine");
  k.threads(kThreads);
  k.cooperative();
  const NamedBarrier meeting = k.named_barrier(kThreads);
  Parameters p;
  for (const char* name : {"sorted", "ends", "grouped", "splits"}) p.add(name, pointer, DType::u32, "");
  if (dispatches) p.add("grouped_ends", pointer, DType::u32, "");
  for (int r = 0; r < ranks; ++r) p.add(fmt::format("memory_{}", r), pointer, DType::u32, "");
  for (const char* name : {"rank", "rows", "experts", "row_bytes", "most_rows"})
    p.add(name, scalar, DType::u32, "");
  for (const char* name : {"part_bytes", "rows_at"}) p.add(name, scalar, DType::u64, "");
  p.declare(k, where);
  const TokenExchange exchange(p, ranks, meeting);
  if (dispatches)
    exchange.dispatch(gmem(p.get<gptr<u32>>("grouped_ends")));
  else
    exchange.combine();
  return k;
}

}  // namespace ptxbuilder::kernels
