// Defines accumulators of the tensor cores: tiles in named PTX registers, to which products are added.
#pragma once

#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder {

namespace detail {
class WgmmaCall;
class AccumulatorRegisters;
}  // namespace detail

// A tile of m x n elements in f32, f16 or s32, which one warpgroup holds in wgmma_layout(m, n). m must be a
// multiple of 64, and n a multiple of 8 up to 256; for s32, an n of 32 or more must be a multiple of 16. A
// larger n, up to 512, must be twice such a width; two wgmmas then compute half of the columns each. The
// first product overwrites the registers, so sums start at zero; registers that were never written cannot be
// read. The registers are named PTX registers, which are invisible to LLVM.
class Accumulator {
 public:
  Accumulator(int m, int n, Where where = Where::here()) : Accumulator(m, n, DType::f32, where) {}
  Accumulator(int m, int n, DType dtype, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }
  DType dtype() const { return dtype_; }
  // Returns wgmma_layout(m, n), which defines the thread that holds each sum.
  RegisterLayout layout(Where where = Where::here()) const {
    AtLine line(where);
    return wgmma_layout(m_, n_);
  }

  // Return or set the columns of each wgmma of a product: n if it is at most 256, otherwise half of n.
  // Fewer columns, which must divide n, make the tensor cores read more, but need fewer registers at a time.
  int wgmma_columns() const { return wgmma_columns_; }
  void set_wgmma_columns(int columns, Where where = Where::here());

  // Makes the next product overwrite the sums. Without it, the first product overwrites and all later ones
  // add, including those of later iterations of a loop: in a loop over tiles, zero the accumulator, or make
  // it inside the loop.
  void zero();
  // Makes the next product add to the contents of the registers.
  void accumulate() { accumulate_ = pred(true); }

  // Returns the named registers of the 64-row block `block`, for instructions that you write yourself: one
  // register for each value of the layout or, in f16, one for every two values (PTX ISA, wgmma.mma_async,
  // "Register Fragments"). Throws Error as load() does.
  Registers registers(int block, Where where = Where::here()) const;

 private:
  friend class detail::WgmmaCall;
  friend class detail::AccumulatorRegisters;

  Registers block_registers(int block) const;
  // Returns the registers of `columns` columns, beginning at `column`.
  Registers block_registers(int block, int column, int columns) const;

  int m_, n_, wgmma_columns_;
  DType dtype_;
  Registers registers_;
  Var<pred> accumulate_;
  std::shared_ptr<detail::AccumulatorState> state_;
};

namespace detail {
TileValues load_accumulator(const Accumulator& from, DType dtype, std::optional<TilePart> part);
void store_accumulator(Accumulator& to, const TileValues& x, std::optional<TilePart> part);
}  // namespace detail

// Returns the elements of an accumulator, or of a part whose rows are multiples of 64 and whose columns are
// multiples of 8. T must be the accumulator's type: f32, f16 or s32. Throws Error if the elements were never
// written, or if a group of products may still be writing them; the error names the group, for which
// wgmma_wait() must be called first.
template <TileElement T>
RegisterTile<T> load(const Accumulator& from, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_accumulator(from, T::dtype, std::nullopt));
}
template <TileElement T>
RegisterTile<T> load(const Accumulator& from, const TilePart& part, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_accumulator(from, T::dtype, part));
}

// Writes an accumulator; the next product adds to these elements. Throws Error while products are in flight,
// and for a tile of another layout that is not a splat.
template <TileElement T>
void store(Accumulator& to, const RegisterTile<T>& x, Where where = Where::here()) {
  AtLine line(where);
  detail::store_accumulator(to, x.values(), std::nullopt);
}
template <TileElement T>
void store(Accumulator& to, const RegisterTile<T>& x, const TilePart& part, Where where = Where::here()) {
  AtLine line(where);
  detail::store_accumulator(to, x.values(), part);
}

}  // namespace ptxbuilder
