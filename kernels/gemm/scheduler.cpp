#include "kernels/gemm/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ptxbuilder::kernels {

namespace {

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t least(int64_t a, int64_t b) { return std::min(a, b); }
int64_t greatest(int64_t a, int64_t b) { return std::max(a, b); }

// A number in a launch rule, expressed as text: a product, a quotient, a call, a name or a constant.
struct RuleText {
  std::string text;

  explicit RuleText(std::string rule) : text(std::move(rule)) {}
  explicit RuleText(int64_t number) : text(std::to_string(number)) {}
};
RuleText operator*(const RuleText& a, const RuleText& b) {
  return b.text == "1" ? a : a.text == "1" ? b : RuleText(fmt::format("{} * {}", a.text, b.text));
}
RuleText operator+(const RuleText& a, const RuleText& b) {
  return RuleText(fmt::format("({} + {})", a.text, b.text));
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
  return greatest(Number(int64_t{1}), Number(int64_t{hopper::clusters_at_once(ctas)}) * multiprocessors /
                                          Number(int64_t{hopper::multiprocessors}));
}

// Returns the grid as numbers or as rules, depending on `Number`. With groups of rows, each group, and the
// rows outside all groups, may end with a partly filled block of tiles.
template <class Number>
std::array<Number, 2> grid_of(const GemmTile& t, const Number& m, const Number& n, const Number& batches,
                              const Number& multiprocessors, bool grouped_rows) {
  auto number = [](int64_t value) { return Number(value); };
  auto blocks = [&](const Number& extent, int tile, int cluster, bool in_groups) {
    const Number whole = quotient_up(quotient_up(extent, number(tile)), number(cluster));
    return in_groups ? whole + (batches + number(1)) : whole;
  };
  Number x = blocks(t.swapped ? n : m, t.bm, t.cluster_m, grouped_rows && !t.swapped);
  if (!grouped_rows) x = x * batches;
  const Number y = blocks(t.swapped ? m : n, t.bn, t.cluster_n, grouped_rows && t.swapped);
  if (t.split_k > 1) return {x * y * number(t.cluster_m), number(t.cluster_n)};
  const int cluster = t.cluster_m * t.cluster_n;
  const Number at_once = clusters_at_once(cluster, multiprocessors) * number(t.ctas_per_sm);
  const Number clusters =
      t.split_last > 1 ? least(x * y * number(t.split_last), least(at_once, number(kMostSplitCtas / cluster)))
                       : least(x * y, at_once);
  return {clusters * number(t.cluster_m), number(t.cluster_n)};
}

// The maximum number of tiles that are divided among one CTA more than there are tiles. Dividing more tiles
// than this among one more CTA would save little time.
constexpr int kMostTogether = 4;

int64_t either(bool condition, int64_t a, int64_t b) { return condition ? a : b; }
u32 either(pred condition, u32 a, u32 b) { return select(condition, a, b); }
u32 least(u32 a, u32 b) { return min(a, b); }

// The division of the tiles that remain when there are fewer tiles than CTAs. It consists of the number of
// groups, and of the numbers of tiles and CTAs in each group. `Number` is a host or a device type.
template <class Number>
struct Shares {
  Number groups, tiles, ctas;
};

// Divides `rest` tiles among `all` CTAs. Normally each group is one tile, divided among as many CTAs as are
// available, up to `split`. If fewer than two CTAs per tile are available, each group consists of several
// tiles, divided among one more CTA than there are tiles; if that would take more than kMostTogether tiles,
// tiles are not divided. Each CTA receives at least one stage of each of its tiles.
template <class Number>
Shares<Number> shares_of(const Number& rest, const Number& all, const Number& depth, int split) {
  const Number one(1), some = either(rest > 0, rest, one);
  const Number of_one = least(least(all / some, depth), Number(split));
  const Number together = (some - 1) / (all - some) + 1;
  const auto shared = (of_one < 2) & (together <= kMostTogether) & (depth > together);
  const Number tiles = either(shared, together, one);
  return {(some - 1) / tiles + 1, tiles, either(shared, together + 1, of_one)};
}

}  // namespace

TileDivision tile_division(int64_t tiles, int64_t ctas, int64_t depth, int split) {
  const int64_t rest = tiles % ctas;
  const Shares<int64_t> shares = shares_of<int64_t>(rest, ctas, depth, split);
  return {tiles / ctas, rest, shares.groups, shares.tiles, shares.ctas};
}

int active_clusters(int ctas, int multiprocessors) {
  return static_cast<int>(clusters_at_once(ctas, int64_t{multiprocessors}));
}

GemmGrid gemm_grid(const GemmTile& t, int64_t m, int64_t n, int64_t batches, int multiprocessors,
                   bool grouped_rows) {
  const auto [x, y] = grid_of(t, m, n, batches, int64_t{multiprocessors}, grouped_rows);
  GemmGrid grid = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(t.split_k)};
  if (t.split_last == 1 || x == 0) return grid;
  // If clusters process parts of two blocks, every block needs two places for sums. Otherwise every cluster
  // needs one.
  const int64_t blocks = quotient_up(quotient_up(t.swapped ? n : m, t.bm), t.cluster_m) *
                         quotient_up(quotient_up(t.swapped ? m : n, t.bn), t.cluster_n) * batches;
  const int64_t clusters = x / t.cluster_m;
  const int64_t rest =
      grouped_rows ? clusters : blocks % clusters;  // with groups, the number is known only on the device
  grid.places = static_cast<uint32_t>(std::max(clusters, 2 * rest) * t.cluster_m * t.cluster_n);
  return grid;
}

GemmGridRule gemm_grid_rule(const GemmOperation& o, const GemmTile& t, const std::string& multiprocessors) {
  const char* const batches = o.batched ? "batches" : o.has_groups() ? "groups" : "1";
  const auto [x, y] = grid_of(t, RuleText("M"), RuleText("N"), RuleText(batches), RuleText(multiprocessors),
                              o.grouped_rows());
  return {x.text, y.text, std::to_string(t.split_k)};
}

size_t gemm_workspace_bytes(const GemmTile& t, const GemmGrid& grid) {
  if (t.split_last == 1) return 0;
  return GlobalSum::bytes(t.warpgroup_rows(), t.bn, t.consumers, static_cast<int>(grid.x * grid.y),
                          static_cast<int>(grid.places));
}

// A tile that is moved back must begin at a multiple of 16 bytes along the innermost dimension of a tensor,
// since TMA copies units of 16 bytes.
TileScheduler::Axis TileScheduler::axis(const GemmOperation& o, const GemmTile& t, u32 extent, bool rows) {
  const bool along_m = rows != t.swapped;
  const bool k_major = along_m ? o.a_k_major : o.b_k_major;
  return {extent, rows ? t.bm : t.bn,
          std::max(k_major ? 1 : 16 / size_of(o.a), along_m ? 1 : (o.gates() ? 32 : 16) / size_of(o.d))};
}

u32 TileScheduler::Axis::begin(u32 tile, bool inside) const {
  u32 start = tile * length;
  if (!inside) return start;
  return min(start, select(extent > length, ceil_div(extent - length, unit) * unit, u32(0)));
}

TileScheduler::TileScheduler(const GemmOperation& o, const GemmTile& t, u32 m, u32 n, u32 k,
                             const std::optional<u32>& batches, const std::optional<GroupSchedule>& groups)
    : tile_(t),
      x_(axis(o, t, t.swapped ? n : m, true)),
      y_(axis(o, t, t.swapped ? m : n, false)),
      batched_(o.batched || o.grouped_k()),
      groups_along_y_(o.grouped_rows() && t.swapped),
      skips_rows_of_no_group_(o.packed.has_scales()),
      groups_(groups),
      batches_(batches) {
  u32 x_tiles = ceil_div(x_.extent, x_.length);
  cols_ = ceil_div(y_.extent, y_.length);
  batch_rows_ = t.cluster_m > 1 ? ceil_div(x_tiles, t.cluster_m) * t.cluster_m : x_tiles;
  depth_ = ceil_div(k, t.bk);
  rows_ = batched_ ? batch_rows_ * *batches : batch_rows_;
}

u32 TileScheduler::stages_of_cta() const { return tiles_of_cta(rows_, cols_) * depth_; }

void TileScheduler::each_work(Turn turn, const Body& body) const {
  if (groups_) return tiles_of_groups(turn, body);
  if (tile_.split_k > 1) return share_of_tile(body);
  if (tile_.split_last > 1) {
    std::optional<u32> rows, cols;
    return tiles_and_shares(
        [&] {
          rows = ceil_div(rows_, tile_.cluster_m), cols = ceil_div(cols_, tile_.cluster_n);
          return *rows * *cols;
        },
        [&](u32 number, u32 first, u32 last) {
          const TileIndex block = grouped_raster(number, *rows, *cols, tile_.raster);
          return work_at(tile_of_block(block), first, last);
        },
        body);
  }
  for_each_tile(rows_, cols_, tile_.raster, turn, [&](TileIndex at) { body(work_at(at, 0, depth_)); });
}

Work TileScheduler::work_at(const TileIndex& at, u32 first, u32 last) const {
  std::optional<u32> batch;
  if (batched_) batch = at.row / batch_rows_;
  return {x_.begin(batch ? at.row % batch_rows_ : at.row, tile_.inside),
          y_.begin(at.col, tile_.inside),
          batch,
          first,
          last,
          std::nullopt};
}

// The blocks of a group of rows are numbered along y if the tile is swapped, and along x otherwise. Blocks
// that use the same columns of B are adjacent in time, because B may be larger than L2, and each part of it
// should be loaded from memory only once.
Work TileScheduler::work_of_rows(u32 number, const GroupPart& part) const {
  const Axis &along = groups_along_y_ ? y_ : x_, &across = groups_along_y_ ? x_ : y_;
  const u32 rows = blocks_of_rows(part.end - part.begin);
  const u32 others = blocks_across();
  const TileIndex in_group = grouped_raster(number, rows, others, tile_.raster);
  const TileIndex at = tile_of_block(groups_along_y_ ? TileIndex{in_group.col, in_group.row} : in_group);
  const u32 row = part.begin + (groups_along_y_ ? at.col : at.row) * along.length;
  const u32 other = across.begin(groups_along_y_ ? at.row : at.col, tile_.inside);
  return {groups_along_y_ ? other : row,
          groups_along_y_ ? row : other,
          std::nullopt,
          0,
          depth_,
          std::nullopt,
          part};
}

u32 TileScheduler::blocks_of_rows(u32 rows) const {
  return ceil_div(rows, groups_along_y_ ? y_.length * tile_.cluster_n : x_.length * tile_.cluster_m);
}
u32 TileScheduler::blocks_across() const {
  return groups_along_y_ ? ceil_div(batch_rows_, tile_.cluster_m) : ceil_div(cols_, tile_.cluster_n);
}

void TileScheduler::tiles_of_groups(Turn turn, const Body& body) const {
  const int cm = tile_.cluster_m;
  const u32 first = cm == 1 ? ctaid_x() : ctaid_x() / cm, step = cm == 1 ? nctaid_x() : nctaid_x() / cm;
  // Tiles of the same group take equally long, but tiles of different groups do not. Therefore each group has
  // its own raster, so that all CTAs get about the same number of tiles from each group.
  const auto walk_k = [&](const Body& each) {
    const u32 rows = ceil_div(batch_rows_, cm), cols = ceil_div(cols_, tile_.cluster_n),
              of_group = rows * cols;
    for_(first, of_group * *batches_, step, [&](u32 number) {
      const u32 group = number / of_group;
      const TileIndex at = tile_of_block(grouped_raster(number - group * of_group, rows, cols, tile_.raster));
      const GroupPart part = groups_->part_of_k(group);
      each({x_.begin(at.row, tile_.inside), y_.begin(at.col, tile_.inside), group, 0,
            ceil_div(part.end - part.begin, tile_.bk), std::nullopt, part});
    });
  };
  const auto walk_rows = [&](const Body& each) {
    const auto count = [&](u32 rows) { return blocks_of_rows(rows) * blocks_across(); };
    std::optional<GroupSchedule::Cursor> at;
    const auto work_of = [&](u32 number) {
      Work work = work_of_rows(at->number_in_group(number), at->part());
      work.batch = at->group();
      return work;
    };
    const auto with_stages = [&](Work work, u32 first, u32 last) {
      work.first = first;
      work.last = skips_rows_of_no_group_ ? select(*work.batch < *batches_, last, first) : last;
      return work;
    };
    if (tile_.split_last > 1)
      return tiles_and_shares(
          [&] {
            const u32 total = groups_->total(count);
            at.emplace(*groups_, count);
            return total;
          },
          [&](u32 number, u32 first, u32 last) {
            at->advance(number);
            return with_stages(work_of(number), first, last);
          },
          each);
    at.emplace(*groups_, count);
    Var<u32> number(first);
    Var<pred> more(pred(true));
    while_([&] { return more.value(); },
           [&] {
             at->advance(number);
             more = at->has(number);
             if_(more.value(), [&] {
               each(skips_rows_of_no_group_ ? with_stages(work_of(number), 0, depth_) : work_of(number));
               number = number.value() + step;
             });
           });
  };
  groups_->each(turn, batched_ ? GroupSchedule::Walk(walk_k) : GroupSchedule::Walk(walk_rows), body);
}

// Determines the work with split_k. Each cluster processes a block of tiles, and each CTA along z processes a
// share of the block's stages.
void TileScheduler::share_of_tile(const Body& body) const {
  const u32 rank = cluster_ctaid_z();
  const int cm = tile_.cluster_m, cn = tile_.cluster_n;
  const u32 number = cm == 1 ? ctaid_x() : ctaid_x() / cm;
  const u32 rows = cm == 1 ? rows_ : ceil_div(rows_, cm), cols = cn == 1 ? cols_ : ceil_div(cols_, cn);
  body(work_at(tile_of_block(grouped_raster(number, rows, cols, tile_.raster)), depth_ * rank / tile_.split_k,
               depth_ * (rank + 1) / tile_.split_k));
}

namespace {

// Returns shares_of(rest, all, depth, split), but avoids its divisions in the usual case of few tiles.
Shares<u32> device_shares(u32 rest, u32 all, u32 depth, int split) {
  Var<u32> groups(rest), tiles(1), ctas(min(depth, u32(static_cast<uint32_t>(split))));
  if_(rest > all / split, [&] {
    const Shares<u32> shares = shares_of<u32>(rest, all, depth, split);
    groups = shares.groups;
    tiles = shares.tiles;
    ctas = shares.ctas;
  });
  return {max(groups.value(), u32(1)), tiles, ctas};
}

}  // namespace

u32 TileScheduler::cta_in_cluster() const { return cluster_ctaid_y() * tile_.cluster_m + cluster_ctaid_x(); }

// Determines the work with split_last. The CTA first processes complete tiles, and then its share of a group,
// which begins in one tile and may end in the next. Tile i of group g is the remaining tile i * groups + g,
// so that tiles read at the same time are adjacent; the last groups may lack their last tile. If the share of
// one of two CTAs continues in the next tile, this CTA passes its sums on, and the other CTA completes the
// tile. The shares are computed inside the loop, because the producer has few registers. With clusters, a
// cluster takes the place of a CTA, and a block of tiles the place of a tile; each CTA adds up sums with the
// corresponding CTAs of other clusters.
void TileScheduler::tiles_and_shares(const std::function<u32()>& total_of,
                                     const std::function<Work(u32 number, u32 first, u32 last)>& work_of,
                                     const Body& body) const {
  const int cm = tile_.cluster_m, cn = tile_.cluster_n;
  const u32 all = cm == 1 ? nctaid_x() : nctaid_x() / cm, id = cm == 1 ? ctaid_x() : ctaid_x() / cm;
  const u32 total = total_of();
  Var<u32> wave(0), piece(0), number(0), first(0), last(0), count(1), rank(0), owners(1), place(0);
  auto whole_wave = [&] { return wave.value() + all <= total; };
  while_([&] { return whole_wave() | (piece.value() < 2); },
         [&] {
           if_(
               whole_wave(),
               [&] {
                 number = wave.value() + id;
                 first = u32(0);
                 last = depth_;
                 wave = wave.value() + all;
               },
               [&] {
                 const u32 rest = total - wave.value();
                 const Shares<u32> shares = device_shares(rest, all, depth_, tile_.split_last);
                 const u32 member = id / shares.groups, group = id - member * shares.groups;
                 const pred several = shares.tiles > 1;
                 const pred behind = several & (piece.value() == 0) &
                                     (member > 0);  // the piece that ends a tile is processed first
                 const u32 tile = select(several, member - u32(behind), u32(0));
                 const u32 stages = shares.tiles * depth_, least_share = stages / shares.ctas,
                           more = stages - least_share * shares.ctas;
                 const u32 begin = member * least_share + min(member, more);
                 const u32 end = begin + least_share + u32(member < more);
                 const u32 in_rest = tile * shares.groups + group;
                 number = select((member < shares.ctas) & (in_rest < rest), wave.value() + in_rest, total);
                 first = max(begin, tile * depth_) - tile * depth_;
                 last = min(end - tile * depth_, depth_);
                 count = select(several, u32(2), shares.ctas);
                 rank = select(several, u32(behind), member);
                 owners = select(several, u32(1), shares.ctas);
                 place = select(several, in_rest * 2, group * shares.ctas);
                 piece = select(behind & (member < shares.tiles), u32(1), u32(2));
               });
           if_(number.value() < total, [&] {
             Work work = work_of(number, first, last);
             work.parts = {count.value(), rank.value(), owners.value(),
                           cm * cn == 1 ? place.value() : place.value() * (cm * cn) + cta_in_cluster()};
             body(work);
           });
         });
}

}  // namespace ptxbuilder::kernels
