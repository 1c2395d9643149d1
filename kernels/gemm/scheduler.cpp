#include "kernels/gemm/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptxbuilder/product/stream_sum.h"

namespace ptxbuilder::kernels {

namespace {

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t least(int64_t a, int64_t b) { return std::min(a, b); }
int64_t greatest(int64_t a, int64_t b) { return std::max(a, b); }

// A number of a launch as a rule: a product or a quotient, a call, a name or a number.
struct RuleText {
  std::string text;

  explicit RuleText(std::string rule) : text(std::move(rule)) {}
  explicit RuleText(int64_t number) : text(std::to_string(number)) {}
};
RuleText operator*(const RuleText& a, const RuleText& b) {
  return b.text == "1" ? a : a.text == "1" ? b : RuleText(fmt::format("{} * {}", a.text, b.text));
}
RuleText operator/(const RuleText& a, const RuleText& b) {
  return RuleText(fmt::format("{} / {}", a.text, b.text));
}
RuleText quotient_up(const RuleText& a, const RuleText& b) {
  return b.text == "1" ? a : RuleText(fmt::format("ceil_div({}, {})", a.text, b.text));
}
RuleText least(const RuleText& a, const RuleText& b) {
  return RuleText(fmt::format("min({}, {})", a.text, b.text));
}
RuleText greatest(const RuleText& a, const RuleText& b) {
  return RuleText(fmt::format("max({}, {})", a.text, b.text));
}

template <class Number>
Number clusters_at_once(int ctas, const Number& multiprocessors) {
  constexpr int64_t kMeasured[] = {hopper::multiprocessors, 66, 39, 30, 22, 17, 15, 15};
  return greatest(Number(int64_t{1}),
                  Number(kMeasured[ctas - 1]) * multiprocessors / Number(int64_t{hopper::multiprocessors}));
}

// Over numbers, or over the text of rules.
template <class Number>
std::array<Number, 2> grid_of(const GemmTile& t, const Number& m, const Number& n, const Number& batches,
                              const Number& multiprocessors) {
  auto number = [](int64_t value) { return Number(value); };
  const Number x = quotient_up(quotient_up(t.swapped ? n : m, number(t.bm)), number(t.cluster_m)) * batches;
  const Number y = quotient_up(quotient_up(t.swapped ? m : n, number(t.bn)), number(t.cluster_n));
  if (t.split_k > 1) return {x * y * number(t.split_k), number(1)};
  if (t.stream_k)
    return {least(x * y * number(kStreamShares), least(multiprocessors, number(kStreamCtas))), number(1)};
  const Number clusters =
      least(x * y, clusters_at_once(t.cluster_m * t.cluster_n, multiprocessors) * number(t.ctas_per_sm));
  return {clusters * number(t.cluster_m), number(t.cluster_n)};
}

}  // namespace

int active_clusters(int ctas, int multiprocessors) {
  return static_cast<int>(clusters_at_once(ctas, int64_t{multiprocessors}));
}

GemmGrid gemm_grid(const GemmTile& t, int64_t m, int64_t n, int64_t batches, int multiprocessors) {
  const auto [x, y] = grid_of(t, m, n, batches, int64_t{multiprocessors});
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(y)};
}

GemmGridRule gemm_grid_rule(const GemmTile& t, bool batched, const std::string& multiprocessors) {
  const auto [x, y] = grid_of(t, RuleText("M"), RuleText("N"), RuleText(batched ? "batches" : "1"),
                              RuleText(multiprocessors));
  return {x.text, y.text};
}

size_t gemm_workspace_bytes(const GemmTile& t, const GemmGrid& grid) {
  return t.stream_k ? StreamSum::bytes(t.warpgroup_rows(), t.bn, t.consumers, static_cast<int>(grid.x)) : 0;
}

// Copies move units of 16 bytes along the innermost dimension of their tensor.
TileScheduler::Axis TileScheduler::axis(const GemmOperation& o, const GemmTile& t, u32 extent, bool rows) {
  const bool along_m = rows != t.swapped;
  const bool k_major = along_m ? o.a_k_major : o.b_k_major;
  return {extent, rows ? t.bm : t.bn,
          std::max(k_major ? 1 : 16 / size_of(o.a), along_m ? 1 : 16 / size_of(o.d))};
}

u32 TileScheduler::Axis::begin(u32 tile, bool inside) const {
  u32 start = tile * length;
  if (!inside) return start;
  return min(start, select(extent > length, ceil_div(extent - length, unit) * unit, u32(0)));
}

TileScheduler::TileScheduler(const GemmOperation& o, const GemmTile& t, u32 m, u32 n, u32 k,
                             const std::optional<u32>& batches)
    : tile_(t),
      x_(axis(o, t, t.swapped ? n : m, true)),
      y_(axis(o, t, t.swapped ? m : n, false)),
      batched_(o.batched) {
  u32 x_tiles = ceil_div(x_.extent, x_.length);
  cols_ = ceil_div(y_.extent, y_.length);
  batch_rows_ = t.cluster_m > 1 ? ceil_div(x_tiles, t.cluster_m) * t.cluster_m : x_tiles;
  depth_ = ceil_div(k, t.bk);
  rows_ = batched_ ? batch_rows_ * *batches : batch_rows_;
  if (!t.stream_k) return;
  u32 tiles = rows_ * cols_, ctas = nctaid_x(), rest = tiles % ctas;
  divided_ = select(tiles < ctas, tiles, select(rest == 0, u32(0), ctas + rest));
  shared_ = u64(divided_) * u64(depth_);
}

u32 TileScheduler::stages_of_cta() const { return tiles_of_cta(rows_, cols_) * depth_; }

void TileScheduler::each_work(Turn turn, const Body& body) const {
  if (tile_.split_k > 1) return share_of_tile(body);
  if (tile_.stream_k) return shares_and_tiles(body);
  for_each_tile(rows_, cols_, tile_.raster, turn, [&](TileIndex at) { body(work_at(at, 0, depth_, 0)); });
}

Work TileScheduler::work_at(const TileIndex& at, u32 first, u32 last, u32 number) const {
  std::optional<u32> batch;
  if (batched_) batch = at.row / batch_rows_;
  return {x_.begin(batch ? at.row % batch_rows_ : at.row, tile_.inside),
          y_.begin(at.col, tile_.inside),
          batch,
          first,
          last,
          number};
}

// Split k: a tile for each cluster, a share of its stages for each CTA of that.
void TileScheduler::share_of_tile(const Body& body) const {
  u32 rank = cluster_ctaid_x(), number = ctaid_x() / tile_.split_k;
  body(work_at(grouped_raster(number, rows_, cols_, tile_.raster), depth_ * rank / tile_.split_k,
               depth_ * (rank + 1) / tile_.split_k, number));
}

// Stream-K: this CTA's share of the stages of the tiles that are divided, and then whole tiles.
void TileScheduler::shares_and_tiles(const Body& body) const {
  Var<u32> stage(share_end(ctaid_x())), whole(divided_ + ctaid_x());
  u32 end = share_end(ctaid_x() + 1);
  while_([&] { return (stage.value() < end) | (whole.value() < rows_ * cols_); },
         [&] {
           pred part = stage.value() < end;
           u32 number = select(part, stage.value() / depth_, whole.value());
           u32 first = select(part, stage.value() - number * depth_, u32(0));
           u32 last = select(part, min(depth_, first + end - stage.value()), depth_);
           stage = select(part, stage.value() + (last - first), stage.value());
           whole = select(part, whole.value(), whole.value() + nctaid_x());
           body(work_at(grouped_raster(number, rows_, cols_, tile_.raster), first, last, number));
         });
}

// Where the shares of the first `ctas` CTAs end, in stages of all tiles that are divided.
u32 TileScheduler::share_end(u32 ctas) const { return u32(shared_ * u64(ctas) / u64(nctaid_x())); }

void TileScheduler::each_cta_behind(const Work& work, const std::function<void(u32 cta)>& body) const {
  Var<u32> to(work.last), cta(ctaid_x() + 1);
  while_([&] { return to.value() < depth_; },
         [&] {
           u32 until = min(depth_, share_end(cta.value() + 1) - work.tile * depth_);
           if_(until > to.value(), [&] { body(cta); });
           to = until;
           cta = cta.value() + 1;
         });
}

}  // namespace ptxbuilder::kernels
