#include "kernels/gemm/choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kMeasured = 12;  // number of the shortlist's tiles that tuning measures

struct Row {
  DType a, d;
  const char* layout;
  int64_t m, n, k;
  const char* tile;
};

const Row kTuned[] = {
#define PTXBUILDER_TUNED(a, d, layout, m, n, k, tile) {DType::a, DType::d, layout, m, n, k, tile},
#include "kernels/gemm/tuned.def"
#undef PTXBUILDER_TUNED
};

// Returns the layout in BLAS notation. The first letter is T if B is k-major and N otherwise; the second is N
// if A is k-major and T otherwise.
std::string layout(const GemmOperation& o) {
  return std::string(o.b_k_major ? "T" : "N") + (o.a_k_major ? "N" : "T");
}

// Returns the tiles of all useful shapes, independent of the product's size. If `packed`, the tiles include
// narrow ones for three warpgroups, so that more warpgroups convert weights at once.
std::vector<GemmTile> menu(bool packed) {
  std::vector<GemmTile> all;
  for (bool swapped : {false, true})
    for (int bn = 8; bn <= 320; bn += bn < 256 ? 8 : 16) {
      auto add = [&](int bm, int consumers, bool pingpong, int ctas_per_sm) {
        GemmTile t;
        t.bm = bm;
        t.bn = bn;
        t.consumers = consumers;
        t.pingpong = pingpong;
        t.swapped = swapped;
        t.ctas_per_sm = ctas_per_sm;
        all.push_back(t);
      };
      if (bn <= 256) add(64, 1, false, 1);
      if (bn <= 64) add(64, 1, false, 2);
      add(128, 2, false, 1);
      if (bn >= 64 && bn <= 192) add(64, 2, true, 1);
      if (bn >= 64 && bn <= 192) add(128, 2, true, 1);
      if ((packed && bn <= 128) || (bn >= 96 && bn <= 240)) add(192, 3, false, 1);
      if (bn >= 64 && bn <= 192) add(256, 2, false, 1);
    }
  return all;
}

bool one_wave(const GemmTile& t, const GemmSize& size, int multiprocessors) {
  return tiles_of(t, size) * t.split_k <= multiprocessors;
}

bool hangs_over(const GemmTile& t, const GemmSize& size) {
  const auto [rows, columns] = outside(t, size);
  return rows > 0 || columns > 0;
}

// Returns whether some clusters have CTAs whose tiles are entirely outside the output.
bool has_empty_tiles(const GemmTile& t, const GemmSize& size) {
  return blocks_of(t, size) * t.cluster_m * t.cluster_n > tiles_of(t, size);
}

// The clusters, in CTAs along rows and columns, for tiles that are divided. Large clusters are included
// because the parts of a few tiles read as much data as many large tiles, so that L2 limits them.
constexpr std::pair<int, int> kDividedClusters[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2},
                                                    {4, 1}, {1, 4}, {4, 2}, {2, 4}};

// Returns variants of the tile with several clusters, in which the last wave is divided among the CTAs.
// Clusters whose last wave fills the SMs are omitted. For each cluster, split_last runs from the largest
// useful number down to 2, since fewer CTAs per tile have fewer sums to add up.
std::vector<GemmTile> divided(const GemmTile& tile, const GemmSize& size, int multiprocessors, bool grouped) {
  std::vector<GemmTile> all;
  if (grouped) {  // the size of the last wave is unknown
    all.push_back(tile);
    all.back().split_last = 8;
    return all;
  }
  for (auto [cm, cn] : kDividedClusters) {
    GemmTile t = tile;
    t.cluster_m = cm;
    t.cluster_n = cn;
    const int clusters = active_clusters(cm * cn, multiprocessors);
    const double blocks = blocks_of(t, size), rest = std::fmod(blocks, clusters);
    // Products of several waves are slower with more than two CTAs along an axis.
    if (rest == 0 || (blocks > clusters && std::max(cm, cn) > 2)) continue;
    for (int split = std::max(2, static_cast<int>(clusters / rest)); split > 1;
         split = split > 8 ? split / 2 : split - 1) {
      t.split_last = split;
      all.push_back(t);
    }
  }
  return all;
}

}  // namespace

// A divided last wave needs a cooperative launch, which takes the driver more time, and the gain from
// dividing can be smaller than the error of a prediction. Among tiles that the model had chosen, three
// consumers in clusters of four were 5 to 10 % slower than predicted. One consumer in clusters of four along
// one axis was up to 14 % slower.
double doubt(const GemmTile& t) {
  if (t.split_last > 1) return 1.01;
  if (t.split_k == 1 && t.consumers == 1 && std::max(t.cluster_m, t.cluster_n) == 4 &&
      std::min(t.cluster_m, t.cluster_n) == 1)
    return 1.02;
  return t.consumers == 3 && t.cluster_m * t.cluster_n == 4 ? 1.04 : 1;
}

std::vector<Candidate> candidates(const GemmOperation& o, const GemmSize& size, int multiprocessors) {
  std::vector<Candidate> all;
  auto add = [&](GemmTile tile) {
    const GemmSize whole = without_groups(o, size, tile);
    // TMA is slow outside a tensor. If all tiles run at once, a tile that extends beyond the output would
    // determine the time of the launch. An empty tile likewise delays its cluster.
    tile.inside =
        (one_wave(tile, whole, multiprocessors) && hangs_over(tile, whole)) || has_empty_tiles(tile, whole);
    const std::optional<TilePlan> t = plan_of(o, tile).plan;
    if (!t) return;
    // A plan with one more stage has room for only a single epilogue buffer.
    GemmTile more = *t;
    ++more.stages;
    const std::optional<TilePlan> deeper =
        t->stages < (t->pingpong ? 5 : 4) ? plan_of(o, more).plan : std::nullopt;
    if (!t->pingpong || !deeper) all.push_back({*t, predict(o, size, *t, multiprocessors)});
    if (deeper) all.push_back({*deeper, predict(o, size, *deeper, multiprocessors)});
  };
  std::map<bool, int>
      narrowest;  // the smallest number of columns for tiles that are not swapped (false) and swapped (true)
  for (GemmTile t : menu(o.packed.is_packed())) {
    if (!narrowest.contains(t.swapped) && plan_of(o, t).plan) narrowest[t.swapped] = t.bn;
    if (!narrowest.contains(t.swapped)) continue;
    const int unit = narrowest[t.swapped];
    if (t.bn > unit && t.bn - unit >= columns_of(t, size)) continue;  // the tile is wider than necessary
    add(t);
    if (t.consumers == 1 && t.ctas_per_sm == 1 && !o.has_block_scales() &&
        !o.packed.is_packed()) {  // stages twice as deep halve the number of barrier operations
      GemmTile deep = t;
      deep.bk = 256 / size_of(o.a);
      add(deep);
    }
    // Clusters of more than two CTAs help if tiles are small. They make large tiles slower and increase their
    // power, unless rows begin within a sector.
    for (auto [cm, cn] : {std::pair(2, 1), {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}}) {
      GemmTile c = t;
      c.cluster_m = cm;
      c.cluster_n = cn;
      if (t.ctas_per_sm == 1 && (cm * cn == 2 || (cm == 2 && cn == 2) || t.bm * t.bn <= 128 * 128)) add(c);
    }
    const GemmSize whole = without_groups(o, size, t);
    if (t.ctas_per_sm == 1 && !t.pingpong)
      for (const GemmTile& s : divided(t, whole, multiprocessors, o.has_groups())) add(s);
    for (auto [cm, cn] : kDividedClusters)
      for (int split = 2; split * cm * cn <= 8; ++split) {
        GemmTile s = t;
        s.cluster_m = cm;
        s.cluster_n = cn;
        s.split_k = split;
        if (!t.pingpong && t.ctas_per_sm == 1 &&
            blocks_of(s, size) <= active_clusters(split * cm * cn, multiprocessors) &&
            static_cast<double>(size.k) / split >= 4.0 * 128 / size_of(o.a))
          add(s);
      }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& x, const Candidate& y) {
    return x.prediction.microseconds() < y.prediction.microseconds();
  });
  return all;
}

std::vector<Candidate> shortlist(const GemmOperation& o, const GemmSize& size, int multiprocessors,
                                 size_t most) {
  std::vector<Candidate> all = candidates(o, size, multiprocessors);
  std::stable_sort(all.begin(), all.end(),
                   [&](const Candidate& x, const Candidate& y) { return doubted(x) < doubted(y); });
  std::vector<Candidate> kept;
  std::map<std::tuple<int, int, bool, bool, bool>, int> seen;
  for (const Candidate& c : all) {
    if (kept.size() >= most) break;
    const GemmTile& t = c.tile;
    if (++seen[{t.bm, t.bn, t.swapped, t.pingpong, t.split_last > 1}] <= 2) kept.push_back(c);
  }
  return kept;
}

std::optional<TilePlan> tuned(const GemmOperation& o, const GemmSize& size) {
  if (o.packed.is_packed()) return std::nullopt;
  for (const Row& row : kTuned)
    if (row.a == o.a && o.a == o.b && row.d == o.d && layout(o) == row.layout && row.m == size.m &&
        row.n == size.n && row.k == size.k)
      if (auto t = plan_of(o, parse_tile(row.tile)).plan) return t;
  return std::nullopt;
}

Choice choice_of(const GemmOperation& o, const GemmSize& size, int multiprocessors) {
  if (size.batches == 1 && !o.has_groups() && !o.is_sparse())
    if (auto t = tuned(o, size)) return {*t, ChoiceSource::table};
  const std::vector<Candidate> first = shortlist(o, size, multiprocessors, 1);
  // If no tile supports the operation, checked() throws an Error with the reason.
  return {first.empty() ? checked(o, {}) : first.front().tile, ChoiceSource::model};
}

std::vector<GemmTile> tiles_to_measure(const GemmOperation& o, const GemmSize& size, int multiprocessors,
                                       const GemmTile& chosen) {
  std::vector<GemmTile> tiles = {chosen};
  for (const Candidate& c : shortlist(o, size, multiprocessors, kMeasured))
    if (std::find(tiles.begin(), tiles.end(), c.tile) == tiles.end()) tiles.push_back(c.tile);
  return tiles;
}

}  // namespace ptxbuilder::kernels
