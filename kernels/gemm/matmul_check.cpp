#include "kernels/gemm/matmul_check.h"

#include <fmt/format.h>

#include <tuple>

#include "kernels/gemm/product_form.h"
#include "kernels/gemm/ragged_rows.h"

namespace ptxbuilder::kernels {
namespace {

constexpr char kName[] = "matmul";
// The coordinates of TMA are s32 (PTX ISA, cp.async.bulk.tensor), and the last tiles of a cluster may begin
// up to 8 x 256 elements after the end.
constexpr int64_t kMostExtent = (int64_t{1} << 31) - 4096;
constexpr int64_t kIndexEnd = int64_t{1}
                              << 32;  // rows and strides that the kernel holds as u32 are below this number

// Checks that the enumerations have valid values, since callers from other languages may pass arbitrary
// numbers.
void check_enumerators(const MatmulArguments& p, Where where) {
  auto refuse = [&](const char* what, auto value) {
    throw Error(where, fmt::format("matmul: {} is {}, which is not a value of its enumeration", what,
                                   static_cast<int>(value)));
  };
  auto check = [&](const char* name, DType type) {
    if (static_cast<size_t>(type) >= kElementBytes.size()) refuse(name, type);
  };
  check("the type of A", p.a.type);
  check("the type of B", p.b.type);
  check("the type of D", p.d.type);
#define PTXBUILDER_MATRIX(name, shown, ...) check("the type of " #shown, p.name.type);
#include "kernels/gemm/product.def"
  if (static_cast<size_t>(p.activation) >= activation_words.size()) refuse("the activation", p.activation);
  if (p.use > ActivationUse::gate) refuse("the use of the activation", p.use);
}

void check_extent(const char* name, int64_t value, Where where) {
  if (value < 0 || value > kMostExtent)
    throw Error(where, fmt::format("matmul: {} = {}; sizes must be 0 to 2^31 - 4096, since TMA has "
                                   "coordinates of 31 bits: divide the product into smaller ones",
                                   name, value));
}

// Returns block scales or metadata as a matrix of lines, since TMA loads parts of lines.
Operand lines_by_k(const ProductOperandRow& row, const MatmulArguments& p, const GemmOperation& o) {
  const auto [lines, length] = row.of_batch(p.m, p.n, p.k);
  return matrix_operand(row.shown, {.memory = p.memory_of(row.operand), .type = o.type_of(row)}, lines,
                        length, row.is_by_batch(o.grouped_rows()) ? p.batches : 1);
}

// Returns an operand of product.def, not yet checked. A vector is a matrix with a single row.
Operand other_operand(const ProductOperandRow& row, const MatmulArguments& p, const GemmOperation& o) {
  switch (row.operand) {
#define PTXBUILDER_MATRIX(name, ...) \
  case ProductOperand::name:         \
    return matrix_operand(row.shown, p.name, p.m, p.n, o.grouped_rows() ? 1 : p.batches);
#include "kernels/gemm/product.def"
    default:
      if (comes_by_tma(row.role)) return lines_by_k(row, p, o);
      return one_row(row.shown, o.type_of(row), p.memory_of(row.operand),
                     row.count(p.m, p.n, p.k, p.batches, o.grouped_rows()));
  }
}

// Checks a matrix of product.def. The kernel assumes that each batch begins m strides after the previous
// batch; if the batches of C do not, C is copied.
void check_matrix(const ProductOperandRow& row, const MatmulArguments& p, const GemmOperation& o,
                  const Operand& matrix, Where where) {
  auto refuse = [&](const std::string& what) {
    throw Error(where, fmt::format("matmul: {} of {}: {}", matrix.name, name(matrix.type), what));
  };
  if (matrix.type != o.addend())
    refuse(fmt::format("it must be {} if D is {}", name(o.addend()), name(p.d.type)));
  check_memory(kName, matrix, where);
  if (row.role != OperandRole::residual && !batches_touch(matrix))
    refuse("batches with gaps; they must be a row's stride apart, like rows");
  if (matrix.outer[kMatrixRows].stride >= kIndexEnd || p.m * p.batches >= kIndexEnd)
    refuse(fmt::format(
        "{} rows in all batches and a stride of {} elements; both must be less than 2^32: divide the batches",
        p.m * p.batches, matrix.outer[kMatrixRows].stride));
}

// Calls `work` for every operand that the product reads.
template <class Work>
void each_read(const PlacedProduct& o, Work&& work) {
  if (o.has_product) work(o.a), work(o.b);
  for (const ProductOperandRow& row : product_operands)
    if (!row.is_written() && o.operation.has(row.operand)) work(o.others[row.operand]);
}

void check_overlap(const PlacedProduct& o, Where where) {
  const Operand& c = o.others[ProductOperand::c];
  each_read(o, [&](const Operand& x) {
    if (&x == &c && same_place(o.d, c)) return;
    Operand read = x;
    if (&x == &c) read.name = "a part of C, but is not C itself (same address and strides)";
    check_apart(kName, o.d, read, true, where);
  });
  for (const ProductOperandRow& row : product_operands) {
    if (!row.is_written() || !o.operation.has(row.operand)) continue;
    const Operand& written = o.others[row.operand];
    check_apart(kName, o.d, written, false, where);
    each_read(o, [&](const Operand& x) { check_apart(kName, written, x, true, where); });
  }
}

}  // namespace

Operand matrix_operand(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                       int64_t batches) {
  const int64_t stride = m.stride != 0 ? m.stride : columns;
  Operand o = {.name = name, .type = m.type, .memory = m.memory, .columns = columns, .outer_count = 2};
  o.outer[kMatrixRows] = {"row", rows, stride};
  o.outer[kMatrixBatches] = {"batch", batches,
                             m.batch_stride != 0 ? m.batch_stride : stride_of(rows, stride)};
  return o;
}

int64_t columns_by_tma(const Operand& d) {
  const int64_t unit = kTma / d.element_bytes();
  return d.aligned_for_tma() ? d.columns / unit * unit : 0;
}

bool batches_touch(const Operand& x) {
  const auto &rows = x.outer[kMatrixRows], &batches = x.outer[kMatrixBatches];
  return batches.extent == 1 || batches.stride == rows.stride * rows.extent;
}

bool stored_by_threads(const Operand& d) {
  return columns_by_tma(d) < d.columns && batches_touch(d) && d.outer[kMatrixRows].stride < kIndexEnd;
}

int64_t tiles_along(const ModeList& modes, int box, int length) {
  const auto tiles = [](int64_t extent, int64_t of) { return (extent + of - 1) / of; };
  const int inner = box == 0 ? length : box;
  int64_t all = 1;
  for (size_t i = 0; i < modes.size(); ++i)
    all *= tiles(modes[i].extent, i == 0 ? inner : i == 1 ? length / inner : 1);
  return all;
}

GemmSize PlacedProduct::size_in(const GemmTile& t) const {
  if (!modes || !operation.has_modes()) return size;
  // A single mode is not rounded up; if there are several, each is rounded up to whole tiles.
  const auto along = [](const ModeList& list, int box, int length) {
    return list.size() <= 1 ? list.extent() : tiles_along(list, box, length) * length;
  };
  return {along(modes->m, modes->m_box, t.swapped ? t.bn : t.bm),
          along(modes->n, modes->n_box, t.swapped ? t.bm : t.bn), along(modes->k, modes->k_box, t.bk),
          modes->batch.extent()};
}

std::vector<const Operand*> PlacedProduct::operands() const {
  std::vector<const Operand*> all = {&d};
  each_read(*this, [&](const Operand& x) { all.push_back(&x); });
  for (const ProductOperandRow& row : product_operands)
    if (row.is_written() && operation.has(row.operand)) all.push_back(&others[row.operand]);
  return all;
}

MovedOperands PlacedProduct::moved() {
  MovedOperands all;
  if (has_product && !a.aligned_for_tma()) all.add(a, from_a, true);
  if (has_product && !operation.packed.is_packed() && !b.aligned_for_tma()) all.add(b, from_b, true);
  Operand& c = others[ProductOperand::c];
  if (operation.has(ProductOperand::c) && !batches_touch(c)) all.add(c, from(ProductOperand::c), true);
  for (const ProductOperandRow& row : product_operands)
    if (comes_by_tma(row.role) && operation.has(row.operand) && !others[row.operand].aligned_for_tma())
      all.add(others[row.operand], from(row.operand), true);
  if (columns_by_tma(d) < d.columns && !operation.d_by_threads) all.add(d, from_d, false);
  return all;
}

namespace {

// Returns whether operands with this role have no effect if the sum of products is 0.
constexpr bool is_of_sum(OperandRole role) {
  return role == OperandRole::placement || role == OperandRole::gather || comes_by_tma(role) ||
         role == OperandRole::factor;
}

}  // namespace

namespace {

// Checks the operands whose rows are gathered or scattered. The kernel copies their rows one by one, and
// computes with strides of 32 bits.
void check_indexed_rows(const PlacedProduct& o, const MatmulArguments& p, Where where) {
  const auto check = [&](const char* name, const char* index, bool has, int64_t rows, const Operand& x) {
    if (rows != 0 && !has)
      throw Error(where,
                  fmt::format("matmul: rows_of_{} = {} needs {}, which names these rows", name, rows, index));
    if (has && x.outer[kMatrixRows].stride >= kIndexEnd)
      throw Error(where,
                  fmt::format("matmul: {} has a stride of {} elements; with {}, it must be less than 2^32",
                              x.name, x.outer[kMatrixRows].stride, index));
  };
  check("a", "a_rows", p.a_rows.address != 0, p.rows_of_a, o.a);
  const bool adds = p.add_to_rows.address != 0;
  const char* const of_d = adds ? "add_to_rows" : "d_rows";
  check("d", of_d, adds || p.d_rows.address != 0, p.rows_of_d, o.d);
  // Copying D from the workspace would overwrite rows that must not change.
  if ((o.operation.scatters() || o.operation.group_counts) && columns_by_tma(o.d) < o.d.columns)
    throw Error(
        where, fmt::format("matmul: D of {}, with {}, is at {:#x} with {} columns and a stride of {}: its "
                           "rows must begin at multiples of 16 B, and be multiples of 16 B long",
                           name(o.d.type), o.operation.scatters() ? of_d : "group_counts", o.d.memory.address,
                           o.d.columns, o.d.outer[kMatrixRows].stride));
}

}  // namespace

GemmOperation operation_of(const MatmulArguments& p) {
  const bool product = p.k > 0 && p.alpha != 0;
  GemmOperation o;
  o.a = p.a.type;
  o.b = p.b.type;
  o.d = p.d.type;
  o.a_k_major = p.a_k_major;
  o.b_k_major = p.b_k_major;
  if (p.packed.is_packed()) o.packed = p.packed, o.b = o.a, o.b_k_major = true;
  const bool fp8 = is_fp8(p.a.type);
  o.fast_accumulation = !fp8 || p.fast_accumulation;
  o.alpha = product && p.alpha != 1;
  o.beta = p.beta != 0;
  o.activation = p.activation;
  o.use = p.use;
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  o.name = p.name.address != 0 && (product || !is_of_sum(OperandRole::role));
#include "kernels/gemm/product.def"
  if (o.has_block_scales()) o.fast_accumulation = false;
  o.groups_of_k = o.has_groups() && p.groups_of_k;
  o.batched = p.batches > 1 && !o.has_groups();
  return o;
}

namespace {

// Sets and checks the operands of product.def that the operation has.
void place_others(PlacedProduct& o, const MatmulArguments& p, Where where) {
  const GemmOperation& operation = o.operation;
  for (const ProductOperandRow& row : product_operands) {
    if (!operation.has(row.operand)) continue;
    Operand& x = o.others[row.operand] = other_operand(row, p, operation);
    if (row.is_matrix())
      check_matrix(row, p, operation, x, where);
    else if (comes_by_tma(row.role))
      check_memory(kName, x, where);
    else
      check_row(kName, x, where);
  }
}

// Returns packed weights as an operand, after checking them.
Operand packed_operand(const MatmulArguments& p, Where where) {
  if (const std::string refusal = refusal_of(p.packed); !refusal.empty()) throw Error(where, refusal);
  if (p.k == 0 || p.alpha == 0)
    throw Error(where, fmt::format("matmul: k = {} and alpha = {}; with packed weights, neither may be 0",
                                   p.k, p.alpha));
  if (p.b.memory.address % kTma != 0)
    throw Error(where,
                fmt::format("matmul: packed weights are at {:#x}; their address must be a multiple of {} B",
                            p.b.memory.address, kTma));
  const int64_t words = packed_bytes(p.packed, p.n, p.k) / 4;
  return one_row("B", DType::u32, p.b.memory, stride_of(operation_of(p).has_groups() ? p.batches : 1, words));
}

constexpr int kUsualTile = 128, kStageBytes = 128;

// Returns an operand with modes as a tensor. `along` holds the modes of the contiguous axis, `rows` those of
// the other axis, and `batch` those of the batches.
Operand mode_operand(const char* name, const DeviceMatrix& x, const ModeList& along, const ModeList& rows,
                     const ModeList& batch, int64_t ProductMode::*stride, Where where) {
  if (x.stride != 0 || x.batch_stride != 0)
    throw Error(
        where,
        fmt::format("matmul: {} has a stride and modes, which have strides of their own: leave the stride 0",
                    name));
  Operand o = {.name = name, .type = x.type, .memory = x.memory, .columns = 1};
  const auto add = [&](const char* word, const ProductMode& mode) {
    if (o.outer_count == Operand::kMostOuter)
      throw Error(where,
                  fmt::format("matmul: {} has {}, {} and {} modes; a tensor map can have at most {} in all",
                              name, along.size(), rows.size(), batch.size(), Operand::kMostOuter + 1));
    o.outer[o.outer_count++] = {word, mode.extent, mode.*stride};
  };
  if (along.size() > 0) {
    if (const ProductMode& first = along[0]; first.extent > 1 && first.*stride != 1)
      throw Error(where,
                  fmt::format("matmul: {} has a stride of {} along its first mode, which must be contiguous",
                              name, first.*stride));
    o.columns = along[0].extent;
  }
  if (rows.size() == 0) add("row", {});
  for (const ProductMode& mode : rows) add("row", mode);
  for (size_t i = 1; i < along.size(); ++i) add("mode", along[i]);
  for (const ProductMode& mode : batch) add("batch", mode);
  return o;
}

// Returns an operand that consists of windows as the tensor of its images. The dimensions are channels,
// pixels, lines and images, innermost first.
Operand windows_operand(const char* name, const DeviceMatrix& x, const PixelWindows& of) {
  Operand o = {.name = name, .type = x.type, .memory = x.memory, .columns = of.channels, .outer_count = 3};
  o.outer[0] = {"pixel", of.w.extent, of.w.stride, true};
  o.outer[1] = {"line", of.h.extent, of.h.stride};
  o.outer[2] = {"image", of.images, of.image_stride};
  return o;
}

// Checks that the number of windows and the shape of their taps agree with the modes of the axes.
void check_windows(const ProductModes& modes, Where where) {
  if (modes.windows_of == WindowsOf::none) return;
  const bool of_a = modes.windows_of == WindowsOf::a;
  const PixelWindows& windows = modes.windows;
  const ModeList &all = of_a ? modes.m : modes.k, &taps = of_a ? modes.k : modes.n;
  if (all.size() != 1 || all.extent() != windows.all())
    throw Error(
        where,
        fmt::format("matmul: {} windows in {} images, but {} is {} in {} modes; the windows must be one mode",
                    windows.all(), windows.images, of_a ? "m" : "k", all.extent(), all.size()));
  if (taps.size() != 3 || taps[0].extent != windows.channels || taps[1].extent != windows.w.taps ||
      taps[2].extent != windows.h.taps)
    throw Error(where,
                fmt::format("matmul: windows of {} x {} taps of {} channels, but {} is {} in {} modes; the "
                            "modes must be the channels, the taps along w and those along h",
                            windows.h.taps, windows.w.taps, windows.channels, of_a ? "k" : "n", taps.extent(),
                            taps.size()));
}

PlacedProduct with_modes(const MatmulArguments& p, Where where) {
  const ProductModes& modes = *p.modes;
  check_windows(modes, where);
  for (const auto& [name, list, extent] : {std::tuple{"m", &modes.m, p.m},
                                           {"n", &modes.n, p.n},
                                           {"k", &modes.k, p.k},
                                           {"batches", &modes.batch, p.batches}}) {
    for (const ProductMode& mode : *list) check_extent(name, mode.extent, where);
    if (list->extent() != extent)
      throw Error(where, fmt::format("matmul: {} = {}, but its modes have {} elements", name, extent,
                                     list->extent()));
  }
  if (p.k == 0 || p.alpha == 0)
    throw Error(
        where,
        fmt::format(
            "matmul: k = {} and alpha = {}, so that D is not a sum, which must not have modes: use matrices",
            p.k, p.alpha));
  const auto count = [](const ModeList& list) {
    return static_cast<uint8_t>(std::max<size_t>(list.size(), 1));
  };
  PlacedProduct o;
  o.modes = p.modes;
  o.is_empty = p.m == 0 || p.n == 0 || p.batches == 0;
  o.operation = operation_of(p);
  o.operation.batched = modes.batch.size() > 0;
  o.operation.m_modes = count(modes.m), o.operation.n_modes = count(modes.n);
  o.operation.k_modes = count(modes.k), o.operation.batch_modes = count(modes.batch);
  o.operation.m_box = static_cast<uint8_t>(modes.m_box),
  o.operation.n_box = static_cast<uint8_t>(modes.n_box),
  o.operation.k_box = static_cast<uint8_t>(modes.k_box);
  o.operation.windows = modes.windows_of;
  // Modes along which tiles do not extend are counted as batches, because tiles end where such a mode ends.
  o.size = {p.m, p.n, p.k, p.batches};
  const auto settle = [&](const ModeList& list, int box, int64_t& extent) {
    const size_t own = box == 0 ? 1 : 2;
    if (list.size() <= 1) return;
    extent = box == 0 ? list[0].extent : tiles_along(list, box, kUsualTile) * kUsualTile;
    for (size_t i = own; i < list.size(); ++i) {
      o.size.batches *= list[i].extent;
      if (box != 0) extent /= list[i].extent;
    }
  };
  settle(modes.m, modes.m_box, o.size.m), settle(modes.n, modes.n_box, o.size.n);
  if (modes.windows_of == WindowsOf::a) {
    const int64_t stage = kStageBytes / size_of(p.a.type);
    o.size.k = tiles_along(modes.k, 0, static_cast<int>(stage)) * stage;
  }
  const auto operand = [&](const char* name, const DeviceMatrix& x, bool k_major, const ModeList& extent,
                           WindowsOf its, int64_t ProductMode::*stride) {
    if (modes.windows_of == its) return windows_operand(name, x, modes.windows);
    Operand read = mode_operand(name, x, k_major ? modes.k : extent, k_major ? extent : modes.k, modes.batch,
                                stride, where);
    for (Operand::Dimension& d : read.outer) d.overlaps = d.stride > 0;
    return read;
  };
  o.a = operand("A", p.a, p.a_k_major, modes.m, WindowsOf::a, &ProductMode::a);
  o.b = operand("B", p.b, p.b_k_major, modes.n, WindowsOf::b, &ProductMode::b);
  o.d = mode_operand("D", p.d, modes.n, modes.m, modes.batch, &ProductMode::d, where);
  if (o.is_empty) return o;
  check_memory(kName, o.a, where);
  check_memory(kName, o.b, where);
  check_memory(kName, o.d, where);
  check_no_self_overlap(kName, o.d, where);
  place_others(o, p, where);
  check_overlap(o, where);
  o.operation.d_by_threads = !o.operation.d_has_modes() && stored_by_threads(o.d);
  return o;
}

}  // namespace

PlacedProduct checked(const MatmulArguments& p, Where where) {
  check_enumerators(p, where);
  if (p.modes) return with_modes(p, where);
  check_extent("m", p.m, where);
  check_extent("n", p.n, where);
  check_extent("k", p.k, where);
  check_extent("batches", p.batches, where);
  check_extent("rows_of_a", p.rows_of_a, where);
  check_extent("rows_of_d", p.rows_of_d, where);
  PlacedProduct o;
  o.has_product = p.k > 0 && p.alpha != 0;
  o.is_empty = p.m == 0 || p.n == 0 || p.batches == 0;
  o.size = {p.m, p.n, o.has_product ? p.k : 1,
            p.batches};  // if there is no product, the kernel adds up one step of zeros
  o.operation = operation_of(p);
  const GemmOperation& operation = o.operation;
  if (p.groups_of_k && !operation.has_groups())
    throw Error(
        where,
        "matmul: groups_of_k needs group_ends, which determines where groups end, but it has no memory");
  if (const int64_t extent = p.groups_of_k ? p.k : p.m; operation.has_groups() && extent > kRowsEnd)
    throw Error(where, fmt::format("matmul: {} = {}; in groups, it must be at most 2^30: divide the groups",
                                   p.groups_of_k ? "k" : "m", extent));
  if (operation.grouped_rows() && p.batches == 0 && p.m > 0)
    throw Error(
        where,
        fmt::format("matmul: there are {} rows, but no groups; there must be at least one group", p.m));
  if (operation.group_counts && p.batches > 0 && p.m % p.batches != 0)
    throw Error(where, fmt::format("matmul: m = {} with group_counts of {} groups; m must be a multiple of "
                                   "the groups, since each has as many rows of memory",
                                   p.m, p.batches));
  const int64_t of_a = operation.has_groups() ? 1 : p.batches,
                of_b = operation.grouped_k() || operation.b_addresses ? 1 : p.batches,
                of_d = operation.grouped_rows() ? 1 : p.batches;
  const int64_t rows_of_a = p.a_rows.address != 0 ? p.rows_of_a : p.m;
  const bool sparse_a = p.a_metadata.address != 0, sparse_b = p.b_metadata.address != 0;
  if ((sparse_a || sparse_b) && p.k % kSparseGroup != 0)
    throw Error(where, fmt::format("matmul: k = {} with a sparse {}; k must be a multiple of {}, since "
                                   "two of every {} values are stored: add zeros to both operands",
                                   p.k, sparse_a ? "A" : "B", kSparseGroup, kSparseGroup));
  const int64_t k_of_a = sparse_a ? p.k / 2 : p.k, k_of_b = sparse_b ? p.k / 2 : p.k;
  o.a = matrix_operand("A", p.a, p.a_k_major ? rows_of_a : p.k, p.a_k_major ? k_of_a : rows_of_a, of_a);
  o.b = operation.packed.is_packed()
            ? packed_operand(p, where)
            : matrix_operand("B", p.b, p.b_k_major ? p.n : p.k, p.b_k_major ? k_of_b : p.n, of_b);
  if (operation.gates() && p.n % 2 != 0)
    throw Error(
        where, fmt::format(
                   "matmul: a gate of n = {} columns; n must be even, since the columns come in pairs", p.n));
  o.d = matrix_operand("D", p.d, operation.scatters() ? p.rows_of_d : p.m, operation.d_columns(p.n), of_d);
  if (o.is_empty) return o;
  check_indexed_rows(o, p, where);
  // A copy of `b` would not include the matrices of the other groups.
  if (operation.b_addresses && !operation.packed.is_packed() && !o.b.aligned_for_tma())
    throw Error(where, fmt::format("matmul: B of {} is at {:#x} with a stride of {}; with b_addresses, the "
                                   "matrices and their rows must begin at multiples of {} B",
                                   name(o.b.type), o.b.memory.address, o.b.outer[kMatrixRows].stride, kTma));
  if (o.has_product) {
    check_memory(kName, o.a, where);
    check_memory(kName, o.b, where);
  }
  check_memory(kName, o.d, where);
  check_no_self_overlap(kName, o.d, where);
  place_others(o, p, where);
  check_overlap(o, where);
  o.operation.d_by_threads = stored_by_threads(o.d) && !operation.has_groups() && !operation.scatters();
  return o;
}

}  // namespace ptxbuilder::kernels
