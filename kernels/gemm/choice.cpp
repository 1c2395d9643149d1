#include "kernels/gemm/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {
namespace {

// An H100 SXM with random data. What is not a figure of the hardware was fitted to 1100 measured times of 140
// products.
constexpr double kClock = 1600;            // MHz, so clocks per microsecond: what its limit of power leaves
constexpr double kSharedBytes = 128;       // of an SM, a clock
constexpr double kWritten = 0.15;          // of a byte's time that TMA takes to write it there
constexpr double kLineClocks = 1.6;        // of an SM's TMA, for a line of 128 bytes
constexpr double kOutsideClocks = 5;       // of an SM's TMA, for a row of a box that lies outside the tensor
constexpr double kL2Bytes = 13e6;          // of the GPU, a microsecond
constexpr double kMemoryBytes = 3.1e6;     // of the GPU, a microsecond
constexpr double kClusterBytes = 25e3;     // from one SM to another, a microsecond
constexpr double kGivenBytes = 23e3;       // of sums that an SM stores for others in L2, a microsecond
constexpr double kTakenBytes = 35e3;       // of sums that it loads from there, a microsecond
constexpr double kLaunch = 0.5;            // microseconds
constexpr double kCluster = 0.5;           // microseconds: its CTAs wait for each other
constexpr double kStepClocks = 45;         // of a stage, unless the next one hides it: barriers, wgmma's end
constexpr double kClusterStepClocks = 55;  // of a stage: the slowest of a cluster's CTAs
constexpr double kTileClocks = 900;        // of a tile, beside what passes through shared memory
constexpr double kShownRounds = 0.15;  // of a tile's way out, where it hides under the next one's products
constexpr double kSplit = 0.5;         // microseconds: the CTAs that add up wait for each other
constexpr double kParts = 2;           // microseconds: the same through L2, twice its latency and a fence
constexpr double kShortLaunch = 15;    // microseconds
constexpr double kNarrowBox = 8000;    // clocks that a tile loses in boxes of 16 bytes, twice those of 32

double ceil_div(double a, double b) { return std::ceil(a / b); }

// What several bounds take together: little more than the largest, unless others come near it.
double together(std::initializer_list<double> bounds) {
  double sum = 0;
  for (double bound : bounds) sum += bound * bound * bound;
  return std::cbrt(sum);
}

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

// TN: both k-major; N in the first place: B along n; T in the second: A along m.
std::string layout(const GemmOperation& o) {
  return std::string(o.b_k_major ? "T" : "N") + (o.a_k_major ? "N" : "T");
}

std::optional<GemmTile> legal(const GemmOperation& o, const GemmTile& t) {
  try {
    return checked(o, t);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Tiles without regard to the size, in every shape that has a use.
std::vector<GemmTile> menu() {
  std::vector<GemmTile> all;
  for (bool swapped : {false, true})
    for (int bn = 8; bn <= 256; bn += bn < 128 ? 8 : 16) {
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
      add(64, 1, false, 1);
      if (bn <= 64) add(64, 1, false, 2);
      add(128, 2, false, 1);
      if (bn >= 64 && bn <= 192) add(64, 2, true, 1);
      if (bn >= 64 && bn <= 192) add(128, 2, true, 1);
      if (bn >= 96 && bn <= 192) add(192, 3, false, 1);
      if (bn >= 64 && bn <= 192) add(256, 2, false, 1);
    }
  return all;
}

// What a tile's rows and columns lie along.
int64_t rows_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.n : size.m; }
int64_t columns_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.m : size.n; }

double tiles_along(int64_t extent, int tile) { return ceil_div(static_cast<double>(extent), tile); }

// Of the output, all batches; none is divided.
double tiles_of(const GemmTile& t, const GemmSize& size) {
  return tiles_along(rows_of(t, size), t.bm) * tiles_along(columns_of(t, size), t.bn) *
         static_cast<double>(size.batches);
}

bool one_wave(const GemmTile& t, const GemmSize& size, int multiprocessors) {
  return tiles_of(t, size) * t.split_k <= multiprocessors;
}

// Rows, or columns, of the last tile outside the output.
double outside(int64_t extent, int tile) {
  return tiles_along(extent, tile) * tile - static_cast<double>(extent);
}

// Products of one wave of CTAs lose 2 to 14 % where launches overlap, unless they are so short that the
// launch counts for more, or large clusters keep CTAs that share their loads together (GEMM.md, "What was
// tried").
bool suffers_from_overlap(const GemmTile& t, const GemmSize& size, double microseconds, int multiprocessors) {
  return one_wave(t, size, multiprocessors) && t.cluster_m * t.cluster_n < 4 && microseconds > kShortLaunch;
}

// CTAs for each tile of the last wave, if that does not fill the SMs.
int most_parts(double tiles, int multiprocessors) {
  const double rest = std::fmod(tiles, multiprocessors);
  return rest == 0 ? 1 : std::max(2, static_cast<int>(std::min(multiprocessors / rest, 132.0)));
}

// How the last wave is divided.
TileDivision division_of(const GemmTile& t, double tiles, double depth, int multiprocessors) {
  const auto count = static_cast<int64_t>(tiles);
  return tile_division(count, std::min<int64_t>(count * t.split_last, multiprocessors),
                       static_cast<int64_t>(depth), t.split_last);
}

// Microseconds that CTAs take to give and take sums: each gives what others complete, and takes the same from
// all others of what it completes itself, panels of which there may be fewer than CTAs.
double exchange(const GemmOperation& o, const GemmTile& t, double tiles, double depth, int multiprocessors) {
  const TileDivision d = division_of(t, tiles, depth, multiprocessors);
  if (d.rest == 0 || d.ctas == 1) return 0;
  const double sums = t.bm * t.bn * 4.0, parts = d.tiles > 1 ? 2 : static_cast<double>(d.ctas);
  const double panels = t.warpgroup_rows() / 64.0 * t.bn / panel_columns(o, t);
  const double owners = d.tiles > 1 ? 1 : std::min(parts, panels);
  const double own = std::ceil(panels / owners) / panels;
  return kParts + sums * (d.tiles > 1 ? 1 : 1 - 1 / parts) / kGivenBytes +
         sums * own * (parts - 1) / kTakenBytes;
}

// Steps of the CTA that has the most, of tiles of `depth` steps whose last wave is divided.
double divided_steps(const GemmTile& t, double tiles, double depth, int multiprocessors) {
  const auto stages = static_cast<int64_t>(depth);
  const TileDivision d = division_of(t, tiles, depth, multiprocessors);
  return static_cast<double>(d.waves * stages + (d.rest > 0 ? (stages * d.tiles + d.ctas - 1) / d.ctas : 0));
}

}  // namespace

double Prediction::microseconds() const { return together({multiply, l2, memory}) + overhead; }

Prediction predict(const GemmOperation& o, const GemmSize& size, const GemmTile& t, int multiprocessors) {
  const double rows = static_cast<double>(rows_of(t, size)),
               columns = static_cast<double>(columns_of(t, size)), element = size_of(o.a),
               batches = static_cast<double>(size.batches);
  const double across = ceil_div(tiles_along(rows_of(t, size), t.bm), t.cluster_m) * t.cluster_m,
               along = ceil_div(tiles_along(columns_of(t, size), t.bn), t.cluster_n) * t.cluster_n;
  const double tiles = across * along * batches * t.split_k;
  const int cluster = t.cluster_m * t.cluster_n * t.split_k;
  const double ctas =
      std::min<double>(tiles, active_clusters(cluster, multiprocessors) * cluster * t.ctas_per_sm);
  const double steps = ceil_div(ceil_div(static_cast<double>(size.k), t.bk), t.split_k);

  // Clocks of one step of one CTA. A wgmma of 64 x n x 32 bytes takes n / 2 clocks, and reads both operands
  // from shared memory.
  const double instructions = t.bm / 64.0 * t.bk * element / 32;
  const double tensor = instructions * t.bn / 2;
  const double written = (t.bm + t.bn) * t.bk * element * kWritten;
  const double shared = (instructions * (64 + t.bn) * 32 + written) / kSharedBytes;
  double multiplying = std::max(tensor, shared) + (t.pingpong || t.consumers == 1 ? 0 : kStepClocks);
  if (t.cluster_m * t.cluster_n > 1) multiplying += kClusterStepClocks;
  // Lines that its TMA loads: rows that do not begin with one lie across two.
  const double lines_of_row = t.bk * element / 128;
  const double loaded = (t.bm / double(t.cluster_n) + t.bn / double(t.cluster_m)) * lines_of_row;
  const double aligned =
      o.a_k_major || o.b_k_major ? static_cast<double>(std::gcd(size.k * size_of(o.a), int64_t{128})) : 128;
  double loading = loaded * (2 - aligned / 128) * kLineClocks;
  if (!t.inside && tiles <= ctas)  // else few tiles hang over
    loading +=
        (outside(rows_of(t, size), t.bm) / t.cluster_n + outside(columns_of(t, size), t.bn) / t.cluster_m) *
        lines_of_row * kOutsideClocks;
  const double step = together({multiplying, loading});
  // What passes through shared memory on its way out: written, and read by the copy.
  double out = kTileClocks + t.bm * t.bn * size_of(o.d) * 4.0 / kSharedBytes;
  if (!t.swapped && t.bn * size_of(o.d) % 64 != 0)
    out += kNarrowBox / (t.bn * size_of(o.d) % 32 != 0 ? 1 : 2);
  const bool hidden = t.pingpong || (size_of(o.d) == 2 && t.consumers <= 2 && t.bm * t.bn <= 128 * 256);
  // CTAs that an SM holds share its tensor cores, but fill each other's gaps.
  const double rounds = ceil_div(tiles, ctas) * (ctas > multiprocessors ? t.ctas_per_sm : 1);

  Prediction p;
  p.multiply = rounds * steps * step / kClock;
  if (t.split_last > 1) p.multiply = divided_steps(t, tiles, steps, multiprocessors) * step / kClock;
  p.l2 = tiles * steps * loaded * 128 / kL2Bytes;
  if (aligned < 32) p.l2 *= 1.25;  // a sector more
  const double inputs = (rows + columns) * static_cast<double>(size.k) * element;
  p.memory = batches * (inputs + rows * columns * size_of(o.d)) / kMemoryBytes;
  p.overhead = kLaunch + (hidden ? 1 + kShownRounds * (rounds - 1) : rounds) * out / kClock;
  if (t.cluster_m * t.cluster_n > 1) p.overhead += kCluster;
  if (t.split_k > 1) p.overhead += kSplit + t.bm * t.bn * 4.0 * (t.split_k - 1) / t.split_k / kClusterBytes;
  if (t.split_last > 1) p.overhead += exchange(o, t, tiles, steps, multiprocessors);
  return p;
}

std::vector<Candidate> candidates(const GemmOperation& o, const GemmSize& size, int multiprocessors) {
  std::vector<Candidate> all;
  auto add = [&](GemmTile tile) {
    // Where all tiles run at once, those that hang over would hold up the rest.
    tile.inside = one_wave(tile, size, multiprocessors) &&
                  (outside(rows_of(tile, size), tile.bm) > 0 || outside(columns_of(tile, size), tile.bn) > 0);
    if (auto t = legal(o, tile)) all.push_back({*t, predict(o, size, *t, multiprocessors)});
  };
  for (GemmTile t : menu()) {
    if (t.bn > 8 && t.bn - 8 >= columns_of(t, size)) continue;  // wider than the output
    if (auto whole = legal(o, t); whole && t.pingpong && whole->stages < 5) {
      GemmTile more = *whole;  // which leaves a single buffer for the way out
      ++more.stages;
      if (legal(o, more)) t = more;
    }
    add(t);
    if (t.consumers == 1 && t.ctas_per_sm == 1) {  // half as many barriers
      GemmTile deep = t;
      deep.bk = 256 / size_of(o.a);
      add(deep);
    }
    for (auto [cm, cn] : {std::pair(2, 1), {1, 2}, {4, 2}, {2, 4}}) {
      GemmTile c = t;
      c.cluster_m = cm;
      c.cluster_n = cn;
      if (t.ctas_per_sm == 1) add(c);
    }
    const double tiles = tiles_of(t, size);
    if (t.ctas_per_sm == 1 && !t.pingpong)
      for (int split = most_parts(tiles, multiprocessors); split > 1; split /= 2) {
        GemmTile s = t;
        s.split_last = split;
        add(s);
      }
    for (int split = 2; split <= 8; ++split) {
      GemmTile s = t;
      s.split_k = split;
      if (!t.pingpong && tiles <= active_clusters(split, multiprocessors) * t.ctas_per_sm &&
          static_cast<double>(size.k) / split >= 4.0 * 128 / size_of(o.a))
        add(s);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& x, const Candidate& y) {
    return x.prediction.microseconds() < y.prediction.microseconds();
  });
  return all;
}

std::optional<GemmTile> tuned(const GemmOperation& o, const GemmSize& size) {
  for (const Row& row : kTuned)
    if (row.a == o.a && o.a == o.b && row.d == o.d && layout(o) == row.layout && row.m == size.m &&
        row.n == size.n && row.k == size.k)
      if (auto t = legal(o, parse_tile(row.tile))) return t;
  return std::nullopt;
}

GemmTile choose(const GemmOperation& o, const GemmSize& size, int multiprocessors) {
  if (size.batches == 1)
    if (auto t = tuned(o, size)) return *t;
  const std::vector<Candidate> all = candidates(o, size, multiprocessors);
  if (all.empty()) return checked(o, {});  // says why
  auto [tile, prediction] = all.front();
  tile.overlaps = !suffers_from_overlap(tile, size, prediction.microseconds(), multiprocessors);
  return tile;
}

}  // namespace ptxbuilder::kernels
