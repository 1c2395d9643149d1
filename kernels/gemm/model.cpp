#include "kernels/gemm/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {
namespace {

// Returns how many clocks the activation of an element takes if two warpgroups process a tile.
double clocks_of(Activation activation, [[maybe_unused]] const ModelConstants& c) {
  switch (activation) {
#define PTXBUILDER_ACTIVATION(word, c_word, value, slope, clocks) \
  case Activation::word:                                          \
    return clocks;
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
  }
  return 0;
}

constexpr double kWatts = 700;  // the power limit of an H100 SXM

double ceil_div(double a, double b) { return std::ceil(a / b); }

// Combines times of overlapping activities. The result is a little more than the largest time, unless others
// are close to it.
double together(std::initializer_list<double> bounds, double sharpness) {
  double sum = 0;
  for (double bound : bounds) sum += std::pow(bound, sharpness);
  return std::pow(sum, 1 / sharpness);
}

int64_t rows_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.n : size.m; }

double tiles_along(int64_t extent, int tile) { return ceil_div(static_cast<double>(extent), tile); }

// Returns the factor by which tiles take longer with groups than without. It was measured on an H100 80GB
// HBM3 (driver 580.159.04, 2026-11-27) with `gemm --group_ends yes --bench`, for 8, 32 and 64 groups with
// 8192 rows in total. There are two reasons: the CTAs of a cluster wait for each other if matrices come from
// memory, and ping-pong warpgroups wait until the producer has found their tiles.
double times_in_groups(const GemmOperation& o, const GemmTile& t) {
  if (!o.has_groups()) return 1;
  double times = 1;
  if (t.cluster_m * t.cluster_n > 1) times *= 1.2;
  if (t.pingpong) times *= 1.1;
  if (t.bm > 128) times *= 1.1;
  if (t.swapped && !o.groups_of_k) times *= 1.04;
  return times;
}

// Returns the factor by which tiles in clusters take longer with block scales. Products with block scales
// gain less from clusters than others, since adding up sums limits them rather than L2. The factor was
// computed from the table in GEMM.md, which was measured on the same GPU and day as times_in_groups().
double times_with_scales(const GemmOperation& o, const GemmTile& t) {
  if (!o.has_block_scales()) return 1;
  const int ctas = t.cluster_m * t.cluster_n;
  if (t.consumers == 3) return ctas == 1 ? 1.06 : 0.98;
  if (t.bn <= 128) return ctas <= 2 ? 0.93 : 1;
  return ctas > 1 ? 1.04 : t.bn <= 192 ? 0.93 : 0.96;
}

// A warpgroup converts a block of packed weights in kConvertClocks. Other warpgroups may multiply meanwhile;
// if there are none, the products take kConvertAlone longer. Adding up the sums of a group takes kGroupClocks
// per column. These numbers are instruction counts, not measurements.
constexpr double kConvertClocks = 110, kConvertAlone = 350, kGroupClocks = 0.6;

// Idle clocks of the tensor cores per step while a warpgroup loads the metadata of a sparse matrix, if only
// one warpgroup multiplies at a time. It cannot load earlier, because the products of the previous step have
// to read their metadata first. Measured on an H100 at 16384 x 8192 x 4096 with ping-pong: 94 clocks for
// bf16, about 50 for e4m3.
constexpr double kMetadataClocks = 90;

// The expected idle share of a round if the number of tiles is unknown; it is lower if CTAs divide the last
// tiles.
constexpr double kOpenRound = 0.5, kOpenDivided = 0.1;

// Computes the times and the energy of a product's parts, for one tile.
class Model {
 public:
  Model(const GemmOperation& o, const GemmSize& given, const TilePlan& t, int multiprocessors,
        const ModelConstants& c)
      : o_(o), t_(t), c_(c), multiprocessors_(multiprocessors) {
    const GemmSize size = without_groups(o, given, t);
    if (o.grouped_rows())
      others_of_b_ = static_cast<double>((given.batches - 1) * given.n) * static_cast<double>(given.k);
    stored_ = o.is_sparse() ? 0.5 : 1;
    rows_ = static_cast<double>(rows_of(t, size));
    columns_ = static_cast<double>(columns_of(t, size));
    depth_ = static_cast<double>(size.k);
    batches_ = static_cast<double>(size.batches);
    element_ = size_of(o.a);
    of_row_ = o.packed.is_packed() ? block_of(o.packed).bytes / double(kPackedColumns * kPackedDepth)
                                   : stored_ * element_;
    across_ = ceil_div(tiles_along(rows_of(t, size), t.bm), t.cluster_m) * t.cluster_m;
    along_ = ceil_div(tiles_along(columns_of(t, size), t.bn), t.cluster_n) * t.cluster_n;
    tiles_ = across_ * along_ * batches_ * t.split_k;
    const int cluster = t.cluster_m * t.cluster_n * t.split_k;
    places_ = active_clusters(cluster, multiprocessors) * cluster * t.ctas_per_sm;
    ctas_ = std::min(tiles_, places_);
    steps_ = ceil_div(ceil_div(depth_, t.bk), t.split_k);
    // A last round with few tiles takes less time, since each tile gets a larger share of L2 and of the
    // power. CTAs on the same SM share its tensor cores, but fill each other's gaps.
    const double whole = ceil_div(tiles_, ctas_), even = tiles_ / ctas_;
    const double rounds =
        o.grouped_rows() && even > 1 ? even + kOpenRound : whole - c.idle_round * (whole - even);
    rounds_ = rounds * (ctas_ > multiprocessors ? t.ctas_per_sm : 1);
    rows_k_major_ = t.swapped ? o.b_k_major : o.a_k_major;
    columns_k_major_ = t.swapped ? o.a_k_major : o.b_k_major;
    rows_aligned_ = o.packed.is_packed() ? 128 : aligned(rows_k_major_, rows_of(t, size), size.k);
    columns_aligned_ = aligned(columns_k_major_, columns_of(t, size), size.k);
  }

  Prediction prediction(std::optional<double> megahertz) const {
    Prediction p;
    p.sharpness = c_.sharpness;
    p.multiply = kind() * (t_.split_last > 1 ? divided_steps() : rounds_ * steps_) * step() / c_.clock;
    p.l2 = kind() * l2_bytes() / c_.l2_bytes;
    p.memory = memory_bytes() * (1 + c_.idle_memory * idle()) / c_.memory_bytes;
    p.overhead = overhead();
    // The GPU lowers the clock to keep the power within its limit. The energy of moving and multiplying data
    // is assumed not to depend on the clock.
    p.watts = c_.idle_watts + energy() / p.microseconds();
    p.megahertz = megahertz.value_or(clock_of(p.watts, c_));
    for (double* at_clock : {&p.multiply, &p.l2, &p.overhead}) *at_clock *= c_.clock / p.megahertz;
    return p;
  }

 private:
  // Returns the alignment of an operand's stored rows, in bytes, at most 128. A row with a smaller alignment
  // than 128 may begin within a line of 128 bytes or, below 32, within a sector of 32 bytes.
  double aligned(bool k_major, int64_t extent, int64_t depth) const {
    const int64_t bytes = (k_major ? depth : extent) * size_of(o_.a);
    return static_cast<double>(std::gcd((bytes + 15) / 16 * 16, int64_t{128}));
  }
  double lines_of_row() const { return t_.bk * element_ / 128; }
  // These functions return how many lines of 128 bytes a CTA requests through TMA in a step, for the rows'
  // operand and for the columns' operand.
  double rows_asked() const { return t_.bm / double(t_.cluster_n) * t_.bk * of_row_ / 128; }
  double columns_asked() const { return t_.bn / double(t_.cluster_m) * lines_of_row(); }
  // Returns the factor by which requests for the columns' operand increase because its lines of 128 bytes
  // consist of several pieces in shared memory. This happens if the operand is not k-major and the tile's
  // columns are not a multiple of 128 bytes, since the swizzle is then narrower. The rows' operand has no
  // such factor, since rows are a multiple of 64.
  double pieces() const {
    if (columns_k_major_) return 1;
    return 1 + c_.narrow *
                   (128.0 / static_cast<double>(std::gcd(int64_t{t_.bn} * size_of(o_.a), int64_t{128})) - 1);
  }
  // Returns the number of wgmmas in a step. Each multiplies 64 rows, and 32 bytes of stored values along k.
  double instructions() const { return t_.bm / 64.0 * t_.bk * stored_ * element_ / 32; }
  // Returns how many bytes of shared memory a step reads. The wgmmas read both operands, except that packed
  // weights are read once.
  double shared() const {
    if (o_.packed.is_packed()) return instructions() * t_.bn * 32 + t_.bm * t_.bk * of_row_;
    return instructions() * ((divides_columns(t_) ? 128 : 64) + t_.bn / stored_) * 32;
  }

  // Returns the clocks that a step takes to convert packed weights and to add up the sums of their groups.
  double converting() const {
    if (!o_.packed.is_packed()) return 0;
    const double groups = o_.packed.has_scales() ? block_of(o_.packed).groups : 0;
    return t_.bm / kPackedColumns * (kConvertClocks + groups * kGroupClocks * t_.bn) +
           (t_.consumers == 1 && ctas_ <= multiprocessors_ ? kConvertAlone : 0);
  }

  double loading_metadata() const {
    const bool alone = t_.pingpong || (t_.consumers == 1 && ctas_ <= multiprocessors_);
    return o_.is_sparse() && alone ? kMetadataClocks : 0;
  }

  // Returns how many clocks a step of a CTA takes.
  double step() const {
    const double tensor = instructions() * t_.bn / 2;
    const double written = (t_.bm * of_row_ + t_.bn * element_) * t_.bk * c_.written;
    const int ctas = t_.cluster_m * t_.cluster_n;
    const double multiplying = std::max(tensor, (shared() + written) / c_.shared_bytes) +
                               (t_.pingpong         ? c_.pingpong_clocks
                                : t_.consumers == 1 ? c_.single_clocks
                                : t_.consumers == 2 ? c_.step_clocks
                                                    : c_.third_clocks) +
                               (o_.has_block_scales() ? c_.scale_clocks * t_.bn : 0) + converting() +
                               loading_metadata() +
                               (ctas > 2   ? c_.large_cluster_step_clocks
                                : ctas > 1 ? c_.cluster_step_clocks
                                           : 0);
    auto clocks = [&](double asked, int ctas, double aligned) {
      return asked * (1 + c_.misaligned * (1 - aligned / 128)) *
             (ctas > 2   ? c_.line_clocks_4
              : ctas > 1 ? c_.line_clocks_2
                         : c_.line_clocks);
    };
    double loading = clocks(rows_asked(), t_.cluster_n, rows_aligned_) +
                     clocks(columns_asked() * pieces(), t_.cluster_m, columns_aligned_);
    if (!t_.inside && tiles_ <= ctas_)  // with more tiles, only few of them extend beyond the output
      loading += (outside(rows_k_major_, rows_, t_.bm) / t_.cluster_n +
                  outside(columns_k_major_, columns_, t_.bn) / t_.cluster_m) *
                 lines_of_row() * c_.outside_clocks;
    const double hot = short_rows(rows_k_major_, rows_, t_.bm, t_.cluster_n) +
                       short_rows(columns_k_major_, columns_, t_.bn, t_.cluster_m);
    return together({multiplying, loading, c_.latency / t_.stages, hot}, c_.step_sharpness);
  }

  // Returns how many rows of the last box are outside the tensor, for a k-major operand.
  double outside(bool k_major, double extent, int tile) const {
    return k_major ? tiles_along(static_cast<int64_t>(extent), tile) * tile - extent : 0;
  }

  // Returns the clocks that L2 takes in a step for an operand that is stored along m or n with rows shorter
  // than a line. All CTAs then request the same few lines: once for each row, plus the share `partly` of a
  // second time if the box extends beyond the row.
  double short_rows(bool k_major, double extent, int tile, int sharing) const {
    const double bytes = 16 * ceil_div(extent * element_, 16);
    if (k_major || bytes >= 128) return 0;
    const auto box = static_cast<double>(std::gcd(int64_t{tile} * size_of(o_.a), int64_t{128}));
    return c_.short_rows * t_.bk * ctas_ / sharing * (box > 32 && bytes < box ? 1 + c_.partly : 1);
  }

  // Returns a factor, fitted for each kind of tile, that corrects for effects missing in step().
  double kind() const {
    const ModelConstants& c = c_;
    const double by_cluster[][5] = {
        {c.single_64_alone, c.single_64_longer, c.single_64_shorter, c.single_64_four, c.single_64_eight},
        {c.pingpong_64_alone, c.pingpong_64_longer, c.pingpong_64_shorter, 1, c.pingpong_64_eight},
        {c.shared_128_alone, c.shared_128_longer, c.shared_128_shorter, c.shared_128_four,
         c.shared_128_eight},
        {c.pingpong_128_alone, c.pingpong_128_longer, c.pingpong_128_shorter, 1, c.pingpong_128_eight},
        {c.shared_192_alone, c.shared_192_longer, c.shared_192_shorter, c.shared_192_four, 1},
        {c.shared_256_alone, c.shared_256_longer, c.shared_256_shorter, c.shared_256_four, 1}};
    const int rows = t_.bm <= 64    ? (t_.pingpong ? 1 : 0)
                     : t_.bm <= 128 ? (t_.pingpong ? 3 : 2)
                     : t_.bm <= 192 ? 4
                                    : 5;
    const int cluster = t_.cluster_m * t_.cluster_n > 4             ? 4
                        : t_.cluster_m * t_.cluster_n > 2           ? 3
                        : t_.cluster_m * t_.cluster_n == 1          ? 0
                        : (t_.cluster_m > 1) == (columns_ >= rows_) ? 1
                                                                    : 2;
    const bool within_sectors = std::min(rows_aligned_, columns_aligned_) < 32;
    return by_cluster[rows][cluster] * times_in_groups(o_, t_) * times_with_scales(o_, t_) *
           (within_sectors && rows == 5 && cluster > 0 && cluster < 3 ? c.sectors_256 : 1) *
           (divides_columns(t_) ? c.half_columns : 1) *
           (t_.split_k > 1                               ? c.divided_steps
            : t_.split_last > 1 && division().waves == 0 ? c.shared_steps
                                                         : 1);
  }

  // Returns the division of the last wave among clusters. The tile must have split_last.
  TileDivision division() const {
    const int cluster = t_.cluster_m * t_.cluster_n;
    const auto blocks = static_cast<int64_t>(tiles_ / cluster);
    return tile_division(
        blocks, std::min<int64_t>(blocks * t_.split_last, active_clusters(cluster, multiprocessors_)),
        static_cast<int64_t>(steps_), t_.split_last);
  }

  // Returns the largest number of steps that a CTA processes, with split_last.
  double divided_steps() const {
    if (o_.grouped_rows() && tiles_ > places_) return (tiles_ / places_ + kOpenDivided) * steps_;
    const TileDivision d = division();
    const auto steps = static_cast<int64_t>(steps_);
    return static_cast<double>(d.waves * steps + (d.rest > 0 ? (steps * d.tiles + d.ctas - 1) / d.ctas : 0));
  }

  // Returns the microseconds that CTAs take to exchange sums, with split_last. Each CTA sends the sums of
  // panels that other CTAs complete, and receives sums from each other CTA for the panels that it completes
  // itself. There may be fewer panels than CTAs.
  double exchange() const {
    const TileDivision d = division();
    if (d.rest == 0 || d.ctas == 1) return 0;
    const double sums = t_.bm * t_.bn * 4.0, parts = d.tiles > 1 ? 2 : static_cast<double>(d.ctas);
    const double panels = t_.warpgroup_rows() / 64.0 * t_.bn / t_.panel_columns;
    const double owners = d.tiles > 1 ? 1 : std::min(parts, panels);
    const double turns = std::ceil(panels / owners), own = turns / panels;
    const double waits = c_.parts + (t_.cluster_m * t_.cluster_n > 1 ? c_.parts_of_clusters : 0);
    return waits + c_.panel * turns + sums * (d.tiles > 1 ? 1 : 1 - 1 / parts) / c_.given_bytes +
           sums * own * (parts - 1) / c_.taken_bytes;
  }

  double l2_bytes() const {
    const double shared = t_.cluster_m * t_.cluster_n > 1 ? 1 : c_.coalesced;
    auto bytes = [&](double asked, double aligned) {
      return asked * 128 * (aligned < 32 ? 1 + c_.sectors : shared);
    };
    return tiles_ * steps_ * (bytes(rows_asked(), rows_aligned_) + bytes(columns_asked(), columns_aligned_));
  }

  // Returns the traffic of the GPU's memory in bytes. Each operand is read at least once. A wave of tiles
  // reads the rows and columns of its block of the output, but some data from an earlier wave may still be in
  // L2.
  double memory_bytes() const {
    const double once = (rows_ * of_row_ + columns_ * element_) * depth_ +
                        others_of_b_ * (o_.packed.is_packed() ? of_row_ : element_);
    const double wave = ctas_ / t_.split_k, group = t_.raster.group;
    const double high = t_.raster.columns ? std::min(across_, std::max(1.0, wave / std::min(group, along_)))
                                          : std::min({across_, group, wave}),
                 wide = std::min(along_, std::max(1.0, wave / high));
    const double waves = across_ * along_ / (high * wide);
    const double all = waves * (high * t_.bm * of_row_ + wide * t_.bn * element_) * depth_;
    return batches_ *
           (once + c_.reread * std::max(0.0, all - once) + c_.stored * rows_ * columns_ * size_of(o_.d));
  }

  // Returns the idle time of SMs in a partial last round, as a share of their working time. It matters
  // because the memory reaches its full rate only if all SMs are busy.
  double idle() const {
    if (t_.split_last > 1) return 0;
    const double rounds = tiles_ / places_;
    return std::min(1.0, std::ceil(rounds) / rounds - 1);
  }

  // Returns the clocks that the activation of a tile takes. It is twice as long if only one warpgroup
  // processes the tile.
  double activation() const {
    return clocks_of(o_.activation, c_) * t_.bm * t_.bn / (o_.gates() ? 2 : 1) *
           (t_.consumers == 1 || t_.pingpong ? 2 : 1);
  }

  // Returns the clocks of all activations that products do not hide. Products hide an activation only if two
  // warpgroups alternate, so that one multiplies meanwhile.
  double shown_activation() const {
    if (!t_.pingpong) return rounds_ * activation();
    return activation() + (rounds_ - 1) * std::max(0.0, activation() - steps_ * step()) / 2;
  }

  // Returns the microseconds that a launch takes in addition to its steps. These are the cost of the launch
  // itself, and for each tile the part of its epilogue that the next tile's products do not hide.
  double overhead() const {
    const bool twice = t_.stores_twice;
    const int row = o_.d_columns(t_.bn) * size_of(o_.d),
              stored = twice ? (row + 127) / 128 * 128 : row;  // bytes
    double out = c_.tile_clocks + t_.bm * stored / c_.out_bytes;
    if (!t_.swapped && !twice && row % 64 != 0) out += c_.narrow_box / (row % 32 != 0 ? 1 : 2);
    if (t_.staging_buffers == 1)
      out += c_.single_buffer * t_.warpgroup_rows() / 64 * t_.bn * size_of(o_.d) / 128;
    const double shown = t_.pingpong             ? c_.shown_pingpong
                         : o_.has_block_scales() ? (t_.staging_buffers * 128 >= row ? c_.shown_staged : 1)
                         : size_of(o_.d) == 2 && t_.consumers <= 2 && t_.bm * t_.bn <= 128 * 256
                             ? c_.shown_deferred
                             : 1;
    const double sums = t_.bm * t_.bn * 4.0;
    double all =
        c_.launch + c_.first_stage + ((1 + shown * (rounds_ - 1)) * out + shown_activation()) / c_.clock;
    if (!t_.overlaps) all += c_.alone;
    // The next launch begins while this launch is running if the GPU has room for both.
    if (t_.overlaps && t_.split_last == 1 && 2 * tiles_ <= places_) all -= c_.beside;
    if (t_.cluster_m * t_.cluster_n > 1) all += c_.cluster;
    if (t_.split_k > 1) all += c_.split + sums * (t_.split_k - 1) / t_.split_k / c_.cluster_bytes;
    if (t_.split_last > 1) all += exchange();
    return all;
  }

  // Returns the energy that depends on the amount of work, in microjoules.
  double energy() const {
    const double flops = 2 * rows_ * columns_ * stored_ * depth_ * batches_ * element_ / 2;
    return 1e-6 * (flops * c_.flop_energy + tiles_ * steps_ * shared() * c_.shared_energy +
                   l2_bytes() * c_.l2_energy + memory_bytes() * c_.memory_energy);
  }

  const GemmOperation& o_;
  const TilePlan& t_;
  const ModelConstants& c_;
  int multiprocessors_;
  bool rows_k_major_, columns_k_major_;
  double others_of_b_ = 0;  // elements of B in the matrices of all groups except one
  double stored_;           // share of the rows' operand that is stored: 0.5 if it is sparse
  // `of_row_` is the average number of bytes that an element of the rows' operand occupies in memory.
  double rows_, columns_, depth_, batches_, element_, of_row_, across_, along_, tiles_, places_, ctas_,
      steps_, rounds_, rows_aligned_, columns_aligned_;
};

}  // namespace

double Prediction::microseconds() const { return together({multiply, l2, memory}, sharpness) + overhead; }

Prediction predict(const GemmOperation& o, const GemmSize& size, const TilePlan& t, int multiprocessors,
                   const ModelConstants& constants, std::optional<double> megahertz) {
  return Model(o, size, t, multiprocessors, constants).prediction(megahertz);
}

double clock_of(double watts, const ModelConstants& c) {
  return c.clock * std::min(1.0, std::pow(kWatts / watts, c.clock_power));
}

GemmSize without_groups(const GemmOperation& o, const GemmSize& size, const GemmTile& t) {
  if (!o.has_groups() || size.batches == 0) return size;
  if (o.groups_of_k)
    return {size.m, size.n, std::max<int64_t>(1, (size.k + size.batches - 1) / size.batches), size.batches};
  const int64_t block = t.swapped ? t.bn * t.cluster_n : t.bm * t.cluster_m;
  const int64_t blocks = std::max(size.m / block + size.batches / 2, std::min(size.m, size.batches));
  return {std::max(blocks * block, size.m), size.n, size.k, 1};
}

double tiles_of(const GemmTile& t, const GemmSize& size) {
  return tiles_along(rows_of(t, size), t.bm) * tiles_along(columns_of(t, size), t.bn) *
         static_cast<double>(size.batches);
}

double blocks_of(const GemmTile& t, const GemmSize& size) {
  return ceil_div(tiles_along(rows_of(t, size), t.bm), t.cluster_m) *
         ceil_div(tiles_along(columns_of(t, size), t.bn), t.cluster_n) * static_cast<double>(size.batches);
}

Outside outside(const GemmTile& t, const GemmSize& size) {
  return {tiles_along(rows_of(t, size), t.bm) * t.bm - static_cast<double>(rows_of(t, size)),
          tiles_along(columns_of(t, size), t.bn) * t.bn - static_cast<double>(columns_of(t, size))};
}

}  // namespace ptxbuilder::kernels
