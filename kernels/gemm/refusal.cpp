#include "kernels/gemm/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

// The most bytes of gathered rows: each thread holds a row number for every 16 pieces of 16 bytes.
constexpr int kMostGathered = 256 * 128;

std::string refusal_of_scales(const GemmOperation& o) {
  const bool of_b = o.b_scales_1x128 || o.b_scales_128x128;
  if (!o.a_scales_1x128 && !of_b) return "";
  if (!is_fp8(o.a) || !is_fp8(o.b))
    return fmt::format("gemm: block scales of {} and {}; they are of e4m3 and e5m2", name(o.a), name(o.b));
  if (o.a_scales_1x128 != of_b)
    return fmt::format("gemm: block scales of {} alone; A has 1x128 and B 1x128 or 128x128: give both",
                       of_b ? "B" : "A");
  if (o.b_scales_1x128 && o.b_scales_128x128)
    return "gemm: block scales of B of 1x128 and of 128x128; give one of them";
  if (o.grouped_k())
    return "gemm: block scales with k in groups, which begin and end within blocks: take groups of rows";
  return "";
}

std::string refusal_of_addresses(const GemmOperation& o) {
  if (!o.b_addresses) return "";
  if (!o.grouped_rows())
    return "gemm: b_addresses without groups of rows, each of which has one: give group_ends or group_counts";
  if (o.packed.is_packed())
    return "gemm: b_addresses with packed weights, whose groups follow each other in memory: give them so";
  return "";
}

std::string refusal_of_gather(const GemmOperation& o) {
  if (!o.gathers()) return "";
  if (!o.a_k_major)
    return "gemm: a_rows with A stored along m; rows are gathered whole: store A as rows of k";
  if (o.grouped_k())
    return "gemm: a_rows with k in groups; they are rows of the product: take groups of rows";
  if (o.batched) return "gemm: a_rows with batches; take the batches one by one, or as groups of rows";
  return "";
}

std::string refusal_of_scatter(const GemmOperation& o) {
  if (!o.scatters()) return "";
  if (o.d_rows && o.add_to_rows)
    return "gemm: d_rows and add_to_rows; rows of D either become the product's or have them added: take one";
  const auto refuse = [&](const char* what) {
    return fmt::format("gemm: {} with {}", o.d_rows ? "d_rows" : "add_to_rows", what);
  };
  if (o.grouped_k()) return refuse("k in groups, which have a D each: take groups of rows");
  if (o.batched) return refuse("batches; take the batches one by one, or as groups of rows");
  if (o.beta && o.add_to_rows) return refuse("beta C; rows are added to what D holds: copy C there ahead");
  if (o.beta) return refuse("beta C, whose rows are the product's and not D's: add C afterwards");
  if (o.d_by_threads) return refuse("a D whose rows are not multiples of 16 B: give it such rows");
  if (!o.add_to_rows) return "";
  if (o.amax) return refuse("amax, which would be of what is added and not of D: measure D afterwards");
  if (o.d != DType::f32 && o.d != DType::f16 && o.d != DType::bf16)
    return refuse(
        fmt::format("D of {}; memory adds up f32, f16 and bf16: take one of them", name(o.d)).c_str());
  return "";
}

// Threads of each CTA copy rows of A to the addresses from which wgmma reads them, so CTAs can share only B.
std::string refusal_of_gather(const GemmOperation& o, const GemmTile& t) {
  if (!o.gathers()) return "";
  const int bytes = t.bk * size_of(o.a);
  if (bytes != 128 && !o.packed.is_packed())
    return fmt::format("depth {} with a_rows; a stage has 128 B of a row, {} {}", t.bk, 128 / size_of(o.a),
                       name(o.a));
  if ((t.swapped ? t.cluster_m : t.cluster_n) > 1)
    return fmt::format(
        "a cluster that shares A, with a_rows, which each CTA loads for itself: take no cluster along {}",
        t.swapped ? "rows" : "columns");
  if (const int rows = t.swapped ? t.bn : t.bm; rows * bytes > kMostGathered)
    return fmt::format("{} rows of A with a_rows; threads keep the numbers of {} at most", rows,
                       kMostGathered / bytes);
  if (t.ctas_per_sm > 1)
    return "several CTAs on an SM with a_rows, whose producer takes more registers: take one";
  return "";
}

// An operand that is stored along k has a panel in shared memory for each element of the second mode, and the
// panel's swizzle spans the elements of the first mode.
std::string refusal_of_k_box(const GemmOperation& o) {
  if (o.k_box == 0) return "";
  const int bytes = o.k_box * size_of(o.a);
  if (o.k_modes < 2 || (bytes != 32 && bytes != 64))
    return fmt::format(
        "gemm: a box of {} {} along the first of {} modes of k; it is 32 or 64 B, and there are two modes",
        o.k_box, name(o.a), o.k_modes);
  if (o.windows != WindowsOf::none || o.has_groups() || o.gathers() || o.has_block_scales() ||
      o.is_sparse() || o.packed.is_packed())
    return "gemm: boxes along two modes of k with windows, groups, gathered rows, block scales, or an "
           "operand "
           "that is sparse or packed: take no box";
  return "";
}

// The epilogue identifies an element by its row and column in the entire product, which modes do not have.
std::string refusal_of_modes(const GemmOperation& o) {
  if (!o.d_has_modes()) return "";
  for (const ProductOperandRow& row : product_operands)
    if (o.has(row.operand))
      return fmt::format(
          "gemm: {} with several modes of m, n or batches, whose layout is not that of a matrix: take it in "
          "a step of its own",
          row.shown);
  if (o.user_epilogue || o.activation != Activation::none || o.d_by_threads)
    return "gemm: an epilogue, or a D that threads store, with several modes of m, n or batches: take the "
           "product alone";
  for (const auto& [name, box, k_major] :
       {std::tuple{"m", o.m_box, o.a_k_major}, {"n", o.n_box, o.b_k_major}})
    if (box != 0 && (box > 128 || (box & (box - 1)) != 0 || !k_major))
      return fmt::format(
          "gemm: a box of {} along the first mode of {}, of an operand stored along {}; it is a power of two "
          "up to 128, of one stored along k",
          box, name, k_major ? "k" : name);
  return "";
}

// A window's channels must be contiguous, and the windows of a tile follow each other in the images.
std::string refusal_of_windows(const GemmOperation& o) {
  if (o.windows == WindowsOf::none) return "";
  const bool of_a = o.windows == WindowsOf::a;
  if (of_a ? !o.a_k_major : o.b_k_major)
    return fmt::format("gemm: windows of {} stored along {}; channels are {}", of_a ? "A" : "B",
                       of_a ? "m" : "k", of_a ? "k" : "n");
  if (o.batched || o.has_groups() || o.gathers() || o.has_block_scales())
    return "gemm: windows with batches, groups, gathered rows or block scales; take them one by one";
  return "";
}

// Each CTA loads the pixels of a tile separately, and the channels must end at the end of a stage.
std::string refusal_of_windows(const GemmOperation& o, const GemmTile& t) {
  if (o.windows == WindowsOf::none) return "";
  if (t.bk * size_of(o.a) != 128)
    return fmt::format("depth {} with windows; a stage has 128 B, {} {}", t.bk, 128 / size_of(o.a),
                       name(o.a));
  const bool in_rows = (o.windows == WindowsOf::a) != t.swapped;
  if (const int ctas = in_rows ? t.cluster_n : t.cluster_m; ctas > 1)
    return fmt::format("windows loaded by {} CTAs; each loads its own: take no cluster along {}", ctas,
                       in_rows ? "columns" : "rows");
  return "";
}

std::string refusal_of_packed(const GemmOperation& o) {
  if (!o.packed.is_packed()) return "";
  if (std::string refusal = refusal_of(o.packed); !refusal.empty()) return refusal;
  if (!is_half(o.a))
    return fmt::format("gemm: packed weights with A of {}; it is f16 or bf16, to which they are converted",
                       name(o.a));
  if (o.batched || o.grouped_k())
    return "gemm: packed weights with batches or groups of k; take the products one by one, or groups of "
           "rows";
  if (o.has_modes() || o.windows != WindowsOf::none)
    return "gemm: packed weights with modes or windows; they are those of a matrix";
  if (o.gates())
    return "gemm: packed weights with a gate, whose pairs are rows of a tile: apply the gate afterwards";
  return "";
}

std::string refusal_of_sparse(const GemmOperation& o) {
  if (!o.is_sparse()) return "";
  const char* const which = o.a_metadata ? "A" : "B";
  auto refuse = [&](const std::string& what) { return fmt::format("gemm: a sparse {} {}", which, what); };
  if (o.a_metadata && o.b_metadata)
    return "gemm: a sparse A and a sparse B; the tensor cores take one of them: give the other whole";
  if (!can_be_sparse(o.a))
    return refuse(fmt::format("of {}; it is of f16, bf16, e4m3, e5m2, s8 or u8", name(o.a)));
  if (o.a_metadata ? !o.a_k_major : !o.b_k_major)
    return refuse(fmt::format("stored along {}; of each four values along k two are stored: store it along k",
                              o.a_metadata ? "m" : "n"));
  if (o.a_metadata ? o.has_groups() || o.gathers() : o.grouped_k())
    return refuse(
        "with groups or a_rows; its rows come in blocks of 64 that have metadata together: take groups of "
        "rows with a sparse B");
  if (o.packed.is_packed()) return refuse("with packed weights; take one of the two");
  if (o.has_block_scales()) return refuse("with block scales; take scales of rows and columns");
  if (o.has_modes() || o.windows != WindowsOf::none)
    return refuse("with modes or windows, whose places in k are others: take a matrix");
  if (o.b_metadata && o.gates())
    return refuse(
        "with a gate, whose columns would run along the rows of a tile: take the activation afterwards");
  return "";
}

// Returns which property of the tile cannot be combined with boxes that extend over two modes.
std::string refusal_of_boxes(const GemmOperation& o, const GemmTile& t) {
  if (o.m_box == 0 && o.n_box == 0) return "";
  if (t.swapped)
    return "rows along n, with boxes along two modes, which D is stored in along m: take no swap";
  const auto goes = [](int rows, int box) { return box == 0 || rows % box == 0 || box % rows == 0; };
  for (const auto& [extent, box, ctas, what] :
       {std::tuple{t.bm, int{o.m_box}, t.cluster_n, "rows"}, {t.bn, int{o.n_box}, t.cluster_m, "columns"}})
    if (box != 0 && (extent % box != 0 || !goes(extent / ctas, box)))
      return fmt::format(
          "{} {} loaded by {} CTAs, with boxes of {} along the first mode: one divides the other", extent,
          what, ctas, box);
  if (o.n_box != 0 &&
      (o.n_box % 8 != 0 || o.n_box * size_of(o.d) % 16 != 0 || columns_of_part(t) % o.n_box != 0))
    return fmt::format(
        "{} columns of a CTA with boxes of {} {} along the first mode of n; it stores whole ones, in "
        "multiples of 8 and of 16 B",
        columns_of_part(t), o.n_box, name(o.d));
  return "";
}

// Returns which property of the tile cannot be combined with block scales.
std::string refusal_of_scales(const GemmOperation& o, const GemmTile& t) {
  if (!o.has_block_scales()) return "";
  if (t.swapped)
    return "rows along n, with block scales, which are those of rows of A in the rows of a tile: take no "
           "swap";
  if (t.bk != kScaleBlock)
    return fmt::format("depth {} with block scales; a stage has the {} of k of a scale", t.bk, kScaleBlock);
  if (t.warpgroup_rows() != hopper::wgmma_rows)
    return fmt::format("{} rows of a warpgroup, with block scales; it has {}: take more consumers",
                       t.warpgroup_rows(), hopper::wgmma_rows);
  if (t.bn > 256 || fresh_columns(t) % 8 != 0)
    return fmt::format("{} columns with block scales; beyond 192 they are a multiple of 16 up to 256", t.bn);
  if (o.b_scales_128x128 && t.bn % 32 != 0 && 32 % t.bn != 0)
    return fmt::format("{} columns with scales of 128 columns; they are a multiple of 32, or divide it",
                       t.bn);
  return "";
}

// Returns which property of the tile cannot be combined with packed weights.
std::string refusal_of_packed(const GemmOperation& o, const GemmTile& t) {
  if (!o.packed.is_packed()) return "";
  if (!t.swapped) return "rows along m, with packed weights, which are rows of a tile: swap them";
  if (t.pingpong) return "ping-pong with packed weights, which warpgroups convert side by side: take none";
  if (t.bk != kPackedDepth)
    return fmt::format("depth {} with packed weights; a stage has a block, {} of k", t.bk, kPackedDepth);
  if (t.warpgroup_rows() != kPackedColumns)
    return fmt::format("{} rows of a warpgroup, with packed weights; it has {}: take more consumers",
                       t.warpgroup_rows(), kPackedColumns);
  if (t.cluster_n > 1)
    return fmt::format("packed weights loaded by {} CTAs; each loads its own: take no cluster along columns",
                       t.cluster_n);
  if (divides_columns(t)) return fmt::format("{} columns with packed weights; one wgmma takes them", t.bn);
  return "";
}

// The tensor cores require the sparse matrix to be the operand along a tile's rows.
std::string refusal_of_sparse(const GemmOperation& o, const GemmTile& t) {
  if (o.a_metadata && t.swapped) return "rows along n, with a sparse A, which has the rows: take no swap";
  if (o.b_metadata && !t.swapped) return "rows along m, with a sparse B, which has the rows: take a swap";
  return "";
}

}  // namespace

std::string refusal_of(const GemmOperation& o) {
  const bool mixed = (is_fp8(o.a) && is_fp8(o.b)) || (is_int8(o.a) && is_int8(o.b));
  if (!is_half(o.a) && o.a != DType::tf32 && !is_fp8(o.a) && !is_int8(o.a))
    return fmt::format("gemm: A of {}; it takes f16, bf16, tf32, e4m3, e5m2, s8 or u8", name(o.a));
  if (o.a != o.b && !mixed)
    return fmt::format(
        "gemm: A of {} and B of {}; they must be equal, or both of 8 bits with or both without a fraction",
        name(o.a), name(o.b));
  if (!o.a_k_major && !is_half(o.a))
    return fmt::format(
        "gemm: A of {} stored along m; wgmma transposes 16-bit types alone: store A as m rows of k",
        name(o.a));
  if (!o.b_k_major && !is_half(o.b))
    return fmt::format(
        "gemm: B of {} stored along n; wgmma transposes 16-bit types alone: store B as n rows of k",
        name(o.b));
  if (o.d != DType::f32 && o.d != DType::f16 && o.d != DType::bf16 && !is_fp8(o.d) &&
      !(o.d == DType::s32 && is_int8(o.a)))
    return fmt::format(
        "gemm: D of {} from A of {}; it may be f32, f16, bf16, e4m3 or e5m2, or s32 of integers", name(o.d),
        name(o.a));
  if (o.gates() && o.beta)
    return "gemm: a gate with beta C, whose columns would be two for each of D: add C afterwards";
  if (o.use != ActivationUse::value && o.activation == Activation::none)
    return "gemm: the slope or the gate of no activation; name one";
  if (o.group_ends && o.group_counts)
    return "gemm: group_ends and group_counts; groups end where the ones say, or after as many rows as the "
           "others do: "
           "take one";
  if (o.group_counts && o.groups_of_k)
    return "gemm: group_counts with k in groups; they are numbers of rows: take group_ends";
  if (o.has_groups() && o.batched) return "gemm: groups of batches; take the batches one by one";
  if (o.grouped_rows() && !o.a_k_major)
    return "gemm: rows in groups, with A stored along m; TMA loads from multiples of 16 B of a stored row, "
           "and groups may begin elsewhere: store A as m rows of k";
  if (o.grouped_k() && (o.a_k_major || o.b_k_major) && !o.packed.is_packed())
    return fmt::format(
        "gemm: k in groups, with {} stored along k; TMA loads from multiples of 16 B of a stored row, and "
        "groups may begin elsewhere: store A as k rows of m and B as k rows of n",
        o.a_k_major ? "A" : "B");
  if (o.has_groups() && o.d_by_threads)
    return "gemm: groups with a D that threads store; TMA alone ends a store with its group: give D's rows "
           "multiples of 16 B";
  if (std::string refusal = refusal_of_addresses(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_gather(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_scatter(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_scales(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_packed(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_k_box(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_modes(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_windows(o); !refusal.empty()) return refusal;
  if (std::string refusal = refusal_of_sparse(o); !refusal.empty()) return refusal;
  if (o.d == DType::s32 && o.has_epilogue())
    return "gemm: D of s32 with an epilogue, which computes in f32: take D of f32";
  return "";
}

std::string refusal_of(const GemmOperation& o, const GemmTile& t) {
  auto refuse = [&](const std::string& what) { return "gemm " + text(t) + ": " + what; };
  if (t.consumers < 1 || t.consumers > 3)
    return refuse(fmt::format("{} consumers; 1, 2 or 3 warpgroups multiply", t.consumers));
  if (t.cluster_m < 1 || t.cluster_n < 1 || t.split_k < 1 || t.cluster_m * t.cluster_n * t.split_k > 8)
    return refuse(
        fmt::format("a cluster of {} x {} x {}; it has 1 to 8 CTAs", t.cluster_m, t.cluster_n, t.split_k));
  if (t.pingpong && t.consumers != 2) return refuse("ping-pong takes two consumers");
  const int rows = t.warpgroup_rows();
  if (t.bm < 64 || (!t.pingpong && t.bm % t.consumers != 0) || rows % 64 != 0)
    return refuse(fmt::format("{} rows for {} warpgroups; each takes a multiple of 64", t.bm,
                              t.pingpong ? 1 : t.consumers));
  if (t.bm > hopper::box_extent)
    return refuse(fmt::format("{} rows; a TMA box has {} at most", t.bm, hopper::box_extent));
  const bool columns_k_major = t.swapped ? o.a_k_major : o.b_k_major;
  if (t.bn < 8 || t.bn > 512 || t.bn % (divides_columns(t) ? 16 : 8) != 0)
    return refuse(
        fmt::format("{} columns; wgmma has a multiple of 8 up to 256, or of three consumers up to 200, and "
                    "two of them side by side twice that",
                    t.bn));
  if (divides_columns(t) && !columns_k_major)
    return refuse(fmt::format(
        "{} columns, which take two wgmmas, of an operand that is not k-major; take half of them", t.bn));
  if (t.bn / t.cluster_m > hopper::box_extent)
    return refuse(fmt::format("{} columns, {} for each CTA of the cluster to load; a TMA box has {} at most",
                              t.bn, t.bn / t.cluster_m, hopper::box_extent));
  const int columns_of_cta = columns_of_part(t);
  if (o.gates() && (t.swapped || columns_of_cta % 16 != 0))
    return refuse(
        "a gate; its pairs are neighbours along the rows of a tile that is not swapped, in a multiple of 16");
  if (!t.swapped && size_of(o.d) == 1 && o.d_columns(columns_of_cta) % 16 != 0)
    return refuse(fmt::format("{} columns of {}; TMA stores a multiple of 16 B", o.d_columns(columns_of_cta),
                              name(o.d)));
  const int columns_of_wgmma = divides_columns(t) ? t.bn / 2 : t.bn;
  if (is_int8(o.a) && columns_of_wgmma >= 32 && columns_of_wgmma % 16 != 0)
    return refuse(
        fmt::format("{} columns of integers for a wgmma; from 32 on a multiple of 16", columns_of_wgmma));
  if (!columns_k_major && t.bn % 16 != 0)
    return refuse(
        fmt::format("{} columns of an operand that is not k-major; they must be a multiple of 16, the 32 B "
                    "of the narrowest swizzle",
                    t.bn));
  if (std::string refusal = refusal_of_scales(o, t); !refusal.empty()) return refuse(refusal);
  if (std::string refusal = refusal_of_packed(o, t); !refusal.empty()) return refuse(refusal);
  if (std::string refusal = refusal_of_sparse(o, t); !refusal.empty()) return refuse(refusal);
  if (std::string refusal = refusal_of_gather(o, t); !refusal.empty()) return refuse(refusal);
  if (std::string refusal = refusal_of_boxes(o, t); !refusal.empty()) return refuse(refusal);
  if (std::string refusal = refusal_of_windows(o, t); !refusal.empty()) return refuse(refusal);
  const int registers = (rows * t.bn + (o.has_block_scales() ? rows * fresh_columns(t)
                                        : o.promotes()       ? rows * t.bn
                                                             : 0)) /
                        128;
  // A consumer needs this many registers in addition to the sums, and more if it adds up sums with other
  // CTAs.
  const int beside = t.split_last > 1 ? 80 : o.packed.is_packed() ? 72 : o.has_block_scales() ? 32 : 40;
  const int room = role_registers(t.consumers, o.has_groups(), o.gathers()).consumer - beside;
  if (registers > room)
    return refuse(
        fmt::format("{} x {} sums of a warpgroup{} are {} registers a thread, and {}{} leave {}: take fewer "
                    "columns or more consumers",
                    rows, t.bn, o.promotes() ? ", twice," : "", registers, t.consumers,
                    t.split_last > 1 ? " with a split of the last tiles" : "", room));
  // This check precedes any multiplication by bk, so that byte counts fit an int.
  const int most_depth = hopper::shared_bytes / ((t.bm + t.bn) * size_of(o.a));
  if (t.bk > most_depth)
    return refuse(fmt::format(
        "depth {}; a stage of {} rows and {} columns has {} {} along k at most, which fill the {} B of a CTA",
        t.bk, t.bm, t.bn, most_depth, name(o.a), hopper::shared_bytes));
  if (t.bk % (128 / size_of(o.a)) != 0)
    return refuse(fmt::format("depth {}; a stage has a multiple of 128 B along k, {} {}", t.bk,
                              128 / size_of(o.a), name(o.a)));
  if (t.split_k > 1) {
    if (t.pingpong) return refuse("split k with ping-pong; take one of them");
    if (is_int8(o.a)) return refuse("split k of integers; it adds up f32");
    if (8 * t.split_k > t.bn)
      return refuse(fmt::format("{} columns divided by {}; each CTA adds up 8 at least", t.bn, t.split_k));
    // The reason is the same as for `inside`: the second sum may read what the first one stored.
    if (parts_overlap(t) && (o.beta || o.user_epilogue || o.scatters()))
      return refuse(
          fmt::format("{} columns divided by {}, and two CTAs store some of them, with C, a user's epilogue "
                      "or scattered rows; take a multiple of 8 for each",
                      t.bn, t.split_k));
    const int last = o.d_columns(t.bn - columns_of_cta) * size_of(o.d);
    if (parts_overlap(t) && !t.swapped && last % hopper::bulk_unit != 0)
      return refuse(
          fmt::format("{} columns divided by {}, and the last CTA stores those from {} B on; TMA stores at "
                      "multiples of {} B",
                      t.bn, t.split_k, last, hopper::bulk_unit));
  }
  if (t.split_last < 1 || t.split_last > hopper::multiprocessors)
    return refuse(
        fmt::format("the last tiles divided among {} CTAs; 1 to {}", t.split_last, hopper::multiprocessors));
  if (t.split_last > 1) {
    if (t.split_k > 1) return refuse("a split of the last tiles with split k; take one of them");
    if (t.pingpong) return refuse("a split of the last tiles with ping-pong; take one of them");
    if (is_int8(o.a)) return refuse("a split of the last tiles of integers; it adds up f32");
    if (t.ctas_per_sm > 1)
      return refuse("a split of the last tiles with several CTAs on an SM; take one of them");
  }
  // Rows of 128 B, or of a narrower swizzle if the operand is not k-major, must begin at a multiple of their
  // size.
  struct Share {
    int extent, ctas;
    bool k_major;
    const char* what;
  };
  const bool rows_k_major = t.swapped ? o.b_k_major : o.a_k_major;
  for (const Share& s :
       {Share{columns_k_major ? t.bn : t.bk, t.cluster_m, columns_k_major, "rows of the columns' operand"},
        Share{rows_k_major ? t.bm : t.bk, t.cluster_n, rows_k_major, "rows of the rows' operand"}})
    if (s.extent % s.ctas != 0 || (!s.k_major && s.extent / s.ctas % 8 != 0))
      return refuse(fmt::format("{} {} loaded by {} CTAs; each loads as many{}", s.extent, s.what, s.ctas,
                                s.k_major ? "" : ", a multiple of 8"));
  if (o.has_groups() && t.split_k > 1)
    return refuse("split k with groups, whose tiles the host cannot count; take a split of the last tiles");
  if (o.grouped_k() && (t.pingpong || t.split_last > 1))
    return refuse(fmt::format("{} with k in groups, whose tiles have not as many stages each",
                              t.pingpong ? "ping-pong" : "a split of the last tiles"));
  if (t.raster.group < 1) return refuse("a group of no rows");
  if (t.ctas_per_sm < 1) return refuse("no CTA on an SM");
  return "";
}

}  // namespace ptxbuilder::kernels
