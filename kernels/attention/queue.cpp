#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kBeyond = uint32_t{1} << 31;  // a row beyond all queries
constexpr int kPlaces = 4, kNumbers = 12;

// Encodes work as numbers. read() decodes them.
std::vector<u32> numbers_of(const AttentionWork& w) {
  std::vector<u32> all = {w.row, w.head, w.batch, w.queries, w.keys, w.first_query, w.first_key};
  if (const std::optional<KeyPart>& p = w.part)
    all.insert(all.end(), {p->first, p->end, p->number, p->count});
  return all;
}

}  // namespace

WorkQueue::WorkQueue(Kernel& k, int readers) : places_(k, kPlaces, kNumbers, readers) {}

void WorkQueue::announce(const std::function<pred(u32)>& has_next,
                         const std::function<AttentionWork()>& work) const {
  Var<u32> round(0);
  Var<pred> more(pred(true));
  while_([&] { return more.value(); },
         [&] {
           const u32 at = round;
           const pred has = has_next(at);
           more = has;
           const sptr<u32> to = places_.begin(at);
           if_(
               has,
               [&] {
                 const std::vector<u32> numbers = numbers_of(work());
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
  AttentionWork w = {from[0],
                     from[1],
                     from[2],
                     sizes.queries,
                     sizes.keys,
                     sizes.visible,
                     sizes.window_start,
                     sizes.heads_in_rows};
  if (sizes.query_offsets)
    w.queries = from[3], w.keys = from[4], w.first_query = from[5], w.first_key = from[6];
  if (sizes.teams) w.keys = from[4], w.part = {from[7], from[8], from[9], from[10]};
  if (sizes.query_offsets || sizes.key_lengths) w.count_from_difference(sizes);
  return w;
}

void WorkQueue::done(u32 round, pred stands) const { places_.done(round, stands); }

}  // namespace ptxbuilder::kernels
