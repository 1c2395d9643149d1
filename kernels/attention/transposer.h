// Transposes blocks of e4m3 values, because products of e4m3 read values along the keys. The transposition
// permutes the keys, and weights have to follow the same permutation.
#pragma once

#include <numeric>

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// A warpgroup transposes the blocks in the order in which TMA loads them, and fills the ring that consumers
// read.
//
// An element of ldmatrix.trans is a pair of adjacent columns of V. Lane 4 g + t receives columns 2 g and 2 g
// + 1 of keys 2 t and 2 t + 1. Two matrices of 8 keys each give the lane four keys, which become four
// adjacent bytes in a row of V^T:
//
//   place in a row of V^T   0 1 2 3   4 5  6  7   8 9 10 11  12 13 14 15
//   key                     0 1 8 9   2 3 10 11   4 5 12 13   6  7 14 15
//
// These are the keys whose scores one lane of a consumer holds (see in_transposed_order()).
class ValueTransposer {
 public:
  explicit ValueTransposer(const AttentionRoles& roles)
      : to_(roles.V),
        from_(SharedRegion(roles.value_cache->tile), DType::f16, {to_.cols(), to_.rows() / 2},
              roles.value_cache->tile.swizzle(), roles.value_cache->tile.stages()),
        loaded_(roles.value_cache->ring.consumer()),
        filled_(roles.values.producer()),
        thread_(tid_x() & (kThreads - 1)),
        loads_(load_copy()),
        first_stores_(store_copy(0)),
        second_stores_(store_copy(1)),
        first_(select((thread_ & 16) == 0, u32(0x6420), u32(0x7531))),
        second_(first_ ^ 0x1111) {}

  void fill(const AttentionWork&, u32) {
    const Stage from = region("wait for values", [&] { return loaded_.wait(); });
    const Stage to = region("wait", [&] { return filled_.acquire(); });
    filled_.fills(to, to_);
    region("transpose", [&] {
      const int at_once = std::gcd(loads_.accesses(), kAtOnce);
      for (int i = 0; i < loads_.accesses(); i += at_once)
        transpose(from_[from.index()], to_[to.index()].address(), i, at_once);
    });
    bar_warp_sync(0xffffffff);  // all lanes must have read the stage before one lane releases it
    loaded_.release(from);
    filled_.commit(to);
  }

 private:
  static constexpr int kThreads = 128, kWarps = 4;
  static constexpr int kKeys = 16, kColumns = 32;  // keys and columns per ldmatrix.x4
  static constexpr int kAtOnce = 4;  // number of ldmatrix.x4 issued together; each loads 4 registers

  // Loads with `count` ldmatrix.x4 instructions, beginning with number `i`, and stores the results
  // transposed.
  void transpose(const TileView& from, smem to, int i, int count) const {
    const std::vector<u32> words = load(loads_, from, thread_, i, count);
    const auto store_columns = [&](const TiledCopy& stores, u32 bytes) {
      std::vector<u32> columns;
      for (size_t w = 0; w < words.size(); w += 2)
        columns.push_back(instruction<"prmt.b32">(words[w], words[w + 1], bytes));
      const int each = loads_.accesses() / stores.accesses();
      store(stores, to, thread_, columns, i / each, count / each);
    };
    store_columns(first_stores_, first_);
    store_columns(second_stores_, second_);
  }

  // These functions divide a block among the warps. They divide it by keys, in units of an ldmatrix, and also
  // by columns if there are fewer units of keys than warps.
  int warps_along_keys() const { return std::gcd(to_.cols() / kKeys, kWarps); }
  int warps_along_columns() const { return kWarps / warps_along_keys(); }
  int units_of_keys() const { return to_.cols() / kKeys / warps_along_keys(); }
  int units_of_columns() const { return to_.rows() / kColumns / warps_along_columns(); }

  // Returns the copy that loads a block. It numbers elements along the keys first, and then along the pairs
  // of columns.
  TiledCopy load_copy() const {
    const int keys = to_.cols(), along = warps_along_keys(), across = warps_along_columns();
    const int pairs = kColumns / 2 * keys;
    return {CopyAtom::ldmatrix(4, true), DType::f16,
            make_layout({{4, 8, along, across}, {2, 2, 2, units_of_keys(), units_of_columns()}},
                        {{2, keys, kKeys, pairs}, {1, 8, 8 * keys, kKeys * along, pairs * across}}),
            from_.layout()};
  }
  // Returns one of the two copies that store a block. In each copy, a lane stores either even or odd columns.
  // Lanes of the lower eight columns and of the upper eight columns store columns of opposite parity, to
  // avoid bank conflicts between rows of V^T.
  TiledCopy store_copy(int odd) const {
    const int columns = to_.rows(), along = warps_along_keys(), across = warps_along_columns();
    const ComposedLayout& all = to_.layout();
    const ComposedLayout from_first(all.swizzle(), all.offset() + to_.linear_offset(odd, 0), all.layout());
    return {CopyAtom::stmatrix(units_of_keys() % 2 == 0 ? 4 : 2), DType::e4m3,
            make_layout({{4, 4, 2, along, across}, {4, 2, units_of_keys(), units_of_columns()}},
                        {{4 * columns, 2, 9 - 2 * odd, kKeys * columns, kColumns},
                         {columns, 16, kKeys * along * columns, kColumns * across}}),
            from_first};
  }

  SharedTile to_, from_;  // an element of from_ is a pair of columns
  Consumer loaded_;
  Producer filled_;
  u32 thread_;
  TiledCopy loads_, first_stores_, second_stores_;
  u32 first_,
      second_;  // prmt selectors: the bytes of two registers that the first and the second store write
};

// Returns a tile of weights as operand A in registers, with the keys in the transposer's order.
inline RegisterTile<f32> in_transposed_order(const RegisterTile<f32>& scores) {
  return RegisterTile<f32>::of(wgmma_8bit(scores.cols()), [&](int i) {
    const int pair = i % 2, keys = i / 2 % 2, row = i / 4 % 2, matrices = i / 8;
    return scores.value(matrices * 8 + keys * 4 + row * 2 + pair);
  });
}

}  // namespace ptxbuilder::kernels
