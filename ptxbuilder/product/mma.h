// Emits matrix products on the tensor cores (PTX ISA, wgmma), with descriptors that follow from tiles. A may
// be in registers.
#pragma once

#include <variant>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// The options of mma().
struct MmaOptions {
  bool negate_a = false, negate_b = false;  // for floating-point types only
  bool saturate = false;                    // for s32 sums: clamp instead of wrapping around
};

// Computes D += A B: issues the wgmmas of a whole tile, with k as the innermost loop. A view has rows along m
// (or n) and columns along k; a transposed view, which needs a 16-bit type, has rows along k. Types: f16,
// bf16, tf32, e4m3 and e5m2 (which may be mixed with each other) into f32; f16, e4m3 and e5m2 into f16; s8
// and u8 (which may be mixed) into s32. A tile needs a swizzle or panels of 16 bytes. Call this inside
// wgmma_group. Throws Error that names the shapes, types or swizzle that do not fit.
void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const TileView& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

namespace detail {
void mma_from_registers(Accumulator& d, const TileValues& a, const TileView& b, const MmaOptions& options);
}

// A sparse A for mma(): two of every four elements along k are stored (plan/sparse_matrix.h).
struct SparseTile {
  // m rows of k / 2 stored elements: f16, bf16, e4m3, e5m2, s8 or u8.
  TileView values;
  // A tile of s32 without a swizzle, in panels of 128 columns, with a row for every 64 elements of k and a
  // panel for every 64 of m. It contains a block from compress_2_4(), in the order of its lines.
  TileView metadata;
};

// Does the same with a sparse A (PTX ISA, wgmma.mma_async.sp), for which the tensor cores need half the time.
// B has twice as many elements along k as A stores, a multiple of 64. Each thread loads its
// words of metadata. Words of 0, with which TMA fills elements outside a tensor, select the first two
// elements of each group; their values are then 0 too.
void mma(Accumulator& d, const SparseTile& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const SparseTile& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

// Does the same with A in registers, in the layout of its type: wgmma_a(type, m, k). A may be computed in the
// call itself: `mma(o, astype<f16>(p), v)`. For a later product of a group, A must be computed before the
// group's first product, since registers may only be written before all products; otherwise this throws
// Error.
//
// The tile is copied to the product's own registers (mov) before the group's fence, so it may change or be
// destroyed as soon as the group is committed. The product may read the copies until its group has been
// waited for, and the next iteration of a loop writes the same registers again. Before the group of that
// iteration, call wgmma_wait(n), where n is the number of groups that were committed after the product's
// group (PTX ISA, wgmma.mma_async). If the order of the code shows that this wait is missing, the end of the
// loop throws Error.
template <TileElement T>
void mma(Accumulator& d, const RegisterTile<T>& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here()) {
  AtLine line(where);
  detail::mma_from_registers(d, a.values(), b, options);
}
template <TileElement T>
void mma(Accumulator& d, const RegisterTile<T>& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

// Products as expressions: d += a * b means mma(d, a, b), and d -= a * b negates A. To set options, call
// mma().
class MatrixProduct {
 public:
  // The operand A, with the caller's line, since an operator has no parameter for the line.
  class Left {
   public:
    Left(TileView a, Where where = Where::here()) : a_(std::move(a)), where_(where) {}  // NOLINT
    template <TileElement T>
    Left(const RegisterTile<T>& a, Where where = Where::here()) : a_(a.values()), where_(where) {}  // NOLINT

   private:
    friend class MatrixProduct;
    std::variant<TileView, detail::TileValues> a_;
    Where where_;
  };

  MatrixProduct(Left a, TileView b) : a_(std::move(a)), b_(std::move(b)) {}
  friend void operator+=(Accumulator& d, const MatrixProduct& product) { product.add_to(d, {}); }
  friend void operator-=(Accumulator& d, const MatrixProduct& product) {
    product.add_to(d, {.negate_a = true});
  }

 private:
  void add_to(Accumulator& d, const MmaOptions& options) const;

  Left a_;
  TileView b_;
};
inline MatrixProduct operator*(const MatrixProduct::Left& a, const TileView& b) { return {a, b}; }

// Runs `body`, whose mma calls form one group: wgmma.fence precedes the first, and wgmma.commit_group follows
// the last.
void wgmma_group(const std::function<void()>& body, Where where = Where::here());

// Waits until at most `pending` groups of the warpgroup are unfinished. The accumulators of finished groups
// may then be read.
void wgmma_wait(int pending, Where where = Where::here());

namespace detail {
// Returns a view in the form in which wgmma reads it. Throws Error that begins with `what`, such as "mma: A".
WgmmaOperand operand_of(const TileView& view, std::string_view what);
}  // namespace detail

}  // namespace ptxbuilder
