#include "kernels/attention/queue.h"

#include "kernels/attention/order.h"
#include "ptxbuilder/ir/instruction.h"

namespace ptxbuilder::kernels {
namespace {

u32 parity(u32 round, int places) { return round / u32(places) & 1u; }

}  // namespace

WorkQueue::WorkQueue(Kernel& k, int readers)
    : places_(k.shared(DType::u32, {kPlaces, kNumbers}, Swizzle::none, 1, "work")),
      announced_(k, std::vector<int>(kPlaces, 1), {"work"}),
      read_(k, std::vector<int>(kPlaces, readers), {"work read"}) {}

sptr<u32> WorkQueue::place(u32 round) const {
  return sptr<u32>(places_[0].address() + round % u32(kPlaces) * (kNumbers * 4));
}

void WorkQueue::announce(const AttentionSizes& sizes, int rows) const {
  const gptr<u32> order = *sizes.order;
  const u32 all = u32(order[AttentionOrder::kBlocks]) * sizes.heads;
  Var<u32> round(0);
  Var<pred> more(pred(true));
  while_([&] { return more.value(); },
         [&] {
           const u32 at = round;
           const u32 taken = instruction<"atom.global.add.u32">(gmem(order), 1u);
           more = taken < all;
           barrier_wait(read_[at % u32(kPlaces)], parity(at, kPlaces) ^ 1u);
           const sptr<u32> to = place(at);
           if_(
               taken < all,
               [&] {
                 const u32 entry = AttentionOrder::kFirst + taken / sizes.heads * AttentionOrder::kEntry;
                 const AttentionWork w =
                     work_of_sequence(sizes, u32(order[entry + 1]) * rows, taken % sizes.heads, order[entry]);
                 const std::array<u32, 7> numbers = {w.row,  w.head,        w.batch,    w.queries,
                                                     w.keys, w.first_query, w.first_key};
                 for (size_t i = 0; i < numbers.size(); ++i) to[u32(i)] = numbers[i];
               },
               [&] {
                 for (int i = 0; i < kNumbers; ++i) to[i] = u32(0);
               });
           mbarrier_arrive(announced_[at % u32(kPlaces)]);
           // Each CTA takes one number too many: with the last of these none is to come.
           if_(taken == all + (nctaid_x() - 1),
               [&] { instruction<"atom.global.add.u32">(gmem(order), u32(0) - (taken + 1)); });
           round = at + 1;
         });
}

AttentionWork WorkQueue::read(const AttentionSizes& sizes, u32 round) const {
  barrier_wait(announced_[round % u32(kPlaces)], parity(round, kPlaces));
  const sptr<u32> from = place(round);
  AttentionWork w = {from[0], from[1], from[2], from[3], from[4], sizes.visible, sizes.hidden};
  w.first_query = from[5], w.first_key = from[6];
  w.count_from_difference();
  return w;
}

void WorkQueue::done(u32 round, pred stands) const {
  mbarrier_arrive.when(stands)(read_[round % u32(kPlaces)]);
}

}  // namespace ptxbuilder::kernels
