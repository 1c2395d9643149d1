#include "kernels/gemm/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernels/gemm/refusal.h"
#include "kernels/gemm/split.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBarrierBytes = 1024;  // upper bound for all barriers, including alignment
constexpr int kMostStages = 16;
constexpr int kBuffer = 8192;   // bytes of an epilogue buffer
constexpr int kScaleLine = 32;  // number of scales in 128 bytes

// Returns the number of bytes that block scales or metadata occupy in a stage, in addition to A and B.
int bytes_beside(const GemmOperation& o, const GemmTile& t) {
  if (o.is_sparse())
    return (t.bm / kSparseBlock) * (t.bk / kSparseBlock) * kSparseBlockWords *
           static_cast<int>(sizeof(uint32_t));
  if (!o.has_block_scales()) return 0;
  const ScaleTiles scales = scale_tiles(o, t);
  return scales.of_a.bytes() + scales.of_b.bytes();
}

int stage_bytes(const GemmOperation& o, const GemmTile& t) {
  if (o.packed.is_packed())
    return t.bm / kPackedColumns * block_of(o.packed).bytes + t.bn * t.bk * size_of(o.a);
  return ((o.is_sparse() ? t.bm / 2 : t.bm) + t.bn) * t.bk * size_of(o.a);
}

int stages_that_fit(const GemmOperation& o, const GemmTile& t, int buffers) {
  const int room = (hopper::shared_bytes + hopper::reserved_shared_bytes) / t.ctas_per_sm -
                   hopper::reserved_shared_bytes - kBarrierBytes - buffers * kBuffer * t.consumers;
  return std::min(room / (stage_bytes(o, t) + bytes_beside(o, t)), kMostStages);
}

// A tile with block scales leaves no registers in which its results could wait until they are stored during
// the next tile. The results wait in shared memory instead, in up to kMostBuffers buffers. This leaves room
// for fewer stages, but kFewStages stages suffice.
constexpr int kFewStages = 3, kMostBuffers = 4;
int most_buffers(const GemmOperation& o, const GemmTile& t) {
  if (!o.has_block_scales() || t.split_last > 1) return 2;
  const int panels = t.warpgroup_rows() / 64 * ((o.d_columns(t.bn) * size_of(o.d) + 127) / 128);
  return std::clamp(panels, 2, kMostBuffers);
}

// The time that a CTA takes to complete a panel consists of kPanelClocks for the latencies of L2 and of a
// store, and of kColumnClocks for the sums that each CTA contributes to a column of 64 rows.
constexpr double kPanelClocks = 700, kColumnClocks = 6;

// Returns the width of panels that results in the shortest time. A CTA completes whole panels, one after the
// other, and the slowest CTA determines the time. Narrow panels are penalized, because TMA is slower with
// boxes of few bytes.
int panel_columns(const GemmOperation& o, const GemmTile& t) {
  // A panel must not be wider than a box along the first mode of n.
  const int widest = o.n_box == 0 ? t.bn : o.n_box;
  if (t.split_last == 1) return o.n_box == 0 ? 0 : std::min(widest, 128 / size_of(o.d));
  const int across = static_cast<int>(o.d_columns(t.bn));
  int best = 0;
  double least = 0;
  for (int columns : {128, 64, 32, 16, 8}) {
    const int bytes = columns * size_of(o.d);
    if (across % columns != 0 || columns > widest || (t.swapped && columns > 64) ||
        (!t.swapped && (bytes > 128 || bytes % 16 != 0)))
      continue;
    const int panels = t.warpgroup_rows() / 64 * (across / columns);
    const int turns = (panels + t.split_last - 1) / t.split_last;
    const double narrow = t.swapped || bytes > 32 ? 1 : bytes > 16 ? 1.15 : 1.5;
    const double clocks = turns * (kPanelClocks + narrow * columns * t.split_last * kColumnClocks);
    if (best == 0 || clocks < least) best = columns, least = clocks;
  }
  return best;
}

bool defers_store(const GemmOperation& o, const GemmTile& t) {
  const int sums = t.warpgroup_rows() * t.bn / 128;
  return size_of(o.d) == 2 && !o.d_by_threads && !o.promotes() && !t.pingpong && t.split_k == 1 &&
         t.consumers <= 2 && t.ctas_per_sm == 1 && sums + sums / 2 <= (o.has_epilogue() ? 144 : 192) &&
         !(o.batched && o.has_epilogue());
}

bool stores_twice(const GemmOperation& o, const TilePlan& t) {
  const int bytes = o.d_columns(t.bn) * size_of(o.d);
  if (t.swapped || t.split_last > 1 || o.n_box != 0 || o.beta || o.user_epilogue || o.add_to_rows ||
      bytes < 128 || bytes % 64 == 0)
    return false;
  return bytes % 32 != 0 || !t.defers_store;
}

int parse_number(std::string_view text, size_t from, const std::string& whole) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(
        fmt::format("tile '{}': '{}' is not a number; the form must be 128x256x64_4_2x1_g16, followed by any "
                    "of _w1 or _w3 (consumers), _pp, _swap, _k4, _s4, _x2, _nopdl and _in",
                    whole, text));
  return value;
}

}  // namespace

std::string text(const GemmTile& t) {
  std::string s = fmt::format("{}x{}x{}_{}", t.bm, t.bn, t.bk, t.stages);
  if (t.cluster_m * t.cluster_n > 1) s += fmt::format("_{}x{}", t.cluster_m, t.cluster_n);
  if (!(t.raster == Raster()))
    s += fmt::format("_{}{}{}", t.raster.columns ? 'c' : 'g', t.raster.group, t.raster.snake ? "s" : "");
  if (t.pingpong) s += "_pp";
  if (t.consumers != 2) s += fmt::format("_w{}", t.consumers);
  if (t.swapped) s += "_swap";
  if (t.split_k > 1) s += fmt::format("_k{}", t.split_k);
  if (t.split_last > 1) s += fmt::format("_s{}", t.split_last);
  if (t.ctas_per_sm > 1) s += fmt::format("_x{}", t.ctas_per_sm);
  if (!t.overlaps) s += "_nopdl";
  if (t.inside) s += "_in";
  return s;
}

GemmTile parse_tile(const std::string& whole) {
  GemmTile t;
  const std::vector<std::string_view> parts = split(whole, '_');
  const std::vector<std::string_view> sizes = split(parts[0], 'x');
  auto number = [&](std::string_view text, size_t from = 0) { return parse_number(text, from, whole); };
  t.bm = number(sizes[0]);
  t.bn = number(sizes.size() > 1 ? sizes[1] : "");
  if (sizes.size() > 2) t.bk = number(sizes[2]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string_view p = parts[i];
    const std::vector<std::string_view> cluster = split(p, 'x');
    if (p == "pp")
      t.pingpong = true;
    else if (p == "swap")
      t.swapped = true;
    else if (p == "nopdl")
      t.overlaps = false;
    else if (p == "in")
      t.inside = true;
    else if (p.starts_with('g') || p.starts_with('c'))
      t.raster = {number(p.ends_with('s') ? p.substr(0, p.size() - 1) : p, 1), p[0] == 'c', p.ends_with('s')};
    else if (p.starts_with('w'))
      t.consumers = number(p, 1);
    else if (p.starts_with('k'))
      t.split_k = number(p, 1);
    else if (p.starts_with('s'))
      t.split_last = number(p, 1);
    else if (p.starts_with('x'))
      t.ctas_per_sm = number(p, 1);
    else if (cluster.size() == 2) {
      t.cluster_m = number(cluster[0]);
      t.cluster_n = number(cluster[1]);
    } else
      t.stages = number(p);
  }
  return t;
}

ScaleTiles scale_tiles(const GemmOperation& o, const GemmTile& t) {
  const auto line = [](int scales) { return (scales + kScaleLine - 1) / kScaleLine * kScaleLine; };
  const int blocks = (t.bn + 2 * kScaleBlock - scale_unit(t) - 1) / kScaleBlock;
  // A group may begin at any row, but a box of scales begins at a multiple of 16 bytes.
  return {{1, line(t.bm + (o.grouped_rows() ? kScalesOfBox - 1 : 0))},
          o.b_scales_1x128 ? ScaleTiles::Shape{1, line(t.bn)} : ScaleTiles::Shape{blocks, kScaleLine}};
}

Planned plan_of(const GemmOperation& operation, const GemmTile& given) {
  if (std::string refusal = refusal_of(operation); !refusal.empty()) return {std::nullopt, refusal};
  TilePlan t{given};
  if (t.bk == 0) t.bk = operation.packed.is_packed() ? kPackedDepth : 128 / size_of(operation.a);
  // These properties exclude `inside`. With beta or a user's epilogue, the second computation of an element
  // could read what the first has stored; with split_last, it could differ in its last bits. Threads that
  // scatter a row of D twice would race. With block scales, packed weights or metadata, a tile that was moved
  // back could begin within a block; with modes, it could extend across the end of a mode.
  if (operation.beta || operation.user_epilogue || t.split_last > 1 || operation.has_block_scales() ||
      operation.scatters() || operation.d_has_modes() || operation.packed.is_packed() ||
      operation.is_sparse())
    t.inside = false;
  if (std::string refusal = refusal_of(operation, t); !refusal.empty()) return {std::nullopt, refusal};
  t.stage_bytes = stage_bytes(operation, t);
  const int beside_two = stages_that_fit(operation, t, 2), fit = stages_that_fit(operation, t, 1);
  const int buffers = most_buffers(operation, t), beside_most = stages_that_fit(operation, t, buffers);
  if (t.stages == 0) t.stages = beside_most >= kFewStages ? beside_most : beside_two;
  if (t.stages < 1 || t.stages > fit)
    return {
        std::nullopt,
        fmt::format(
            "gemm {}: {} stages of {} B do not fit in the {} B that the epilogue leaves; at most {} fit{}",
            text(given), t.stages, t.stage_bytes, hopper::shared_bytes / t.ctas_per_sm, fit,
            fit < 1 ? ": use a smaller tile" : "")};
  if (const int partial = t.bm * t.bn * 4; t.split_k > 1 && partial > t.stages * t.stage_bytes)
    return {std::nullopt, fmt::format("gemm {}: the sums of a CTA, {} B, do not fit in its {} stages: use "
                                      "more stages or a smaller tile",
                                      text(given), partial, t.stages)};
  t.panel_columns = panel_columns(operation, t);
  t.staging_buffers = t.stages <= beside_most ? buffers : t.stages > beside_two ? 1 : 2;
  t.defers_store = defers_store(operation, t);
  t.stores_twice = stores_twice(operation, t);
  return {t, ""};
}

TilePlan checked(const GemmOperation& operation, const GemmTile& tile, Where where) {
  const Planned planned = plan_of(operation, tile);
  if (!planned.plan) throw Error(where, planned.refusal);
  return *planned.plan;
}

}  // namespace ptxbuilder::kernels
