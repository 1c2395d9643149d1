// Matrix products on the tensor cores: accumulators in named registers, descriptors derived from tiles.
#pragma once

#include <variant>

#include "ptxbuilder/tile/copy.h"
#include "ptxbuilder/tile/fragment.h"

namespace ptxbuilder {

namespace detail {
class Product;
}

struct MmaOptions {
  bool negate_a = false, negate_b = false;  // of floating types
  bool saturate = false;                    // into s32: clamp in place of wrapping around
};

// m x n accumulators of one warpgroup in f32, f16 or s32, 64 n / 128 a thread for each 64 rows. Starts as
// zero: the first mma overwrites. m is a multiple of 64, n of 8 up to 256 (of s32 from 32 on of 16). The
// registers are named PTX registers that LLVM never sees.
class Accumulator {
 public:
  Accumulator(int m, int n, Where where = Where::here()) : Accumulator(m, n, DType::f32, where) {}
  Accumulator(int m, int n, DType dtype, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }
  DType dtype() const { return dtype_; }

  // The next mma overwrites again.
  void zero() { accumulate_ = pred(false); }
  // The next mma adds to what the registers hold.
  void accumulate() { accumulate_ = pred(true); }

  // Named registers of the 64-row block `block`, in wgmma's order: element 4 j + 2 h + e of a thread is that
  // of row 16 (warp % 4) + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + e (PTX ISA, wgmma.mma_async, "Register
  // Fragments"). Elements 2 i and 2 i + 1 of f16 share the b32 register i; else each has its own. Throws
  // Error while an mma may still write them: wgmma_wait(0) first.
  Registers registers(int block, Where where = Where::here()) const;

  // Element i of those of the block as a value; T is f32, f16 or s32, as the accumulator.
  template <class T = f32>
  T value(int block, int i, Where where = Where::here()) const {
    return T(element(block, i, T::dtype, where).handle());
  }
  // Writes element i of the block; of f32 accumulators.
  void set(int block, int i, f32 value, Where where = Where::here());
  // Writes all, and adds another of the same shape.
  void fill(f32 value, Where where = Where::here());
  void add(const Accumulator& other, Where where = Where::here());
  // Where this thread's element i of the block is in the accumulator. Elements 0 to elements() - 1.
  int elements() const { return n_ / 2; }
  u32 row(int block, int i, Where where = Where::here()) const;
  u32 col(int i, Where where = Where::here()) const;

 private:
  friend class detail::Product;

  Value element(int block, int i, DType as, Where where) const;
  Registers block_registers(int block) const;

  int m_, n_;
  DType dtype_;
  Registers registers_;
  Var<pred> accumulate_;
  std::shared_ptr<bool> in_flight_;
};

// D += A B: issues the wgmmas of a whole tile, k innermost. A view has rows along m (or n) and columns along
// k; a transposed view the reverse, which 16-bit types allow. Types: f16, bf16, tf32, e4m3 and e5m2 (mixed
// too) into f32; f16, e4m3 and e5m2 into f16; s8 and u8 (mixed too) into s32. Tiles have a swizzle, or none
// and panels of 16 bytes. Call inside wgmma_group. Throws Error that names the shapes, types or swizzle that
// do not fit.
void mma(Accumulator& d, const TileView& a, const TileView& b, Where where = Where::here());
void mma(Accumulator& d, const TileView& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());

// The same with A in registers; D has 64 rows.
void mma(Accumulator& d, const Fragment& a, const TileView& b, Where where = Where::here());
void mma(Accumulator& d, const Fragment& a, const TileView& b, const MmaOptions& options,
         Where where = Where::here());

// The same as expressions: d += a * b is mma(d, a, b), and d -= a * b negates A. Their options are set by
// mma().
class MatrixProduct {
 public:
  // A, and the caller's line, which an operator cannot take.
  class Left {
   public:
    Left(TileView a, Where where = Where::here()) : a_(std::move(a)), where_(where) {}  // NOLINT
    Left(Fragment a, Where where = Where::here()) : a_(std::move(a)), where_(where) {}  // NOLINT

   private:
    friend class MatrixProduct;
    std::variant<TileView, Fragment> a_;
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

// The fragment whose elements are those of 64 rows of an accumulator: f32 to f16, bf16, e4m3 or e5m2 to
// nearest even, f16 to f16, s32 to s8 or u8; 8-bit types clamp. So the result of one product is A of the
// next.
Fragment to_fragment(DType type, const Accumulator& from, int block = 0, Where where = Where::here());

// Runs `body` between wgmma.fence and wgmma.commit_group: its mma calls are one group.
void wgmma_group(const std::function<void()>& body, Where where = Where::here());

// Waits until at most `pending` groups of the warpgroup are unfinished. After 0, accumulators may be read.
void wgmma_wait(int pending, Where where = Where::here());

}  // namespace ptxbuilder
