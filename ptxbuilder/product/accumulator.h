// Defines accumulators for the tensor cores: tiles in named PTX registers, to which products are added.
#pragma once

#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder {

namespace detail {
class WgmmaCall;
class AccumulatorRegisters;
}  // namespace detail

// A tile of m x n elements in f32, f16 or s32, which one warpgroup holds in wgmma_layout(m, n). m must be a
// multiple of 64, and n a multiple of 8 up to 256; for s32, an n of 32 or more must be a multiple of 16. An n
// above 256, up to 512, must be twice a valid width; two wgmmas then compute half of the columns each. The
// first product overwrites the registers, so sums start at zero. Registers that were never written cannot be
// read. The registers are named PTX registers, which are invisible to LLVM.
class Accumulator {
 public:
  Accumulator(int m, int n, Where where = Where::here()) : Accumulator(m, n, DType::f32, where) {}
  Accumulator(int m, int n, DType dtype, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }
  DType dtype() const { return dtype_; }
  // Returns wgmma_layout(m, n), which maps each thread to the sums that it holds.
  RegisterLayout layout(Where where = Where::here()) const {
    AtLine line(where);
    return wgmma_layout(m_, n_);
  }

  // Return or set the number of columns that each wgmma of a product computes. The default is n if n is at
  // most 256, and otherwise half of n. The number must divide n. If it is smaller, the tensor cores read more
  // data, but fewer registers are needed at a time.
  int wgmma_columns() const { return wgmma_columns_; }
  void set_wgmma_columns(int columns, Where where = Where::here());

  // Makes the next product overwrite the sums. Without this call, only the first product overwrites the sums,
  // and all later products add to the sums, even in later iterations of a loop. In a loop over tiles, zero
  // the accumulator for each tile, or make the accumulator inside the loop.
  void zero();
  // Makes the next product add to the current contents of the registers.
  void accumulate() { accumulate_ = pred(true); }

  // Returns the named registers of one block of 64 rows, for instructions that you write yourself. There is
  // one register for each value of the layout or, in f16, one for every two values (PTX ISA, wgmma.mma_async,
  // "Register Fragments"). Throws Error under the same conditions as load().
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

// Return the elements of an accumulator, or of a part of an accumulator. The rows of a part must be multiples
// of 64, and its columns multiples of 8. T must be the accumulator's type: f32, f16 or s32. Both functions
// throw Error if the elements were never written. If a group of products may still be writing the elements,
// the functions throw an Error that names the group; call wgmma_wait() first.
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

// Write a tile to an accumulator, or to a part of an accumulator. The next product adds to these elements.
// Both functions throw Error while products are in flight, and if the tile has another layout and is not a
// splat.
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
