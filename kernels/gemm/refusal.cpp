#include "kernels/gemm/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

// Maximum number of bytes of gathered rows in a stage. Each thread holds the number of every row that it
// copies.
constexpr int kMostGathered = 256 * 128;

std::string refusal_of_scales(const GemmOperation& o) {
  const bool of_b = o.b_scales_1x128 || o.b_scales_128x128;
  if (!o.a_scales_1x128 && !of_b) return "";
  if (!is_fp8(o.a) || !is_fp8(o.b))
    return fmt::format("gemm: block scales with A of {} and B of {}; both must be e4m3 or e5m2", name(o.a),
                       name(o.b));
  if (o.a_scales_1x128 != of_b)
    return fmt::format(
        "gemm: only {} has block scales; A must have 1x128 scales and B 1x128 or 128x128 scales",
        of_b ? "B" : "A");
  if (o.b_scales_1x128 && o.b_scales_128x128)
    return "gemm: B has both 1x128 and 128x128 block scales, but must have only one of them";
  if (o.grouped_k())
    return "gemm: block scales cannot be used with k in groups, which begin and end within blocks: use "
           "groups of rows";
  return "";
}

std::string refusal_of_addresses(const GemmOperation& o) {
  if (!o.b_addresses) return "";
  if (!o.grouped_rows())
    return "gemm: b_addresses needs groups of rows, each of which has an address: set group_ends or "
           "group_counts";
  if (o.packed.is_packed())
    return "gemm: b_addresses cannot be used with packed weights, whose groups must follow each other in "
           "memory";
  return "";
}

std::string refusal_of_gather(const GemmOperation& o) {
  if (!o.gathers()) return "";
  if (!o.a_k_major)
    return "gemm: a_rows cannot be used with A stored along m, since rows are gathered whole: store A as "
           "rows of k";
  if (o.grouped_k())
    return "gemm: a_rows cannot be used with k in groups, since it selects rows of the product: use groups "
           "of rows";
  if (o.batched)
    return "gemm: a_rows cannot be used with batches: run the batches one by one, or as groups of rows";
  return "";
}

std::string refusal_of_scatter(const GemmOperation& o) {
  if (!o.scatters()) return "";
  if (o.d_rows && o.add_to_rows)
    return "gemm: d_rows and add_to_rows cannot be used together: d_rows writes rows of D, and add_to_rows "
           "adds to them";
  const auto refuse = [&](const char* what) {
    return fmt::format("gemm: {} cannot be used with {}", o.d_rows ? "d_rows" : "add_to_rows", what);
  };
  if (o.grouped_k()) return refuse("k in groups, which have a D each: use groups of rows");
  if (o.batched) return refuse("batches: run the batches one by one, or as groups of rows");
  if (o.beta && o.add_to_rows)
    return refuse("beta C, since rows are added to what D holds: copy C to D first");
  if (o.beta) return refuse("beta C, whose rows are the product's and not D's: add C afterwards");
  if (o.d_by_threads) return refuse("a D whose rows are not multiples of 16 B: pad its rows");
  if (!o.add_to_rows) return "";
  if (o.amax) return refuse("amax, which would measure what is added and not D: measure D afterwards");
  if (o.d != DType::f32 && o.d != DType::f16 && o.d != DType::bf16)
    return refuse(
        fmt::format("D of {}; D must be f32, f16 or bf16, which memory can add up", name(o.d)).c_str());
  return "";
}

// Threads that gather rows of A copy them only into the shared memory of their own CTA, so the CTAs of a
// cluster can share only B.
std::string refusal_of_gather(const GemmOperation& o, const GemmTile& t) {
  if (!o.gathers()) return "";
  const int bytes = t.bk * size_of(o.a);
  if (bytes != 128 && !o.packed.is_packed())
    return fmt::format("depth {} with a_rows; a stage must have 128 B of a row, {} {}", t.bk,
                       128 / size_of(o.a), name(o.a));
  if ((t.swapped ? t.cluster_m : t.cluster_n) > 1)
    return fmt::format(
        "the CTAs of a cluster cannot share A with a_rows, since each loads its own rows: use no cluster "
        "along {}",
        t.swapped ? "rows" : "columns");
  if (const int rows = t.swapped ? t.bn : t.bm; rows * bytes > kMostGathered)
    return fmt::format(
        "there are {} rows of A with a_rows, but there must be at most {}, since threads keep their numbers",
        rows, kMostGathered / bytes);
  if (t.ctas_per_sm > 1)
    return "an SM cannot hold several CTAs with a_rows, whose producer needs more registers: use one";
  return "";
}

// A k-major operand with several modes of k has a panel in shared memory for each element of the second mode.
// A row of a panel holds elements along the first mode, so their number determines the panel's swizzle.
std::string refusal_of_k_box(const GemmOperation& o) {
  if (o.k_box == 0) return "";
  const int bytes = o.k_box * size_of(o.a);
  if (o.k_modes < 2 || (bytes != 32 && bytes != 64))
    return fmt::format(
        "gemm: a box has {} {} along the first of {} modes of k, but must have 32 or 64 B, and there must be "
        "at least two modes",
        o.k_box, name(o.a), o.k_modes);
  if (o.windows != WindowsOf::none || o.has_groups() || o.gathers() || o.has_block_scales() ||
      o.is_sparse() || o.packed.is_packed())
    return "gemm: boxes along two modes of k cannot be used with windows, groups, gathered rows, block "
           "scales, or an operand that is sparse or packed: use no box";
  return "";
}

// The epilogue finds an operand's elements by row and column of the product; a D with several modes does not
// have these.
std::string refusal_of_modes(const GemmOperation& o) {
  if (!o.d_has_modes()) return "";
  for (const ProductOperandRow& row : product_operands)
    if (o.has(row.operand))
      return fmt::format(
          "gemm: {} cannot be used with several modes of m, n or batches, whose layout is not that of a "
          "matrix: apply it in a separate step",
          row.shown);
  if (o.user_epilogue || o.activation != Activation::none || o.d_by_threads)
    return "gemm: several modes of m, n or batches cannot be used with an epilogue or a D that threads "
           "store: compute only the product";
  for (const auto& [name, box, k_major] :
       {std::tuple{"m", o.m_box, o.a_k_major}, {"n", o.n_box, o.b_k_major}})
    if (box != 0 && (box > 128 || (box & (box - 1)) != 0 || !k_major))
      return fmt::format(
          "gemm: a box has {} along the first mode of {}, of an operand stored along {}, but must have a "
          "power of two up to 128, of an operand stored along k",
          box, name, k_major ? "k" : name);
  return "";
}

// The channels of a window must be contiguous, and the windows of a tile must follow each other in the
// images.
std::string refusal_of_windows(const GemmOperation& o) {
  if (o.windows == WindowsOf::none) return "";
  const bool of_a = o.windows == WindowsOf::a;
  if (of_a ? !o.a_k_major : o.b_k_major)
    return fmt::format(
        "gemm: the operand {} has windows and is stored along {}, but must be stored along its channels, "
        "which are {}",
        of_a ? "A" : "B", of_a ? "m" : "k", of_a ? "k" : "n");
  if (o.batched || o.has_groups() || o.gathers() || o.has_block_scales())
    return "gemm: windows cannot be used with batches, groups, gathered rows or block scales: run the "
           "products one by one";
  return "";
}

// Each CTA loads the pixels of its tile by itself, and the channels of a tap must fill complete stages.
std::string refusal_of_windows(const GemmOperation& o, const GemmTile& t) {
  if (o.windows == WindowsOf::none) return "";
  if (t.bk * size_of(o.a) != 128)
    return fmt::format("depth {} with windows; a stage must have 128 B, {} {}", t.bk, 128 / size_of(o.a),
                       name(o.a));
  const bool in_rows = (o.windows == WindowsOf::a) != t.swapped;
  if (const int ctas = in_rows ? t.cluster_n : t.cluster_m; ctas > 1)
    return fmt::format(
        "{} CTAs cannot load windows together, since each loads its own: use no cluster along {}", ctas,
        in_rows ? "columns" : "rows");
  return "";
}

std::string refusal_of_packed(const GemmOperation& o) {
  if (!o.packed.is_packed()) return "";
  if (std::string refusal = refusal_of(o.packed); !refusal.empty()) return refusal;
  if (!is_half(o.a))
    return fmt::format(
        "gemm: packed weights with A of {}; A must be f16 or bf16, to which the weights are converted",
        name(o.a));
  if (o.batched || o.grouped_k())
    return "gemm: packed weights cannot be used with batches or groups of k: run the products one by one, or "
           "use groups of rows";
  if (o.has_modes() || o.windows != WindowsOf::none)
    return "gemm: packed weights cannot be used with modes or windows: use a matrix";
  if (o.gates())
    return "gemm: packed weights cannot be used with a gate, whose pairs would be rows of a tile: apply the "
           "gate afterwards";
  return "";
}

std::string refusal_of_sparse(const GemmOperation& o) {
  if (!o.is_sparse()) return "";
  const char* const which = o.a_metadata ? "A" : "B";
  auto refuse = [&](const std::string& what) { return fmt::format("gemm: a sparse {} {}", which, what); };
  if (o.a_metadata && o.b_metadata)
    return "gemm: A and B are both sparse, but the tensor cores accept one sparse operand: decompress the "
           "other";
  if (!can_be_sparse(o.a))
    return refuse(fmt::format("cannot be {}; it must be f16, bf16, e4m3, e5m2, s8 or u8", name(o.a)));
  if (o.a_metadata ? !o.a_k_major : !o.b_k_major)
    return refuse(
        fmt::format("cannot be stored along {}: store it along k, where two of every four values are kept",
                    o.a_metadata ? "m" : "n"));
  if (o.a_metadata ? o.has_groups() || o.gathers() : o.grouped_k())
    return refuse(
        "cannot be used with groups or a_rows, since blocks of 64 of its rows share metadata: use groups of "
        "rows with a sparse B");
  if (o.packed.is_packed()) return refuse("cannot be used with packed weights: use one of the two");
  if (o.has_block_scales()) return refuse("cannot be used with block scales: use scales of rows and columns");
  if (o.has_modes() || o.windows != WindowsOf::none)
    return refuse("cannot be used with modes or windows, whose order along k differs: use a matrix");
  if (o.b_metadata && o.gates())
    return refuse(
        "cannot be used with a gate, whose columns would run along the rows of a tile: apply the activation "
        "afterwards");
  return "";
}

// Returns a string that names a property of the tile that boxes over two modes do not allow; empty if there
// is none.
std::string refusal_of_boxes(const GemmOperation& o, const GemmTile& t) {
  if (o.m_box == 0 && o.n_box == 0) return "";
  if (t.swapped)
    return "rows of a tile cannot run along n with boxes along two modes, in which D is stored along m: use "
           "no swap";
  const auto goes = [](int rows, int box) { return box == 0 || rows % box == 0 || box % rows == 0; };
  for (const auto& [extent, box, ctas, what] :
       {std::tuple{t.bm, int{o.m_box}, t.cluster_n, "rows"}, {t.bn, int{o.n_box}, t.cluster_m, "columns"}})
    if (box != 0 && (extent % box != 0 || !goes(extent / ctas, box)))
      return fmt::format(
          "{} {} loaded by {} CTAs, with boxes of {} along the first mode; one must divide the other", extent,
          what, ctas, box);
  if (o.n_box != 0 &&
      (o.n_box % 8 != 0 || o.n_box * size_of(o.d) % 16 != 0 || columns_of_part(t) % o.n_box != 0))
    return fmt::format(
        "a CTA has {} columns with boxes of {} {} along the first mode of n, but must store whole boxes, in "
        "multiples of 8 columns and of 16 B",
        columns_of_part(t), o.n_box, name(o.d));
  return "";
}

// Returns a string that names a property of the tile that block scales do not allow; empty if there is none.
std::string refusal_of_scales(const GemmOperation& o, const GemmTile& t) {
  if (!o.has_block_scales()) return "";
  if (t.swapped)
    return "rows of a tile cannot run along n with block scales, which belong to rows of A: use no swap";
  if (t.bk != kScaleBlock)
    return fmt::format("depth {} with block scales; a stage must have the {} values along k of one scale",
                       t.bk, kScaleBlock);
  if (t.warpgroup_rows() != hopper::wgmma_rows)
    return fmt::format("a warpgroup has {} rows with block scales, but must have {}: use more consumers",
                       t.warpgroup_rows(), hopper::wgmma_rows);
  if (t.bn > 256 || fresh_columns(t) % 8 != 0)
    return fmt::format("{} columns with block scales; above 192 they must be a multiple of 16 up to 256",
                       t.bn);
  if (o.b_scales_128x128 && t.bn % 32 != 0 && 32 % t.bn != 0)
    return fmt::format("{} columns with scales of 128 columns; they must be a multiple of 32, or divide 32",
                       t.bn);
  return "";
}

// Returns a string that names a property of the tile that packed weights do not allow; empty if there is
// none.
std::string refusal_of_packed(const GemmOperation& o, const GemmTile& t) {
  if (!o.packed.is_packed()) return "";
  if (!t.swapped)
    return "rows of a tile cannot run along m with packed weights, which must be its rows: use a swap";
  if (t.pingpong)
    return "ping-pong cannot be used with packed weights, which warpgroups convert together: use no "
           "ping-pong";
  if (t.bk != kPackedDepth)
    return fmt::format("depth {} with packed weights; a stage must have one block, {} values along k", t.bk,
                       kPackedDepth);
  if (t.warpgroup_rows() != kPackedColumns)
    return fmt::format("a warpgroup has {} rows with packed weights, but must have {}: use more consumers",
                       t.warpgroup_rows(), kPackedColumns);
  if (t.cluster_n > 1)
    return fmt::format(
        "{} CTAs cannot load packed weights together, since each loads its own: use no cluster along columns",
        t.cluster_n);
  if (divides_columns(t))
    return fmt::format(
        "there are {} columns with packed weights, but there must be no more than one wgmma has", t.bn);
  return "";
}

// Tensor cores accept a sparse matrix only as the operand along a tile's rows.
std::string refusal_of_sparse(const GemmOperation& o, const GemmTile& t) {
  if (o.a_metadata && t.swapped)
    return "rows of a tile cannot run along n with a sparse A, which must be its rows: use no swap";
  if (o.b_metadata && !t.swapped)
    return "rows of a tile cannot run along m with a sparse B, which must be its rows: use a swap";
  return "";
}

}  // namespace

std::string refusal_of(const GemmOperation& o) {
  const bool mixed = (is_fp8(o.a) && is_fp8(o.b)) || (is_int8(o.a) && is_int8(o.b));
  if (!is_half(o.a) && o.a != DType::tf32 && !is_fp8(o.a) && !is_int8(o.a))
    return fmt::format("gemm: A is {}, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8", name(o.a));
  if (o.a != o.b && !mixed)
    return fmt::format(
        "gemm: A of {} and B of {}; the types must be equal, or both 8-bit floats, or both 8-bit integers",
        name(o.a), name(o.b));
  if (!o.a_k_major && !is_half(o.a))
    return fmt::format(
        "gemm: A of {} stored along m, but wgmma transposes only 16-bit types: store A as m rows of k",
        name(o.a));
  if (!o.b_k_major && !is_half(o.b))
    return fmt::format(
        "gemm: B of {} stored along n, but wgmma transposes only 16-bit types: store B as n rows of k",
        name(o.b));
  if (o.d != DType::f32 && o.d != DType::f16 && o.d != DType::bf16 && !is_fp8(o.d) &&
      !(o.d == DType::s32 && is_int8(o.a)))
    return fmt::format(
        "gemm: D of {} from A of {}; D must be f32, f16, bf16, e4m3 or e5m2, or s32 if A has integers",
        name(o.d), name(o.a));
  if (o.gates() && o.beta)
    return "gemm: a gate cannot be used with beta C, which would have two columns for each of D: add C "
           "afterwards";
  if (o.use != ActivationUse::value && o.activation == Activation::none)
    return "gemm: a slope or a gate needs an activation";
  if (o.group_ends && o.group_counts)
    return "gemm: group_ends and group_counts cannot be used together: group_ends has the ends of groups, "
           "and group_counts their numbers of rows";
  if (o.group_counts && o.groups_of_k)
    return "gemm: group_counts cannot be used with k in groups, since they are numbers of rows: use "
           "group_ends";
  if (o.has_groups() && o.batched)
    return "gemm: groups cannot be used with batches: run the batches one by one";
  if (o.grouped_rows() && !o.a_k_major)
    return "gemm: rows cannot be in groups with A stored along m: TMA loads from multiples of 16 B of a "
           "stored row, but groups may begin elsewhere: store A as m rows of k";
  if (o.grouped_k() && (o.a_k_major || o.b_k_major) && !o.packed.is_packed())
    return fmt::format(
        "gemm: k cannot be in groups with {} stored along k: TMA loads from multiples of 16 B of a stored "
        "row, but groups may begin elsewhere: store A as k rows of m and B as k rows of n",
        o.a_k_major ? "A" : "B");
  if (o.has_groups() && o.d_by_threads)
    return "gemm: groups cannot be used with a D that threads store, since only TMA ends a store with its "
           "group: make D's rows multiples of 16 B";
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
    return "gemm: D of s32 cannot be used with an epilogue, which computes in f32: use D of f32";
  return "";
}

std::string refusal_of(const GemmOperation& o, const GemmTile& t) {
  auto refuse = [&](const std::string& what) { return "gemm " + text(t) + ": " + what; };
  if (t.consumers < 1 || t.consumers > 3)
    return refuse(fmt::format("there are {} consumers, but there must be 1, 2 or 3", t.consumers));
  if (t.cluster_m < 1 || t.cluster_n < 1 || t.split_k < 1 || t.cluster_m * t.cluster_n * t.split_k > 8)
    return refuse(fmt::format("the cluster is {} x {} x {}, but must have 1 to 8 CTAs", t.cluster_m,
                              t.cluster_n, t.split_k));
  if (t.pingpong && t.consumers != 2) return refuse("ping-pong needs two consumers");
  const int rows = t.warpgroup_rows();
  if (t.bm < 64 || (!t.pingpong && t.bm % t.consumers != 0) || rows % 64 != 0)
    return refuse(fmt::format("{} rows for {} warpgroups; each must have a multiple of 64", t.bm,
                              t.pingpong ? 1 : t.consumers));
  if (t.bm > hopper::box_extent)
    return refuse(fmt::format("{} rows; a TMA box can have at most {}", t.bm, hopper::box_extent));
  const bool columns_k_major = t.swapped ? o.a_k_major : o.b_k_major;
  if (t.bn < 8 || t.bn > 512 || t.bn % (divides_columns(t) ? 16 : 8) != 0)
    return refuse(
        fmt::format("there are {} columns, but there must be a multiple of 8 up to 256, or up to 200 with "
                    "three consumers, or, for two wgmmas, a multiple of 16 up to twice that",
                    t.bn));
  if (divides_columns(t) && !columns_k_major)
    return refuse(
        fmt::format("{} columns, which need two wgmmas, of an operand that is not k-major; there must be at "
                    "most half of them",
                    t.bn));
  if (t.bn / t.cluster_m > hopper::box_extent)
    return refuse(
        fmt::format("{} columns, {} for each CTA of the cluster to load; a TMA box can have at most {}", t.bn,
                    t.bn / t.cluster_m, hopper::box_extent));
  const int columns_of_cta = columns_of_part(t);
  if (o.gates() && (t.swapped || columns_of_cta % 16 != 0))
    return refuse(
        "a gate needs a tile that is not swapped, with a multiple of 16 columns, since its pairs are "
        "neighbours along rows");
  if (!t.swapped && size_of(o.d) == 1 && o.d_columns(columns_of_cta) % 16 != 0)
    return refuse(fmt::format("{} columns of {}; for TMA, they must be a multiple of 16 B",
                              o.d_columns(columns_of_cta), name(o.d)));
  const int columns_of_wgmma = divides_columns(t) ? t.bn / 2 : t.bn;
  if (is_int8(o.a) && columns_of_wgmma >= 32 && columns_of_wgmma % 16 != 0)
    return refuse(fmt::format("{} columns of integers for a wgmma; 32 and more must be a multiple of 16",
                              columns_of_wgmma));
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
  // Registers that a thread of a consumer needs in addition to its sums; it needs more if it adds up sums
  // with other CTAs.
  const int beside = t.split_last > 1 ? 80 : o.packed.is_packed() ? 72 : o.has_block_scales() ? 32 : 40;
  const int room = role_registers(t.consumers, o.has_groups(), o.gathers()).consumer - beside;
  if (registers > room)
    return refuse(
        fmt::format("{} x {} sums of a warpgroup{} need {} registers a thread, but {} consumers{} leave {}: "
                    "use fewer columns or more consumers",
                    rows, t.bn, o.promotes() ? ", twice," : "", registers, t.consumers,
                    t.split_last > 1 ? " with a split of the last tiles" : "", room));
  // This check comes before any multiplication by bk, so that byte counts fit in an int.
  const int most_depth = hopper::shared_bytes / ((t.bm + t.bn) * size_of(o.a));
  if (t.bk > most_depth)
    return refuse(
        fmt::format("depth {}; a stage of {} rows and {} columns can have at most {} {} along k, which fill "
                    "the {} B of a CTA",
                    t.bk, t.bm, t.bn, most_depth, name(o.a), hopper::shared_bytes));
  if (t.bk % (128 / size_of(o.a)) != 0)
    return refuse(fmt::format("depth {}; a stage must have a multiple of 128 B along k, {} {}", t.bk,
                              128 / size_of(o.a), name(o.a)));
  if (t.split_k > 1) {
    if (t.pingpong) return refuse("split k cannot be used with ping-pong: use one of them");
    if (is_int8(o.a)) return refuse("split k cannot be used with integers, since it adds up f32");
    if (8 * t.split_k > t.bn)
      return refuse(
          fmt::format("{} columns divided by {}; each CTA must add up at least 8", t.bn, t.split_k));
    // Two CTAs compute and store the shared columns, so the second epilogue could read values that the first
    // one has stored.
    if (parts_overlap(t) && (o.beta || o.user_epilogue || o.scatters()))
      return refuse(
          fmt::format("{} columns divided by {}, so that two CTAs store some of them; with C, a user's "
                      "epilogue or scattered rows, each must have a multiple of 8",
                      t.bn, t.split_k));
    const int last = o.d_columns(t.bn - columns_of_cta) * size_of(o.d);
    if (parts_overlap(t) && !t.swapped && last % hopper::bulk_unit != 0)
      return refuse(
          fmt::format("{} columns divided by {}, so that the last CTA's begin at {} B; for TMA, they must "
                      "begin at a multiple of {} B",
                      t.bn, t.split_k, last, hopper::bulk_unit));
  }
  if (t.split_last < 1 || t.split_last > hopper::multiprocessors)
    return refuse(fmt::format("the last tiles are divided among {} CTAs, but there must be 1 to {}",
                              t.split_last, hopper::multiprocessors));
  if (t.split_last > 1) {
    if (t.split_k > 1)
      return refuse("a split of the last tiles cannot be used with split k: use one of them");
    if (t.pingpong) return refuse("a split of the last tiles cannot be used with ping-pong: use one of them");
    if (is_int8(o.a))
      return refuse("a split of the last tiles cannot be used with integers, since it adds up f32");
    if (t.ctas_per_sm > 1)
      return refuse("a split of the last tiles cannot be used with several CTAs on an SM: use one of them");
  }
  // Each CTA's share of an operand must begin at a multiple of the operand's swizzle pattern in shared
  // memory.
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
      return refuse(fmt::format("{} {} loaded by {} CTAs; each must load the same number{}", s.extent, s.what,
                                s.ctas, s.k_major ? "" : ", a multiple of 8"));
  if (o.has_groups() && t.split_k > 1)
    return refuse(
        "split k cannot be used with groups, whose tiles the host cannot count: use a split of the last "
        "tiles");
  if (o.grouped_k() && (t.pingpong || t.split_last > 1))
    return refuse(
        fmt::format("{} cannot be used with k in groups, whose tiles differ in their numbers of stages",
                    t.pingpong ? "ping-pong" : "a split of the last tiles"));
  if (t.raster.group < 1) return refuse("a group must have at least one row or column");
  if (t.ctas_per_sm < 1) return refuse("there must be at least one CTA on an SM");
  return "";
}

}  // namespace ptxbuilder::kernels
