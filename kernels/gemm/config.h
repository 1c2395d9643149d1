// Describes the operation of a matrix product (GemmOperation), and the way in which a kernel computes it
// (GemmTile, TilePlan).
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

// The activations. Each enumerator corresponds to a row of activation.def.
enum class Activation : uint8_t {
#define PTXBUILDER_ACTIVATION(word, ...) word,
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};
// The names of the activations, in the order of Activation.
inline constexpr std::array activation_words = {
#define PTXBUILDER_ACTIVATION(word, ...) std::string_view(#word),
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

// The result that an activation f computes from x:
// - `value`: f(x).
// - `slope`: x f'(y), as in the backward pass; y is the operand `inputs`, to which f was applied in the
// forward pass.
// - `gate`: f(x[m,2n]) x[m,2n+1], so that D has one column for every two columns of the product.
enum class ActivationUse : uint8_t { value, slope, gate };

// The operand, if any, that consists of windows over the pixels of images (PixelWindows). It is either A,
// with the windows along m, or B, with the windows along k.
enum class WindowsOf : uint8_t { none, a, b };

// Defines D[m,n] = activation(x[m,n]), rounded once, to nearest even, where
//   x[m,n] = alpha rows[m] columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n].
// - Groups of rows: x[m,n] = sum_k A[m,k] B[g,n,k], where g is the group of row m. With group_counts, rows
//   outside all groups are not stored. With b_addresses, B[g] begins at address b_addresses[g].
// - Groups of k: x[g,m,n] is the sum over the values of k in group g.
// - a_rows: A[m,k] is replaced with A[a_rows[m],k], or with 0 if A has no such row.
// - d_rows: the result for row m is stored in row d_rows[m] of D, or nowhere if D has no such row.
// - add_to_rows: the result for row m is rounded and added to row add_to_rows[m] of D; the sum is rounded
//   again.
// - Block scales: every 128 values of k have factors, one for each row of A, and one for each row of B or for
// every 128 rows of B. A[m,k] and B[n,k] are multiplied by their factors.
// - Packed weights: B[n,k] is a weight minus the zero point of its group, times the scale of its group.
// - Metadata: A[m,k] or B[n,k] is 0 if the metadata does not list it as stored.
// D and C are row-major. A is stored as m rows of k (k-major) or as k rows of m; B is stored as n rows of k
// (k-major) or as k rows of n.
struct GemmOperation {
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true;  // false is allowed only for 16-bit types
  // If true, the tensor core adds up entire sums of e4m3 and e5m2 products, with about 14 bits. If false, or
  // with block scales, the sum of every 128 values of k is added to separate f32 sums.
  bool fast_accumulation = true;
  bool alpha = false,
       beta = false;  // true: the kernel multiplies the sum by alpha; the kernel adds beta times C
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool batched = false;  // true: A, B, C and D have a third, outermost dimension
  // A field for each vector of product.def; it is true if the kernel has this operand. Matrices have no
  // fields: the kernel has C if `beta` is true, and inputs if `use` is `slope`.
#define PTXBUILDER_VECTOR(name, ...) bool name = false;
#include "kernels/gemm/product.def"
  // If true, groups divide k, and D has a matrix for each group. Otherwise groups divide the rows of A and D,
  // and B has a matrix for each group.
  bool groups_of_k = false;
  // If true, the epilogue calls a user's function, which may read any memory (UserEpilogue).
  bool user_epilogue = false;
  // If true, threads store the part of D that TMA cannot store (see ThreadStore).
  bool d_by_threads = false;
  // The numbers of tensor modes that make up m, n, k and the batches, and the sizes of boxes. A tile (or,
  // along k, a stage) has the size of the box along the first mode and continues along the second. If the
  // size is 0, the tile extends only along the first mode. See ProductModes.
  uint8_t m_modes = 1, n_modes = 1, k_modes = 1, batch_modes = 1;
  uint8_t m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows = WindowsOf::none;
  // The form of packed weights, if B consists of them. They are converted exactly to A's type, and `b` is A's
  // type.
  PackedForm packed = {};

  bool has_modes() const { return k_modes > 1 || d_has_modes(); }
  // Returns whether D has several modes along m, n or the batches, so that it is not a plain matrix.
  bool d_has_modes() const { return m_modes > 1 || n_modes > 1 || batch_modes > 1; }
  bool has_epilogue() const {
    if (alpha || activation != Activation::none || user_epilogue) return true;
    return std::ranges::any_of(product_operands, [&](const ProductOperandRow& row) {
      return row.role > OperandRole::block_factor && has(row.operand);
    });
  }
  // Returns whether the sum of every 128 values of k is multiplied by block scales.
  bool has_block_scales() const { return a_scales_1x128; }
  // Returns whether the tensor core's sum over 128 values of k, or over a group of weights, is added to
  // separate f32 sums.
  bool promotes() const {
    return packed.has_scales() || (is_fp8(a) && (!fast_accumulation || has_block_scales()));
  }
  // Returns whether A or B is sparse, storing two of every four values along k. The sparse operand must be
  // along the tile's rows.
  bool is_sparse() const { return a_metadata || b_metadata; }
  // Returns whether threads load rows of A one by one, instead of TMA.
  bool gathers() const { return a_rows; }
  // Returns whether threads store rows of D one by one, instead of TMA.
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
  // Returns the number of columns of D if the product has `n` columns.
  int64_t d_columns(int64_t n) const { return gates() ? n / 2 : n; }
  DType addend() const { return size_of(d) == 1 ? DType::bf16 : d; }
  bool operator==(const GemmOperation&) const = default;
};

// The tile of a CTA, and how CTAs and warpgroups share the work. The rows of a tile are along m, and its
// columns along n. If `swapped`, the rows are along n, which suits a small m, since wgmma needs at least 64
// rows but only 8 columns.
struct GemmTile {
  int bm = 128, bn = 256;  // bm: rows, 64 (or a multiple) per consumer, up to 256; bn: columns, a multiple of
                           // 8 up to 320
  int bk = 0;              // values along k in a stage; 0: as many as take 128 bytes
  int stages = 0;          // stages in the ring; 0: as many as fit
  int consumers = 2;       // warpgroups that multiply; they divide a tile's rows
  bool pingpong = false;   // true: two consumers process whole tiles alternately instead of sharing each tile
  bool swapped = false;
  int cluster_m = 1, cluster_n = 1;  // CTAs of a cluster along the rows of tiles (they share B), and along
                                     // the columns (they share A)
  // The number of CTAs, adjacent along z in a cluster, that divide k of a tile among themselves. They add up
  // their sums through distributed shared memory.
  int split_k = 1;
  // The maximum number of CTAs (or clusters) that divide k of a tile (or of a block of tiles) in the last
  // wave, if that wave would leave SMs idle. The CTAs add up their sums through global memory and wait for
  // each other, so a cooperative launch has to ensure that all of them run at once.
  int split_last = 1;
  Raster raster = {};  // the order of tiles
  int ctas_per_sm = 1;
  // If true, the kernel starts while the previous launch is ending (programmatic dependent launch, PDL). This
  // saves a microsecond, but slows all tiles down if there are few of them and each reads much data.
  bool overlaps = true;
  // If true, the last tiles along each dimension are moved back so that they end inside the output, because
  // TMA is slow outside a tensor. Elements in two tiles are computed and stored twice. This is not allowed
  // with beta or a user's epilogue, since they may read D, or with split_last, since the two tiles would add
  // in different orders.
  bool inside = false;

  // Returns the number of a tile's rows that one consumer multiplies.
  int warpgroup_rows() const { return pingpong ? bm : bm / consumers; }

  bool operator==(const GemmTile&) const = default;
};

// Returns a tile as a string. "128x256x64_4_2x1" lists bm, bn, bk, the stages and the cluster. A suffix
// follows for each field that differs from its default: _g8 (raster in groups of 8 rows; _c8: of 8 columns;
// _g8s: in a snake), _pp (pingpong), _w3 (consumers), _swap, _k4 (split_k), _s4 (split_last), _x2
// (ctas_per_sm), _nopdl (overlaps is false) and _in (inside).
std::string text(const GemmTile& tile);
GemmTile parse_tile(const std::string& text);

// A tile that has been checked against its operation, with bk and stages chosen, and with values derived from
// them. The kernel, the model and the launch use the plan.
struct TilePlan : GemmTile {
  int stage_bytes = 0;  // bytes of A and B in a stage; packed weights count with their scales and zero points
  // The number of columns in a panel of the epilogue (StoreOptions); 0 leaves the choice to the epilogue. If
  // split_last is set, each of the CTAs that divide a tile completes and stores some of its panels.
  int panel_columns = 0;
  // The number of 8 KiB buffers through which each consumer stores. It is two, or one if the stages leave no
  // room for two. With block scales it is up to four, so that the buffers hold a tile's output while the next
  // tile begins.
  int staging_buffers = 0;
  // If true, a tile's sums are rounded and stay in registers, to be stored during the products of the next
  // tile. This requires that the registers can hold them in addition to the next sums and the values of the
  // epilogue, and that warpgroups do not alternate (pingpong). It is false if a batched operation has an
  // epilogue, which would read operands at the next tile's batch.
  bool defers_store = false;
  // If true, some columns are stored twice so that boxes are 128 bytes wide (StoreOptions::repeats). Boxes of
  // up to 32 bytes write lines of L2 piecemeal, which takes two alternating warpgroups 1200 more clocks for
  // each tile of 128 x 176. It is false with beta, since D may be C, with a user's epilogue, since it may
  // read D, and if the next products hide the store, since boxes of 32 bytes are then as fast.
  bool stores_twice = false;
};

// The number of registers that each thread of a role has, set with setmaxnreg. An SM has 64 Ki registers, and
// the warpgroups that multiply get most of them.
struct RoleRegisters {
  int producer, consumer;
};
// Returns the number of registers for each role. A producer that iterates over groups needs a few more
// registers than usual, and a producer that gathers rows needs many more for the indices.
constexpr RoleRegisters role_registers(int consumers, bool grouped = false, bool gathers = false) {
  return gathers          ? RoleRegisters{56, consumers == 1   ? 232
                                              : consumers == 3 ? 144
                                                               : 224}
         : consumers == 1 ? RoleRegisters{40, 232}
         : consumers == 3 ? RoleRegisters{32, 160}
         : grouped        ? RoleRegisters{40, 232}
                          : RoleRegisters{24, 240};
}

// Returns whether each wgmma covers half of a tile's columns. A wgmma can have at most 256 columns. With
// three consumers, its sums must also fit in the 128 registers that each thread of a 512-thread launch has
// before setmaxnreg (ptxas C7602).
constexpr bool divides_columns(const GemmTile& t) { return t.bn > (t.consumers == 3 ? 200 : 256); }

// Returns the number of a tile's columns that each CTA adds up and stores if the CTAs of a cluster divide k.
constexpr int columns_of_part(const GemmTile& t) { return (t.bn / 8 + t.split_k - 1) / t.split_k * 8; }
// Returns whether some columns belong to the parts of two CTAs. Both CTAs add these columns up, in the same
// order, and store them.
constexpr bool parts_overlap(const GemmTile& t) { return columns_of_part(t) * t.split_k != t.bn; }

// Returns how many columns a consumer multiplies at once if there are block scales. The number is limited
// because the sums of 128 values of k wait in registers to be multiplied by the scales.
constexpr int fresh_columns(const GemmTile& t) { return t.bn > 192 ? t.bn / 2 : t.bn; }
// Returns the size of units into which a tile's columns can be divided so that all columns of a unit share
// one factor of B, wherever the tile begins.
constexpr int scale_unit(const GemmTile& t) { return std::gcd(t.bn, kScaleBlock); }
// The number of scales in 16 bytes. TMA loads at least this many scales, and boxes of scales begin at
// multiples of this number.
inline constexpr int kScalesOfBox = 4;
// The tiles of scales of a stage in shared memory. A has a scale for each row of the tile. B has one for each
// column, or for each block that the tile overlaps; its tile then holds the scales of several blocks along k
// in a line. The size of each tile is a multiple of 128 bytes.
struct ScaleTiles {
  // The numbers of rows and columns in a tile of f32 scales.
  struct Shape {
    int rows, cols;
    int bytes() const { return rows * cols * 4; }
  };
  Shape of_a, of_b;
};
ScaleTiles scale_tiles(const GemmOperation& operation, const GemmTile& tile);

// Either a plan, or the reason why the operation or the tile is not supported, with the change to make.
struct Planned {
  std::optional<TilePlan> plan;
  std::string refusal;
};
Planned plan_of(const GemmOperation& operation, const GemmTile& tile);
// Returns the plan, or throws the refusal as an Error.
TilePlan checked(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
