#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kBeyond = uint32_t{1} << 31;  // a row of no tensor

u32 parity(u32 round, int places) { return round / u32(places) & 1u; }

}  // namespace

WorkQueue::WorkQueue(Kernel& k, int readers)
    : places_(k.shared(DType::u32, {kPlaces, kNumbers}, Swizzle::none, 1, "work")),
      announced_(k, std::vector<int>(kPlaces, 1), {"work"}),
      read_(k, std::vector<int>(kPlaces, readers), {"work read"}) {}

sptr<u32> WorkQueue::place(u32 round) const {
  return sptr<u32>(places_[0].address() + round % u32(kPlaces) * (kNumbers * 4));
}

void WorkQueue::announce(u32 all, const std::function<u32(u32)>& next,
                         const std::function<AttentionWork(u32)>& work) const {
  Var<u32> round(0);
  Var<pred> more(pred(true));
  while_([&] { return more.value(); },
         [&] {
           const u32 at = round, index = next(at);
           more = index < all;
           barrier_wait(read_[at % u32(kPlaces)], parity(at, kPlaces) ^ 1u);
           const sptr<u32> to = place(at);
           if_(
               index < all,
               [&] {
                 const AttentionWork w = work(index);
                 const std::array<u32, 7> numbers = {w.row,  w.head,        w.batch,    w.queries,
                                                     w.keys, w.first_query, w.first_key};
                 for (size_t i = 0; i < numbers.size(); ++i) to[u32(i)] = numbers[i];
               },
               [&] {
                 to[0] = u32(kBeyond);
                 for (int i = 1; i < kNumbers; ++i) to[i] = u32(0);
               });
           mbarrier_arrive(announced_[at % u32(kPlaces)]);
           round = at + 1;
         });
}

AttentionWork WorkQueue::read(const AttentionSizes& sizes, u32 round) const {
  barrier_wait(announced_[round % u32(kPlaces)], parity(round, kPlaces));
  const sptr<u32> from = place(round);
  AttentionWork w = {from[0],    from[1],       from[2],      sizes.queries,
                     sizes.keys, sizes.visible, sizes.hidden, sizes.heads_in_rows};
  if (!sizes.query_offsets) return w;
  w.queries = from[3], w.keys = from[4], w.first_query = from[5], w.first_key = from[6];
  w.count_from_difference();
  return w;
}

void WorkQueue::done(u32 round, pred stands) const {
  mbarrier_arrive.when(stands)(read_[round % u32(kPlaces)]);
}

}  // namespace ptxbuilder::kernels
