// This says what a matrix product computes, and how a kernel goes about it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/gemm/product_operand.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The activations, a row of activation.def each.
enum class Activation : uint8_t {
#define PTXBUILDER_ACTIVATION(word, ...) word,
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};
// The words are in the order of Activation.
inline constexpr std::array activation_words = {
#define PTXBUILDER_ACTIVATION(word, ...) std::string_view(#word),
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

// An activation f makes this of x: f(x); x f'(y), where y is what the activation was applied to, the way back
// through it; or f(x[m,2n]) x[m,2n+1], a gate and what it lets through, where D has one column for two of the
// product's.
enum class ActivationUse : uint8_t { value, slope, gate };

// An operand may be windows over the pixels of images (PixelWindows): A, whose rows are windows, or B, whose
// rows along k are.
enum class WindowsOf : uint8_t { none, a, b };

// D[m,n] = activation(x[m,n]), rounded once, to nearest even, of
// x[m,n] = alpha rows[m] columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n].
// Rows in groups are x[m,n] = sum_k A[m,k] B[g,n,k] of the group g that row m is in, and k in groups is
// x[g,m,n], the sum over the group's part of k. With a_rows A[m,k] is A[a_rows[m],k], which counts as 0 where
// A has no such row, and with d_rows D[m,n] is D[d_rows[m],n], which is not stored where D has no such row.
// With block scales A[m,k] counts times its factor of row m, and B[n,k] times its factor of row n or of 128
// rows, of the 128 of k that k is in. D and C are row-major. A is stored as m rows of k (k-major) or as k
// rows of m; B as n rows of k or as k rows of n.
struct GemmOperation {
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true;  // only 16-bit types may be otherwise
  // The whole sum of e4m3 and e5m2 is left to the tensor core, which keeps about 14 bits of it; else every
  // 128 of k go to f32 sums of their own, as they do with block scales in any case.
  bool fast_accumulation = true;
  bool alpha = false, beta = false;  // whether the kernel has these factors, of the sum and of C
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool batched = false;  // a third, outermost dimension of A, B, C and D
  // These say what the kernel has. A matrix has no field of its own: C is there with beta, and inputs with a
  // slope.
#define PTXBUILDER_VECTOR(name, ...) bool name = false;
#include "kernels/gemm/product.def"
  // It says that group_ends divide k, so that D has a product of each group's part of it. Else they divide
  // the rows of A and D, and B has a matrix for each group.
  bool groups_of_k = false;
  // A function of the caller's own, which may read what it likes (UserEpilogue).
  bool user_epilogue = false;
  // D is where TMA cannot store all of it (see ThreadStore): threads store the rest.
  bool d_by_threads = false;
  // The modes of tensors that m, n, k and the batches consist of, and how much of the first a tile has, where
  // it goes on along the second; 0 where it does not (ProductModes).
  uint8_t m_modes = 1, n_modes = 1, k_modes = 1, batch_modes = 1;
  uint8_t m_box = 0, n_box = 0;
  WindowsOf windows = WindowsOf::none;

  bool has_modes() const { return k_modes > 1 || d_has_modes(); }
  // Says whether D is no matrix.
  bool d_has_modes() const { return m_modes > 1 || n_modes > 1 || batch_modes > 1; }
  bool has_epilogue() const {
    if (alpha || activation != Activation::none || user_epilogue) return true;
    return std::ranges::any_of(product_operands, [&](const ProductOperandRow& row) {
      return row.role > OperandRole::block_factor && has(row.operand);
    });
  }
  // Says whether the sums of 128 of k are multiplied by factors of their own.
  bool has_block_scales() const { return a_scales_1x128; }
  // Says whether they go to f32 sums of their own.
  bool promotes() const { return is_fp8(a) && (!fast_accumulation || has_block_scales()); }
  // Says whether a CTA loads rows of A one by one, and not by TMA.
  bool gathers() const { return a_rows; }
  // Says whether threads store rows of D one by one.
  bool scatters() const { return d_rows; }
  bool grouped_rows() const { return group_ends && !groups_of_k; }
  bool grouped_k() const { return group_ends && groups_of_k; }
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
  // The element type of an operand of this operation.
  DType type_of(const ProductOperandRow& row) const {
    return row.type == OperandType::f32 ? DType::f32 : row.type == OperandType::s32 ? DType::s32 : addend();
  }
  bool gates() const { return activation != Activation::none && use == ActivationUse::gate; }
  bool has_slope() const { return activation != Activation::none && use == ActivationUse::slope; }
  // Columns of D from those of the product.
  int64_t d_columns(int64_t n) const { return gates() ? n / 2 : n; }
  DType addend() const { return size_of(d) == 1 ? DType::bf16 : d; }
  bool operator==(const GemmOperation&) const = default;
};

// The tile of a CTA and how CTAs and warpgroups share the work. The rows of a tile lie along m and its
// columns along n, or with `swapped` the other way round, which suits a small m: wgmma has 64 rows at least,
// but from 8 columns on.
struct GemmTile {
  int bm = 128, bn = 256;  // bm: a multiple of 64 for each consumer, up to 256; bn: of 8, up to 320
  int bk = 0;              // depth of a stage; 0 for 128 bytes
  int stages = 0;          // of the ring; 0 for as many as fit
  int consumers = 2;       // warpgroups that multiply: they share a tile's rows
  bool pingpong = false;   // two consumers take whole tiles in turn instead
  bool swapped = false;
  int cluster_m = 1, cluster_n = 1;  // CTAs side by side along rows (they share B) and columns (they share A)
  // CTAs of a cluster that divide k of a tile, along z, and add up through distributed shared memory.
  int split_k = 1;
  // CTAs, or clusters, that may divide the k of a tile (of a block of tiles) which would leave others idle:
  // of the last wave of tiles, where that does not fill all SMs. They add up through global memory, and wait
  // for each other: all CTAs have to run at once, which a cooperative launch sees to.
  int split_last = 1;
  Raster raster = {};  // the order of tiles
  int ctas_per_sm = 1;
  // Launched while the launch before it ends (programmatic dependent launch, PDL). It saves a microsecond,
  // but where few tiles each read much, all of them run slower after it.
  bool overlaps = true;
  // The last tiles of a row and column begin so early that they do not hang over the output, for TMA is slow
  // outside of a tensor: what two tiles compute, both store. Not with beta or a user's epilogue, which may
  // read D, nor with split_last, where each would add up in an order of its own.
  bool inside = false;

  // Rows of a tile that one consumer multiplies.
  int warpgroup_rows() const { return pingpong ? bm : bm / consumers; }

  bool operator==(const GemmTile&) const = default;
};

// "128x256x64_4_2x1", with _g8 (a group of rows; _c8 of columns, _g8s a snake), _pp (ping-pong), _w3
// (consumers), _swap, _k4 (split k), _s4 (split_last), _x2 (CTAs on an SM), _nopdl and _in after it where
// they differ from the default; and back. parse_tile throws Error that shows the form.
std::string text(const GemmTile& tile);
GemmTile parse_tile(const std::string& text);

// A plan is a tile that suits its operation, with bk and stages chosen, and what follows from them. Kernel,
// model and launch read it.
struct TilePlan : GemmTile {
  int stage_bytes = 0;
  // Columns of a panel of the way out (StoreOptions); 0 where it does not matter. With split_last, the CTAs
  // that divide a tile each complete and store some panels.
  int panel_columns = 0;
  // Buffers of 8 KiB through which each consumer stores: two, or one next to stages that leave no room for
  // more. With block scales up to four, which hold a tile's way out while the next one begins.
  int staging_buffers = 0;
  // A tile's sums wait in registers, rounded, to be stored under the next tile's products. This is set where
  // they fit with the next sums and what the epilogue takes, and the warpgroups do not take turns
  // anyway. A batch's epilogue reads C where it is now.
  bool defers_store = false;
  // Columns are stored twice for the sake of boxes of 128 bytes (StoreOptions::repeats), as
  // boxes of 32 bytes or less write lines of L2 piecemeal, by which 128 x 176 tiles of two warpgroups in turn
  // lose 1200 clocks each. It is not set with beta, where D may be C, nor for a user's epilogue, which reads
  // what nobody knows; and where the next products hide a store, boxes of 32 bytes are as fast.
  bool stores_twice = false;
};

// Registers of a thread of each role, by setmaxnreg: there are 64 Ki in all, and the warpgroups that multiply
// get the most.
struct RoleRegisters {
  int producer, consumer;
};
// A producer that walks over groups takes some more, and one that gathers rows keeps their numbers.
constexpr RoleRegisters role_registers(int consumers, bool grouped = false, bool gathers = false) {
  return gathers          ? RoleRegisters{56, consumers == 1   ? 232
                                              : consumers == 3 ? 144
                                                               : 224}
         : consumers == 1 ? RoleRegisters{40, 232}
         : consumers == 3 ? RoleRegisters{32, 160}
         : grouped        ? RoleRegisters{40, 232}
                          : RoleRegisters{24, 240};
}

// Says whether each wgmma has half of a tile's columns: it has 256 at most, and of three consumers it has to
// fit the 128 registers that a launch of 512 threads gives each before setmaxnreg (ptxas C7602).
constexpr bool divides_columns(const GemmTile& t) { return t.bn > (t.consumers == 3 ? 200 : 256); }

// The columns of a tile that each CTA adds up and stores, where CTAs of a cluster divide k.
constexpr int columns_of_part(const GemmTile& t) { return (t.bn / 8 + t.split_k - 1) / t.split_k * 8; }
// Some columns are those of two CTAs, which both add them up, in the same order, and store them.
constexpr bool parts_overlap(const GemmTile& t) { return columns_of_part(t) * t.split_k != t.bn; }

// Sums of 128 of k that block scales multiply have registers of their own, of so many columns at a time.
constexpr int fresh_columns(const GemmTile& t) { return t.bn > 192 ? t.bn / 2 : t.bn; }
// So many columns of a tile have one factor of a block of B, wherever the tile begins.
constexpr int scale_unit(const GemmTile& t) { return std::gcd(t.bn, kScaleBlock); }
// TMA takes so many scales at least, and its boxes begin at multiples of them: 16 bytes.
inline constexpr int kScalesOfBox = 4;
// The scales of a stage in shared memory: one for each row of A, and for each column of B or for each block
// that a tile reaches into; a line has several of these along k. A stage has multiples of 128 bytes.
struct ScaleTiles {
  // The rows and columns of a tile of scales, which are f32.
  struct Shape {
    int rows, cols;
    int bytes() const { return rows * cols * 4; }
  };
  Shape of_a, of_b;
};
ScaleTiles scale_tiles(const GemmOperation& operation, const GemmTile& tile);

// Either there is a plan, or the refusal says what does not go with what, and what to change.
struct Planned {
  std::optional<TilePlan> plan;
  std::string refusal;
};
Planned plan_of(const GemmOperation& operation, const GemmTile& tile);
// Throws the refusal as an Error.
TilePlan checked(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
