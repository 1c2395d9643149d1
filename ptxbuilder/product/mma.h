// Emits matrix products on the tensor cores (PTX ISA, wgmma). The descriptors are derived from the operands'
// tiles. A may be in registers.
#pragma once

#include <variant>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// The options of mma().
struct MmaOptions {
  bool negate_a = false, negate_b = false;  // only for floating-point types
  bool saturate = false;                    // only for s32 sums; they clamp instead of wrapping around
};

// Computes D += A B by issuing all wgmmas of a tile, with k as the innermost loop. The rows of a view run
// along m (or n), and its columns along k. The rows of a transposed view run along k; its type must have 16
// bits. The types f16, bf16, tf32, e4m3 and e5m2 can be added to f32; f16, e4m3 and e5m2 to f16; s8 and u8 to
// s32. A and B may mix e4m3 with e5m2, and s8 with u8. A tile needs a swizzle or panels of 16 bytes. Call
// this function inside wgmma_group(). If shapes, types or swizzles do not fit, throws an Error that names
// them.
void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const TileView& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

namespace detail {
void mma_from_registers(Accumulator& d, const TileValues& a, const TileView& b, const MmaOptions& options);
}

// A sparse A for mma(), which stores two of every four elements along k (plan/sparse_matrix.h).
struct SparseTile {
  // The stored elements: m rows of k / 2 elements of f16, bf16, e4m3, e5m2, s8 or u8.
  TileView values;
  // A tile of s32 without a swizzle, in panels of 128 columns. There is one row for every 64 elements along
  // k, and one panel for every 64 rows along m. The tile contains a block that compress_2_4() returns, in the
  // order of the block's lines.
  TileView metadata;
};

// Computes D += A B with a sparse A (PTX ISA, wgmma.mma_async.sp), in half the time that the tensor cores
// need for a dense A. B must have twice as many elements along k as A stores, and this number must be a
// multiple of 64. Each thread loads its own words of metadata. If TMA has filled metadata and elements
// outside a tensor with zeros, metadata words of 0 count as selections of the first two elements of each
// group.
void mma(Accumulator& d, const SparseTile& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());
inline void mma(Accumulator& d, const SparseTile& a, const TileView& b, Where where = Where::here()) {
  AtLine line(where);
  mma(d, a, b, MmaOptions{});
}

// Computes D += A B with A in registers, in the layout wgmma_a(type, m, k). A may be computed in the call
// itself, as in `mma(o, astype<f16>(p), v)`. A must be computed before the first product of the group,
// because the registers of a group's products must not be written after that. Otherwise, the function throws
// an Error.
//
// A is copied to the product's own registers (mov) before the group's fence, so A may change or be destroyed
// as soon as the group is committed. The product may read the copies until its group has been waited for, but
// the next iteration of a loop writes the same registers again. Before the next iteration's group, call
// wgmma_wait(n), where n is the number of groups that were committed after the product's group (PTX ISA,
// wgmma.mma_async). If the order of the code shows that this wait is missing, the end of the loop throws an
// Error.
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

// A product in an expression: d += a * b means mma(d, a, b), and d -= a * b negates A. To set other options,
// call mma().
class MatrixProduct {
 public:
  // The operand A and the caller's source line, because an operator cannot take the line as a parameter.
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

// Runs `body`. All calls to mma() in `body` form one group: wgmma.fence precedes the first product, and
// wgmma.commit_group follows the last product.
void wgmma_group(const std::function<void()>& body, Where where = Where::here());

// Waits until at most `pending` groups of this warpgroup are unfinished. The accumulators of finished groups
// may then be read.
void wgmma_wait(int pending, Where where = Where::here());

namespace detail {
// Returns the operand that wgmma reads from a view. If wgmma cannot read the view, the function throws an
// Error that begins with `what`, such as "mma: A".
WgmmaOperand operand_of(const TileView& view, std::string_view what);
}  // namespace detail

}  // namespace ptxbuilder
