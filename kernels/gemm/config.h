// This describes what a matrix product computes, and how a kernel computes it.
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
// The words are in the same order as the values of Activation.
inline constexpr std::array activation_words = {
#define PTXBUILDER_ACTIVATION(word, ...) std::string_view(#word),
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

// An activation f turns x into one of these: f(x); x f'(y), the backward pass, where y is the value that the
// activation was applied to; or f(x[m,2n]) x[m,2n+1], a gate times the value that it lets through, where D
// has one column for every two of the product's.
enum class ActivationUse : uint8_t { value, slope, gate };

// An operand may be windows over the pixels of images (PixelWindows): either A, whose rows are windows, or B,
// whose rows along k are windows.
enum class WindowsOf : uint8_t { none, a, b };

// D[m,n] = activation(x[m,n]), rounded once, to nearest even, of x[m,n] = alpha rows[m] columns[n]
// sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n]. With groups of rows, x[m,n] = sum_k A[m,k] B[g,n,k],
// where g is the group that row m belongs to; with group_counts, rows of no group are not stored. With groups
// of k, x[g,m,n] is the sum over group g's part of k. With b_addresses, B[g] begins at b_addresses[g]. With
// a_rows, A[m,k] is A[a_rows[m],k], or 0 if A has no such row; with d_rows, D[m,n] is D[d_rows[m],n], which
// is not stored if D has no such row; with add_to_rows, D[m,n] rounded is added to D[add_to_rows[m],n], and
// the sum is rounded again. With block scales, A[m,k] is multiplied by the factor of row m, and B[n,k] by the
// factor of row n or of its 128 rows, for the 128 values of k that contain k. With packed weights, B[n,k] is
// a weight less its zero, times its scale. With metadata, A[m,k] or B[n,k] is one of the values that are
// stored, or 0. D and C are row-major. A is stored as m rows of k (k-major) or k rows of m; B as n rows of k
// or k rows of n.
struct GemmOperation {
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true;  // other layouts are only for 16-bit types
  // The tensor core adds up the whole sum of e4m3 and e5m2, and keeps about 14 bits of it; otherwise the sum
  // of every 128 values of k is added to separate f32 sums, which is always done with block scales.
  bool fast_accumulation = true;
  bool alpha = false, beta = false;  // whether the kernel has these factors: alpha of the sum, beta of C
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool batched = false;  // a third, outermost dimension of A, B, C and D
  // These say which operands the kernel has. Matrices have no fields of their own: C is present with beta,
  // and inputs with a slope.
#define PTXBUILDER_VECTOR(name, ...) bool name = false;
#include "kernels/gemm/product.def"
  // If this is set, group_ends divide k, and D has a product for each group's part of k. Otherwise they
  // divide the rows of A and D, and B has a matrix for each group.
  bool groups_of_k = false;
  // A function of the caller's own, which may read anything it likes (UserEpilogue).
  bool user_epilogue = false;
  // TMA cannot store all of D where it is placed (see ThreadStore): threads store the rest.
  bool d_by_threads = false;
  // The numbers of tensor modes that make up m, n, k and the batches, and the number of elements along the
  // first mode in a tile, or a stage, that continues along the second; 0 if it does not (ProductModes).
  uint8_t m_modes = 1, n_modes = 1, k_modes = 1, batch_modes = 1;
  uint8_t m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows = WindowsOf::none;
  // Packed weights as B, which are converted to A's type, exactly; `b` is that type too.
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
  // Returns whether the sum of every 128 values of k is multiplied by factors of its own.
  bool has_block_scales() const { return a_scales_1x128; }
  // Returns whether the sum of every 128 values of k, or of a group of weights, is added to separate f32
  // sums.
  bool promotes() const {
    return packed.has_scales() || (is_fp8(a) && (!fast_accumulation || has_block_scales()));
  }
  // Returns whether A or B stores two of every four values along k, which takes rows of the tile.
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
  // Returns the element type that an operand has in this operation.
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

// The tile of a CTA and how CTAs and warpgroups share the work. The rows of a tile run along m and its
// columns along n, or with `swapped` the other way round, which suits a small m: wgmma needs at least 64
// rows, but only 8 columns.
struct GemmTile {
  int bm = 128, bn = 256;  // bm: a multiple of 64 for each consumer, up to 256; bn: of 8, up to 320
  int bk = 0;              // depth of a stage; 0 for 128 bytes
  int stages = 0;          // of the ring; 0 for as many as fit
  int consumers = 2;       // warpgroups that multiply: they share a tile's rows
  bool pingpong = false;   // two consumers take turns with whole tiles instead
  bool swapped = false;
  int cluster_m = 1, cluster_n = 1;  // CTAs adjacent along rows (they share B) and columns (they share A)
  // CTAs of a cluster that divide a tile's k, along z, and add up through distributed shared memory.
  int split_k = 1;
  // CTAs, or clusters, that may divide k of a tile (or of a block of tiles) in the last wave, if that wave
  // does not fill all SMs and would leave others idle. They add up their sums through global memory, and wait
  // for each other: all CTAs must run at once, which a cooperative launch ensures.
  int split_last = 1;
  Raster raster = {};  // the order of tiles
  int ctas_per_sm = 1;
  // The kernel is launched while the previous launch ends (programmatic dependent launch, PDL). This saves a
  // microsecond, but if there are few tiles that each read much, all of them then run slower.
  bool overlaps = true;
  // The last tiles of a row and column begin early enough to end inside the output, since TMA is slow outside
  // of a tensor: what two tiles compute is stored twice. Not allowed with beta or a user's epilogue, which
  // may read D, or with split_last, where each tile would add up in an order of its own.
  bool inside = false;

  // Returns the number of a tile's rows that one consumer multiplies.
  int warpgroup_rows() const { return pingpong ? bm : bm / consumers; }

  bool operator==(const GemmTile&) const = default;
};

// "128x256x64_4_2x1", followed by _g8 (a group of rows; _c8 of columns, _g8s a snake), _pp (ping-pong), _w3
// (consumers), _swap, _k4 (split k), _s4 (split_last), _x2 (CTAs on an SM), _nopdl and _in if they differ
// from the default; and back. parse_tile throws Error that shows the form.
std::string text(const GemmTile& tile);
GemmTile parse_tile(const std::string& text);

// A plan is a tile that suits its operation, with bk and stages chosen, and the values that follow from them.
// The kernel, the model and the launch read it.
struct TilePlan : GemmTile {
  int stage_bytes = 0;  // of A and B, or of weights with their scales and zeros
  // The columns of a panel in the epilogue (StoreOptions); 0 if the number does not matter. With split_last,
  // the CTAs that divide a tile each complete and store some of its panels.
  int panel_columns = 0;
  // Buffers of 8 KiB through which each consumer stores: two, or one if the stages leave no room for more.
  // There are up to four with block scales, which hold a tile's output while the next tile begins.
  int staging_buffers = 0;
  // A tile's sums wait in registers, rounded, to be stored during the next tile's products. This is set if
  // they fit in addition to the next sums and the registers of the epilogue, and if the warpgroups do not
  // take turns anyway. With batches, the epilogue reads C at the current tile.
  bool defers_store = false;
  // Some columns are stored twice to have boxes of 128 bytes (StoreOptions::repeats), since boxes of up to 32
  // bytes write lines of L2 piecemeal, which costs 128 x 176 tiles of two warpgroups in turn 1200 clocks
  // each. It is not set with beta, where D may be C, or with a user's epilogue, whose reads are unknown; and
  // if the next products hide a store, boxes of 32 bytes are as fast.
  bool stores_twice = false;
};

// Registers per thread of each role, set with setmaxnreg: there are 64 Ki in all, and the warpgroups that
// multiply get the most.
struct RoleRegisters {
  int producer, consumer;
};
// A producer that iterates over groups needs a few more registers, and one that gathers rows keeps indices.
constexpr RoleRegisters role_registers(int consumers, bool grouped = false, bool gathers = false) {
  return gathers          ? RoleRegisters{56, consumers == 1   ? 232
                                              : consumers == 3 ? 144
                                                               : 224}
         : consumers == 1 ? RoleRegisters{40, 232}
         : consumers == 3 ? RoleRegisters{32, 160}
         : grouped        ? RoleRegisters{40, 232}
                          : RoleRegisters{24, 240};
}

// Returns whether each wgmma covers half of a tile's columns: it takes 256 at most, and with three consumers
// it must fit the 128 registers that a launch of 512 threads gives each before setmaxnreg (ptxas C7602).
constexpr bool divides_columns(const GemmTile& t) { return t.bn > (t.consumers == 3 ? 200 : 256); }

// Returns the number of a tile's columns that each CTA adds up and stores if CTAs of a cluster divide k.
constexpr int columns_of_part(const GemmTile& t) { return (t.bn / 8 + t.split_k - 1) / t.split_k * 8; }
// Returns whether some columns belong to two CTAs, which both add them up, in the same order, and store them.
constexpr bool parts_overlap(const GemmTile& t) { return columns_of_part(t) * t.split_k != t.bn; }

// Sums of 128 values of k that block scales multiply use their own registers, for this many columns at once.
constexpr int fresh_columns(const GemmTile& t) { return t.bn > 192 ? t.bn / 2 : t.bn; }
// This many columns of a tile share one factor of a block of B, wherever the tile begins.
constexpr int scale_unit(const GemmTile& t) { return std::gcd(t.bn, kScaleBlock); }
// TMA takes at least this many scales, and its boxes begin at multiples of this number: 16 bytes.
inline constexpr int kScalesOfBox = 4;
// The scales of a stage in shared memory: one for each row of A, and one for each column of B or for each
// block that a tile overlaps; a line has several such blocks along k. A stage is a multiple of 128 bytes.
struct ScaleTiles {
  // The rows and columns of a tile of scales, which are f32.
  struct Shape {
    int rows, cols;
    int bytes() const { return rows * cols * 4; }
  };
  Shape of_a, of_b;
};
ScaleTiles scale_tiles(const GemmOperation& operation, const GemmTile& tile);

// Either there is a plan, or the refusal says what does not go together, and what to change.
struct Planned {
  std::optional<TilePlan> plan;
  std::string refusal;
};
Planned plan_of(const GemmOperation& operation, const GemmTile& tile);
// Throws the refusal as an Error.
TilePlan checked(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
