#include "kernels/attention/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ptxbuilder::kernels {
namespace {

constexpr double kSharedBytes = 16 << 20;  // of keys and values that CTAs share, a third of L2
constexpr int64_t kFew = 64;               // queries of a head, or tiles of all

double ceil_div(double a, double b) { return std::ceil(a / b); }

bool legal(const AttentionOperation& o, const AttentionTile& t) {
  try {
    check(o, t);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Scores are f32, and their weights half as wide; what else a kernel takes was found by ptxas 13.0.
bool fits_registers(const AttentionOperation& o, const AttentionTile& t) {
  const bool masked = o.causal || o.window || o.packed;
  const int taken = t.bn * 3 / 4 + o.value_depth / 2;
  if (t.consumers == 3) return taken <= 128 - (t.ahead ? 4 : 0) - (masked ? 4 : 0);
  return taken <= 200 - (t.ahead && masked ? 24 : t.ahead || masked ? 16 : 0);
}

double bytes_of_keys(const AttentionOperation& o, const AttentionSize& s) {
  return static_cast<double>(s.keys) * (o.depth + o.value_depth) * size_of(o.type);
}

}  // namespace

int64_t heads_together(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t,
                       int ctas) {
  const int64_t heads = std::max<int64_t>(s.heads * s.batches, 1);
  if (t.ahead) {
    const int64_t blocks = std::max<int64_t>((s.queries + t.bm() - 1) / t.bm(), 1);
    return std::min(int64_t{2} * ctas / std::gcd(blocks, int64_t{2} * ctas), heads);
  }
  const auto shared = static_cast<int64_t>(kSharedBytes / std::max(bytes_of_keys(o, s), 1.0));
  return std::min(std::max<int64_t>(shared, 1) * s.group, heads);
}

std::vector<AttentionTile> attention_candidates(const AttentionOperation& o, const AttentionSize& s) {
  // One consumer of 64 queries is for what else leaves multiprocessors idle.
  const bool few = s.queries <= kFew || (s.queries + 127) / 128 * s.heads * s.batches < kFew;
  std::vector<AttentionTile> all;
  for (int consumers = few ? 1 : 2; consumers <= 3; ++consumers)
    for (int bn = o.value_depth > 128 ? 48 : 64; bn <= 256; bn += 16)
      for (const bool ahead : {false, true})
        for (const bool turns : {false, true}) {
          AttentionTile t = {consumers, bn, 2, ahead, turns};
          t.whole = !o.causal && !o.window && !o.packed && s.keys > 0 && s.keys % bn == 0;
          if (legal(o, t) && fits_registers(o, t)) all.push_back(t);
        }
  return all;
}

double predict(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t,
               int multiprocessors) {
  const double tiles = ceil_div(static_cast<double>(s.queries), t.bm()) *
                       static_cast<double>(s.heads * s.batches),
               blocks = std::max(ceil_div(static_cast<double>(s.keys), t.bn), 1.0);
  const double clocks = t.bn * (o.depth + o.value_depth) / 32.0 * t.consumers * 1.3 + 100;
  return ceil_div(tiles, multiprocessors) * (1500 + clocks * blocks) / 1600;
}

AttentionTile choose_attention(const AttentionOperation& o, const AttentionSize& s, int multiprocessors) {
  const std::vector<AttentionTile> all = attention_candidates(o, s);
  return *std::ranges::min_element(all, {},
                                   [&](const AttentionTile& t) { return predict(o, s, t, multiprocessors); });
}

}  // namespace ptxbuilder::kernels
