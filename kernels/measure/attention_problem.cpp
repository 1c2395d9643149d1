#include "kernels/measure/attention_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ptxbuilder::bench {
namespace {

std::string pair_text(int64_t first, int64_t second) {
  return first == second ? fmt::format("{}", first) : fmt::format("{}/{}", first, second);
}

}  // namespace

int64_t AttentionProblem::query_rows() const {
  return packed() ? std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) : batches * queries;
}
int64_t AttentionProblem::key_rows() const { return packed() ? query_rows() : batches * keys; }

void AttentionProblem::pack(std::vector<int64_t> of_sequences) {
  lengths = std::move(of_sequences);
  batches = static_cast<int64_t>(lengths.size());
  queries = keys = *std::ranges::max_element(lengths);
}

std::vector<AttentionProblem::Sequence> AttentionProblem::sequences() const {
  std::vector<Sequence> all;
  int64_t row = 0;
  for (int64_t b = 0; b < batches; ++b) {
    const Sequence s =
        packed() ? Sequence{row, row, lengths[static_cast<size_t>(b)], lengths[static_cast<size_t>(b)]}
                 : Sequence{b * queries, b * keys, queries, keys};
    row += s.queries;
    all.push_back(s);
  }
  return all;
}

AttentionProblem::Seen AttentionProblem::seen(const Sequence& s, int64_t query) const {
  const int64_t own = query + s.keys - s.queries, behind = causal ? 0 : right;
  const int64_t end = behind < 0 ? s.keys : std::clamp<int64_t>(own + behind + 1, 0, s.keys);
  return {left < 0 ? 0 : std::clamp<int64_t>(own - left, 0, end), end};
}

double AttentionProblem::flops() const {
  double pairs = 0;
  for (const Sequence& s : sequences())
    for (int64_t i = 0; i < s.queries; ++i) {
      const Seen keys_of = seen(s, i);
      pairs += static_cast<double>(keys_of.end - keys_of.first);
    }
  return 2 * pairs * static_cast<double>((depth + value_depth) * heads);
}

std::string size_text(const AttentionProblem& p) {
  std::string text =
      fmt::format("{}{}_s{}_h{}_d{}", p.packed() ? 'p' : 'b', p.batches, pair_text(p.queries, p.keys),
                  pair_text(p.heads, p.key_heads), pair_text(p.depth, p.value_depth));
  if (p.causal) text += ":causal";
  if (p.left >= 0) text += fmt::format(":left={}", p.left);
  if (p.right >= 0) text += fmt::format(":right={}", p.right);
  if (p.type != DType::f16) text += fmt::format(":{}", name(p.type));
  return text;
}

std::string type_text(const AttentionProblem& p) {
  std::string text(name(p.type));
  if (p.causal) text += " causal";
  if (p.left >= 0) text += fmt::format(" left {}", p.left);
  if (p.right >= 0) text += fmt::format(" right {}", p.right);
  return text;
}

Axis axis_of(const AttentionProblem& p) {
  std::string rest = fmt::format("{}{} heads of {}", p.packed() ? "packed, " : "",
                                 pair_text(p.heads, p.key_heads), pair_text(p.depth, p.value_depth));
  if (p.keys != p.queries) rest += fmt::format(", {} keys", p.keys);
  return {rest, fmt::format("{}", p.queries), "queries", "size", true};
}

}  // namespace ptxbuilder::bench
