// Matrix products on the tensor cores (PTX ISA, wgmma), with descriptors from tiles; A may be in registers.
#pragma once

#include <variant>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// The options of mma().
struct MmaOptions {
  bool negate_a = false, negate_b = false;  // only for floating-point types
  bool saturate = false;                    // for s32 sums: clamps instead of wrapping around
};

// D += A B: issues the wgmmas of a whole tile, k innermost. A view has rows along m (or n) and columns
// along k; a transposed view, which needs a 16-bit type, has the reverse. Types: f16, bf16, tf32, e4m3 and
// e5m2 (mixed too) into f32; f16, e4m3 and e5m2 into f16; s8 and u8 (mixed too) into s32. A tile has a
// swizzle or, without one, panels of 16 bytes. Call it inside wgmma_group. Throws Error that names the
// shapes, types or swizzle that do not fit.
void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const TileView& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

namespace detail {
void mma_from_registers(Accumulator& d, const TileValues& a, const TileView& b, const MmaOptions& options);
}

// A sparse A of mma(): two of each four elements along k are stored (plan/sparse_matrix.h).
struct SparseTile {
  // m rows of k / 2 elements that are stored along k: f16, bf16, e4m3, e5m2, s8 or u8.
  TileView values;
  // A tile of s32 without swizzle, in panels of 128 columns, with a row for each 64 of k and a panel for each
  // 64 of m: the contents of a block of compress_2_4(), in the order of its lines.
  TileView metadata;
};

// Does the same with a sparse A (PTX ISA, wgmma.mma_async.sp), for which the tensor cores need half the time.
// B has k elements, twice as many as A stores, and k is a multiple of 64. Each thread loads its words of
// metadata. Words of 0, with which TMA fills elements outside of a tensor, select the first two elements,
// whose stored values are also 0.
void mma(Accumulator& d, const SparseTile& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const SparseTile& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

// Does the same with A in registers, in the layout of its type: wgmma_a(type, m, k). A may be computed in the
// call itself: `mma(o, astype<f16>(p), v)`. For a later product of a group, A must be computed before the
// group's first product, since registers are written before all products. Otherwise Error is thrown.
//
// The tile is copied to the product's own registers (mov) before the group's fence, so that it may change or
// be destroyed as soon as the group is committed. The product reads the copies until its group has been
// waited for, and the next iteration of a loop writes the same registers again: before that iteration's
// group, call wgmma_wait(n) so that at most the n groups that were committed after the product's are
// unfinished (PTX ISA, wgmma.mma_async). Otherwise Error is thrown at the end of the loop, if the order of
// the code shows it.
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

// Products as expressions: d += a * b is mma(d, a, b), and d -= a * b negates A. To set options, call
// mma().
class MatrixProduct {
 public:
  // The operand A, with the caller's line, which an operator cannot take.
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

// Runs `body`, whose mma calls are one group: wgmma.fence comes before the first, and
// wgmma.commit_group after the last.
void wgmma_group(const std::function<void()>& body, Where where = Where::here());

// Waits until at most `pending` groups of the warpgroup are unfinished. Accumulators of finished groups may
// be read.
void wgmma_wait(int pending, Where where = Where::here());

namespace detail {
// Returns a view as wgmma reads it. Throws Error that begins with `what`, such as "mma: A".
WgmmaOperand operand_of(const TileView& view, std::string_view what);
}  // namespace detail

}  // namespace ptxbuilder
