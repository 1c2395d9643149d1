#include "kernels/ranks/choice.h"

#include <algorithm>

#include "kernels/ranks/exchange.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

int64_t quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the number of stages that fit in shared memory, in addition to the buffers of the epilogue and of
// RowCopies.
int stages_of(const RankedTile& t) {
  constexpr int kOther = 34 * 1024, kMost = 8;
  return std::min(kMost, (hopper::shared_bytes - kOther) / ((t.bm + t.bn) * 128));
}

// Returns the predicted time in microseconds.
double time_of(RankedForm form, const RankedTile& t, int64_t rows, int64_t n, int64_t k,
               int multiprocessors) {
  constexpr double kClock = 1531;    // MHz; at this clock, 128 x 256 tiles reach 745 TFLOP/s in bf16
  constexpr double kElements = 32;   // elements of D that a step processes per clock
  constexpr double kBetween = 115;   // clocks between two steps
  constexpr double kLatency = 1342;  // latency of a load in clocks; it is divided by the number of stages
  constexpr double kTile = 2;        // microseconds for the first loads and the epilogue of a tile
  constexpr double kL2 = 9e6, kLink = 360e3;  // bytes per microsecond
  const int64_t of_rank = rows_of_rank(form, t, rows),
                clusters = quotient(quotient(of_rank, t.bm), t.cluster) * quotient(n, t.bn) * t.ranks;
  const int64_t at_once = clusters_at_once(t, multiprocessors);
  const auto ctas = static_cast<double>(std::min(clusters, at_once) * t.cluster);
  const double clocks = std::max(t.bm * t.bn / kElements + kBetween, kLatency / t.stages),
               l2 = ctas * (t.bm + static_cast<double>(t.bn) / t.cluster) * 128 / kL2,
               tile = static_cast<double>(quotient(k, t.bk())) * std::max(clocks / kClock, l2) + kTile;
  const int64_t bytes = form == RankedForm::all_gather ? k * size_of(t.type) : n * size_of(t.d_type);
  const double link = (t.to_all ? 2 : 1) * static_cast<double>((t.ranks - 1) * of_rank * bytes) / kLink;
  return std::max(static_cast<double>(quotient(clusters, at_once)) * tile, link + tile);
}

}  // namespace

std::vector<RankedTile> ranked_tiles(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n) {
  std::vector<RankedTile> tiles;
  for (const int cluster : {2, 1})
    for (const int bm : {128, 64})
      for (const int bn : {256, 192, 128, 64}) {
        RankedTile t = fixed;
        t.cluster = cluster, t.bm = bm, t.bn = bn, t.stages = stages_of(t);
        t.to_all = form == RankedForm::all_reduce, t.rounds = t.to_all ? 4 : 1;
        if (ranked_blocks(form, t, rows, n) <= Exchange::most_blocks()) tiles.push_back(t);
      }
  return tiles;
}

RankedTile ranked_choice(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n, int64_t k,
                         int multiprocessors) {
  const std::vector<RankedTile> tiles = ranked_tiles(form, fixed, rows, n);
  const auto time = [&](const RankedTile& t) { return time_of(form, t, rows, n, k, multiprocessors); };
  const auto best = std::ranges::min_element(tiles, {}, time);
  return best == tiles.end() ? fixed : *best;
}

}  // namespace ptxbuilder::kernels
