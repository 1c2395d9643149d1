#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kBeyond = uint32_t{1} << 31;  // a row of no tensor
constexpr int kPlaces = 4, kNumbers = 8;

}  // namespace

WorkQueue::WorkQueue(Kernel& k, int readers) : places_(k, kPlaces, kNumbers, readers) {}

void WorkQueue::announce(u32 all, const std::function<u32(u32)>& next,
                         const std::function<AttentionWork(u32)>& work) const {
  Var<u32> round(0);
  Var<pred> more(pred(true));
  while_([&] { return more.value(); },
         [&] {
           const u32 at = round, index = next(at);
           more = index < all;
           const sptr<u32> to = places_.begin(at);
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
           places_.publish(at);
           round = at + 1;
         });
}

AttentionWork WorkQueue::read(const AttentionSizes& sizes, u32 round) const {
  const sptr<u32> from = places_.read(round);
  AttentionWork w = {from[0],    from[1],       from[2],      sizes.queries,
                     sizes.keys, sizes.visible, sizes.hidden, sizes.heads_in_rows};
  if (!sizes.query_offsets) return w;
  w.queries = from[3], w.keys = from[4], w.first_query = from[5], w.first_key = from[6];
  w.count_from_difference();
  return w;
}

void WorkQueue::done(u32 round, pred stands) const { places_.done(round, stands); }

}  // namespace ptxbuilder::kernels
