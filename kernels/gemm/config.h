// Describes what a matrix product computes, and how a kernel computes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/gemm/packed_weights.h"
#include "kernels/gemm/product_operand.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The activations; each is a row of activation.def.
enum class Activation : uint8_t {
#define PTXBUILDER_ACTIVATION(word, ...) word,
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};
// The words of the activations, in the order of Activation.
inline constexpr std::array activation_words = {
#define PTXBUILDER_ACTIVATION(word, ...) std::string_view(#word),
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

// An activation f turns x into one of these results. value: f(x). slope: x f'(y), the backward pass, where y
// is the value that the activation was applied to. gate: f(x[m,2n]) x[m,2n+1], a gate times the value that it
// lets through, where D has one column for every two columns of the product.
enum class ActivationUse : uint8_t { value, slope, gate };

// The operand, if any, that consists of windows over the pixels of images (PixelWindows): the rows of A, or
// the rows of B along k.
enum class WindowsOf : uint8_t { none, a, b };

// The operation is D[m,n] = activation(x[m,n]), rounded once, to nearest even, where
//   x[m,n] = alpha rows[m] columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n].
// - Groups of rows: x[m,n] = sum_k A[m,k] B[g,n,k], where g is the group of row m. With group_counts, rows
// that belong to no group are not stored. With b_addresses, B[g] begins at b_addresses[g].
// - Groups of k: x[g,m,n] is the sum over group g's part of k.
// - a_rows: A[m,k] is A[a_rows[m],k], or 0 if A has no such row.
// - d_rows: D[m,n] is D[d_rows[m],n], and is not stored if D has no such row.
// - add_to_rows: D[m,n] is rounded and added to D[add_to_rows[m],n], and the sum is rounded again.
// - Block scales: A[m,k] is multiplied by the factor of row m, and B[n,k] by the factor of row n or of its
// 128 rows, for the 128 values of k that contain k.
// - Packed weights: B[n,k] is a weight minus its zero point, times its scale.
// - Metadata: A[m,k] or B[n,k] is one of the stored values, or 0.
// D and C are row-major. A is stored as m rows of k (k-major) or k rows of m; B is stored as n rows of k or k
// rows of n.
struct GemmOperation {
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true;  // other layouts require 16-bit types
  // If true, the tensor core adds up the entire sum of e4m3 and e5m2, with about 14 bits. If false, or
  // with block scales, the sum of every 128 values of k is added to separate f32 sums.
  bool fast_accumulation = true;
  bool alpha = false, beta = false;  // whether the kernel has the factors alpha (of the sum) and beta (of C)
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool batched = false;  // A, B, C and D have a third, outermost dimension
  // Each field says whether the kernel has that operand. Matrices have no fields of their own: C is present
  // with beta, and inputs with a slope.
#define PTXBUILDER_VECTOR(name, ...) bool name = false;
#include "kernels/gemm/product.def"
  // If set, group_ends divide k, and D has a product for each group's part of k. Otherwise they divide the
  // rows of A and D, and B has a matrix for each group.
  bool groups_of_k = false;
  // The epilogue includes a function of the caller's, which may read anything (UserEpilogue).
  bool user_epilogue = false;
  // TMA cannot store all of D at its address (see ThreadStore), so threads store the remaining part.
  bool d_by_threads = false;
  // The numbers of tensor modes that make up m, n, k and the batches, and how many elements a tile (or a
  // stage) has along the first mode if it continues along the second; 0 if it does not continue
  // (ProductModes).
  uint8_t m_modes = 1, n_modes = 1, k_modes = 1, batch_modes = 1;
  uint8_t m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows = WindowsOf::none;
  // B is packed weights, which are converted exactly to A's type; `b` is also that type.
  PackedForm packed = {};

  bool has_modes() const { return k_modes > 1 || d_has_modes(); }
  // Returns whether D is not a plain matrix.
  bool d_has_modes() const { return m_modes > 1 || n_modes > 1 || batch_modes > 1; }
  bool has_epilogue() const {
    if (alpha || activation != Activation::none || user_epilogue) return true;
    return std::ranges::any_of(product_operands, [&](const ProductOperandRow& row) {
      return row.role > OperandRole::block_factor && has(row.operand);
    });
  }
  // Returns whether the sum of every 128 values of k has its own factors.
  bool has_block_scales() const { return a_scales_1x128; }
  // Returns whether the sum of every 128 values of k, or of a group of weights, is added to separate f32
  // sums.
  bool promotes() const {
    return packed.has_scales() || (is_fp8(a) && (!fast_accumulation || has_block_scales()));
  }
  // Returns whether A or B stores two of every four values along k; the sparse operand is the one along the
  // tile's rows.
  bool is_sparse() const { return a_metadata || b_metadata; }
  // Returns whether a CTA loads rows of A one by one instead of using TMA.
  bool gathers() const { return a_rows; }
  // Returns whether threads store rows of D one by one.
  bool scatters() const { return d_rows || add_to_rows; }
  bool has_groups() const { return group_ends || group_counts; }
  bool grouped_rows() const { return has_groups() && !groups_of_k; }
  bool grouped_k() const { return has_groups() && groups_of_k; }
  bool has(ProductOperand which) const {
    switch (which) {
      case ProductOperand::c:
        return beta;
      case ProductOperand::inputs:
        return has_slope();
#define PTXBUILDER_VECTOR(name, ...) \
  case ProductOperand::name:         \
    return name;
#include "kernels/gemm/product.def"
    }
    return false;
  }
  // Returns the type of an operand's elements in this operation.
  DType type_of(const ProductOperandRow& row) const {
    switch (row.type) {
      case OperandType::f32:
        return DType::f32;
      case OperandType::s32:
        return DType::s32;
      case OperandType::s64:
        return DType::s64;
      case OperandType::addend:
        break;
    }
    return addend();
  }
  bool gates() const { return activation != Activation::none && use == ActivationUse::gate; }
  bool has_slope() const { return activation != Activation::none && use == ActivationUse::slope; }
  // Returns the number of columns of D for `n` columns of the product.
  int64_t d_columns(int64_t n) const { return gates() ? n / 2 : n; }
  DType addend() const { return size_of(d) == 1 ? DType::bf16 : d; }
  bool operator==(const GemmOperation&) const = default;
};

// The tile of a CTA, and how CTAs and warpgroups share the work. A tile's rows run along m and its columns
// along n. With `swapped` it is the other way round, which suits a small m: wgmma needs at least 64 rows, but
// only 8 columns.
struct GemmTile {
  int bm = 128, bn = 256;  // bm: a multiple of 64 for each consumer, up to 256; bn: a multiple of 8, up to
                           // 320
  int bk = 0;              // depth of a stage along k; 0: 128 bytes
  int stages = 0;          // stages of the ring; 0: as many as fit
  int consumers = 2;       // warpgroups that multiply; they share a tile's rows
  bool pingpong = false;   // instead of sharing tiles, two consumers take turns with whole tiles
  bool swapped = false;
  int cluster_m = 1, cluster_n = 1;  // CTAs that are adjacent along rows (they share B) and along columns
                                     // (they share A)
  // The CTAs of a cluster, along z, that divide a tile's k and add up their sums through distributed shared
  // memory.
  int split_k = 1;
  // The number of CTAs or clusters that may divide k of a tile (or of a block of tiles) in the last wave, if
  // that wave would leave SMs idle. They add up their sums through global memory and wait for each other, so
  // all CTAs must run at once, which a cooperative launch ensures.
  int split_last = 1;
  Raster raster = {};  // the order of tiles
  int ctas_per_sm = 1;
  // The kernel starts while the previous launch is ending (programmatic dependent launch, PDL). This saves a
  // microsecond, but if there are few tiles and each reads much data, all of them run slower.
  bool overlaps = true;
  // The last tiles of a row and column are moved back so that they end inside the output, since TMA is slow
  // outside a tensor; elements that two tiles compute are stored twice. This is not allowed with beta or a
  // user's epilogue, which may read D, or with split_last, where each tile would add up in a different order.
  bool inside = false;

  // Returns the number of a tile's rows that one consumer multiplies.
  int warpgroup_rows() const { return pingpong ? bm : bm / consumers; }

  bool operator==(const GemmTile&) const = default;
};

// Returns a tile as text, such as "128x256x64_4_2x1", followed by the fields that differ from the default:
// _g8 (groups of 8 rows; _c8 of columns, _g8s in a snake), _pp (ping-pong), _w3 (consumers), _swap, _k4
// (split k), _s4 (split_last), _x2 (CTAs per SM), _nopdl and _in. parse_tile() does the reverse, and throws
// Error that shows the form.
std::string text(const GemmTile& tile);
GemmTile parse_tile(const std::string& text);

// A tile that suits its operation, with bk and stages chosen, and the values that follow from them. The
// kernel, the model and the launch use the plan.
struct TilePlan : GemmTile {
  int stage_bytes = 0;  // bytes of A and B, or of weights with their scales and zero points
  // The columns of a panel in the epilogue (StoreOptions); 0 if any number will do. With split_last, each of
  // the CTAs that divide a tile completes and stores some of its panels.
  int panel_columns = 0;
  // The number of 8 KiB buffers through which each consumer stores: two, or one if the stages leave no room
  // for two. With block scales there are up to four, which hold a tile's output while the next tile begins.
  int staging_buffers = 0;
  // A tile's sums are rounded and wait in registers, to be stored during the next tile's products. This is
  // set if they fit in addition to the next sums and the registers of the epilogue, and if the warpgroups do
  // not take turns. With batches, the epilogue reads C at the current tile.
  bool defers_store = false;
  // Some columns are stored twice so that boxes have 128 bytes (StoreOptions::repeats). Boxes of up to 32
  // bytes write lines of L2 piecemeal, which costs two warpgroups that take turns 1200 clocks for each tile
  // of 128 x 176. This is not set with beta, where D may be C, or with a user's epilogue, whose reads are
  // unknown. If the next products hide a store, boxes of 32 bytes are as fast.
  bool stores_twice = false;
};

// The registers per thread of each role, set with setmaxnreg. There are 64 Ki in all, and the warpgroups that
// multiply get the most.
struct RoleRegisters {
  int producer, consumer;
};
// Returns the registers of each role. A producer that iterates over groups needs a few more, and one that
// gathers rows holds indices.
constexpr RoleRegisters role_registers(int consumers, bool grouped = false, bool gathers = false) {
  return gathers          ? RoleRegisters{56, consumers == 1   ? 232
                                              : consumers == 3 ? 144
                                                               : 224}
         : consumers == 1 ? RoleRegisters{40, 232}
         : consumers == 3 ? RoleRegisters{32, 160}
         : grouped        ? RoleRegisters{40, 232}
                          : RoleRegisters{24, 240};
}

// Returns whether each wgmma covers half of a tile's columns. A wgmma takes at most 256 columns, and with
// three consumers its sums must fit in the 128 registers that each thread of a 512-thread launch has before
// setmaxnreg (ptxas C7602).
constexpr bool divides_columns(const GemmTile& t) { return t.bn > (t.consumers == 3 ? 200 : 256); }

// Returns the number of a tile's columns that each CTA adds up and stores if CTAs of a cluster divide k.
constexpr int columns_of_part(const GemmTile& t) { return (t.bn / 8 + t.split_k - 1) / t.split_k * 8; }
// Returns whether some columns belong to two CTAs. Both add these columns up, in the same order, and store
// them.
constexpr bool parts_overlap(const GemmTile& t) { return columns_of_part(t) * t.split_k != t.bn; }

// Returns the number of columns whose sums of 128 values of k are in registers at once, to be multiplied by
// block scales.
constexpr int fresh_columns(const GemmTile& t) { return t.bn > 192 ? t.bn / 2 : t.bn; }
// Returns how many columns of a tile share one factor of a block of B, wherever the tile begins.
constexpr int scale_unit(const GemmTile& t) { return std::gcd(t.bn, kScaleBlock); }
// The number of scales in 16 bytes. TMA loads at least this many, and its boxes begin at multiples of it.
inline constexpr int kScalesOfBox = 4;
// The scales of a stage in shared memory: one for each row of A, and for B one for each column or for each
// block that the tile overlaps. A line holds several such blocks along k. A stage is a multiple of 128 bytes.
struct ScaleTiles {
  // The rows and columns of a tile of scales, which are f32.
  struct Shape {
    int rows, cols;
    int bytes() const { return rows * cols * 4; }
  };
  Shape of_a, of_b;
};
ScaleTiles scale_tiles(const GemmOperation& operation, const GemmTile& tile);

// Either a plan, or a refusal that says what cannot be combined and what to change.
struct Planned {
  std::optional<TilePlan> plan;
  std::string refusal;
};
Planned plan_of(const GemmOperation& operation, const GemmTile& tile);
// Throws the refusal as an Error.
TilePlan checked(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
