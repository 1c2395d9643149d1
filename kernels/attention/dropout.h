// Dropout of attention weights. Whether a weight is kept depends only on the seed and on the weight's
// position, and not on the choice of a kernel. The forward and the backward pass therefore keep the same
// weights.
#pragma once

#include <algorithm>
#include <cmath>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/philox.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// Draws 16 random bits for each pair of a query and a key of a head. Queries and keys are counted from the
// beginning of the batch or packed sequence. Four pairs share a call of Philox: queries i and i + 8 with keys
// j and j + 8, where bit 3 of i and j is 0. A thread holds all four pairs, both in a tile of scores and in
// the transposed tile. `Word` is u32 in kernels and uint32_t on the host.
template <class Word>
class DropoutBits {
 public:
  // `seed` holds 64 bits of the seed and then 64 bits of the offset, each with the lower word first.
  DropoutBits(const std::array<Word, 4>& seed, Word batch, Word head)
      : state_(philox4x32<Word>({seed[2], seed[3], head, batch}, {seed[0], seed[1]})) {}
  // Returns a word for query i and one for query i + 8. The lower half of a word belongs to key j, and the
  // upper half to key j + 8.
  std::array<Word, 2> of(Word i, Word j) const {
    return philox2x32<Word>({state_[0] + i, state_[1] + j}, state_[2]);
  }

 private:
  std::array<Word, 4> state_;
};

// Returns the number d such that a weight is dropped if its 16 bits are less than d. On average d of 65,536
// weights are dropped, but never all.
inline uint32_t dropped_of_65536(float dropout) {
  return std::min(static_cast<uint32_t>(std::lrint(dropout * 65536)), 65535u);
}

// Computes on the host whether kernels keep a weight.
inline bool dropout_keeps(const std::array<uint32_t, 4>& seed, float dropout, uint32_t batch, uint32_t head,
                          uint32_t query, uint32_t key) {
  const uint32_t word = DropoutBits<uint32_t>(seed, batch, head).of(query & ~8u, key & ~8u)[query >> 3 & 1];
  return (word >> (key >> 3 & 1) * 16 & 0xffff) >= dropped_of_65536(dropout);
}

// Records which of a thread's weights in a tile are kept, with one bit for each.
class KeptWeights {
 public:
  explicit KeptWeights(RegisterLayout layout)
      : layout_(std::move(layout)), words_(static_cast<size_t>(layout_.values() + 31) / 32, u32(0)) {}

  // Records whether the thread's element is kept. `row` and `column` are its position in thread 0, which
  // identifies the element in every thread.
  void add(int row, int column, pred is_kept) {
    const int i = element(row, column);
    u32& word = words_[static_cast<size_t>(i) / 32];
    word = select(is_kept, word | u32(bit(i)), word);
  }
  // Returns `x`, which is part `part` of the tile, with the dropped elements replaced with 0.
  RegisterTile<f32> keep(const RegisterTile<f32>& x, const TilePart& part) const {
    return RegisterTile<f32>::of(x.layout(), [&](int i) {
      const int at = element(part.row + x.layout().row(0, i), part.col + x.layout().col(0, i));
      return select((words_[static_cast<size_t>(at) / 32] & u32(bit(at))) != u32(0), x.value(i), f32(0));
    });
  }
  RegisterTile<f32> keep(const RegisterTile<f32>& x) const { return keep(x, {0, 0, x.rows(), x.cols()}); }

 private:
  static uint32_t bit(int i) { return 1u << i % 32; }
  int element(int row, int column) const {
    for (int i = 0; i < layout_.values(); ++i)
      if (layout_.row(0, i) == row && layout_.col(0, i) == column) return i;
    throw Error("dropout: the four pairs of a call are not one thread's, in " + layout_.describe());
  }

  RegisterLayout layout_;
  std::vector<u32> words_;
};

// Dropout of one head's weights in a kernel.
class Dropout {
 public:
  // Reads the kernel's parameters `dropout` and `dropout_seed`.
  Dropout(const Parameters& p, u32 batch, u32 head)
      : bits_(words(p.get<gptr<u32>>("dropout_seed")), batch, head),
        dropped_(dropped(p)),
        factor_(factor(p)) {}

  // Returns the factor that multiplies kept weights, so that the expected sum of weights is preserved.
  f32 factor() const { return factor_; }
  static f32 factor(const Parameters& p) { return f32(65536.f) / f32(u32(65536) - dropped(p)); }

  // Returns which weights of a tile are kept. The tile begins at the given query and key, which must be
  // multiples of 16. Its rows are queries, or keys if the tile is `transposed`. The result occupies only one
  // bit of a register for each weight, so it can be computed long before the weights are available.
  KeptWeights kept(const RegisterLayout& layout, u32 first_query, u32 first_key, bool transposed) const {
    const RegisterTile<u32> rows = row_index(layout) + (transposed ? first_key : first_query),
                            columns = col_index(layout) + (transposed ? first_query : first_key);
    KeptWeights kept(layout);
    for (int i = 0; i < layout.values(); ++i) {
      const int row = layout.row(0, i), column = layout.col(0, i);
      if ((row | column) & 8) continue;
      const u32 down = rows.value(i), right = columns.value(i);
      const std::array<u32, 2> words = transposed ? bits_.of(right, down) : bits_.of(down, right);
      for (const int below : {0, 8})
        for (const int beside : {0, 8}) {
          const u32 word = words[static_cast<size_t>(transposed ? beside : below) / 8];
          const bool is_upper = (transposed ? below : beside) != 0;
          kept.add(row + below, column + beside, (is_upper ? word : word << 16) >= dropped_ << 16);
        }
    }
    return kept;
  }

 private:
  static u32 dropped(const Parameters& p) {
    return min(instruction<"cvt.rni.u32.f32">(p.get<f32>("dropout") * 65536.f), u32(65535));
  }
  static std::array<u32, 4> words(gptr<u32> seed) {
    return {u32(seed[0]), u32(seed[1]), u32(seed[2]), u32(seed[3])};
  }

  DropoutBits<u32> bits_;
  u32 dropped_;
  f32 factor_;
};

}  // namespace ptxbuilder::kernels
