// Registers the family "attention_order", which computes the order in which persistent CTAs process the
// blocks of queries of packed sequences. attention/order.h describes the output.
#include <algorithm>

#include "kernels/attention/order.h"
#include "kernels/family/family.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {
namespace {

struct Sequence {
  size_t queries = 0, keys = 0;
};

// Returns sequences of various lengths. Some lengths are near 0, and some are equal.
std::vector<Sequence> sequences(const command::Fields& f) {
  std::vector<Sequence> all;
  for (int64_t i = 0; i < f["sequences"]; ++i)
    all.push_back(
        {static_cast<size_t>(i * 37 % (f["queries"] + 1)), static_cast<size_t>(i * 53 % (f["keys"] + 1))});
  return all;
}

void run(const command::Fields& f, command::Run& run) {
  const std::vector<Sequence> all = sequences(f);
  const auto rows = static_cast<size_t>(f["rows"]);
  command::Tensor query_offsets = run.output(DType::u32, {all.size() + 1}),
                  key_offsets = run.output(DType::u32, {all.size() + 1});
  std::vector<size_t> by_keys;
  size_t queries = 0, keys = 0, blocks = 0;
  for (size_t i = 0; i <= all.size(); ++i) {
    query_offsets.set(i, static_cast<double>(queries));
    key_offsets.set(i, static_cast<double>(keys));
    if (i == all.size()) break;
    queries += all[i].queries, keys += all[i].keys, blocks += (all[i].queries + rows - 1) / rows;
    by_keys.push_back(i);
  }
  query_offsets.to_device();
  key_offsets.to_device();
  std::ranges::stable_sort(by_keys, std::ranges::greater(), [&](size_t i) { return all[i].keys; });
  std::vector<double> expected(AttentionOrder::kFirst);
  expected[AttentionOrder::kBlocks] = static_cast<double>(blocks);
  for (const size_t s : by_keys)
    for (size_t block = (all[s].queries + rows - 1) / rows; block-- > 0;) {
      expected.push_back(static_cast<double>(s));
      expected.push_back(static_cast<double>(block));
    }
  command::Tensor order = run.output(DType::u32, {expected.size()});
  const auto number = [](size_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  run.launch(
      {query_offsets.pointer(), key_offsets.pointer(), order.pointer(), number(all.size()), number(rows)});
  run.check(
      order, 1,
      [&](size_t i) {
        return command::Expected{expected[i], 0};
      },
      [&] { order.poison(); });
  run.measure(0, static_cast<double>(8 * (all.size() + 1) + 4 * expected.size()));
}

const command::Registration registration({
    .name = "attention_order",
    .summary =
        "the order in which attention takes the blocks of packed sequences: those with the most keys first",
    .fields = {{"sequences", 100, "sequences, packed one after the other"},
               {"queries", 300, "rows of the longest sequence", 1, 0},
               {"keys", 300, "rows of the longest sequence", 1, 0},
               {"rows", 128, "rows of a block of queries"}},
    .build = [](const command::Fields&) { return attention_order(); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
