// CTAs divide the keys of a block of queries: each leaves the sums of its part in memory, and the one of the
// last part completes them.
#pragma once

#include <functional>

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/accumulator.h"

namespace ptxbuilder::kernels {

// The parts are added in the order of their keys, so that results repeat bit for bit. A CTA waits only for
// those that begin before it, so that the grid may be of any size. It leaves two parts at most: one
// that is not the first of a head's keys, and the first of another's.
//
// The memory is the launch's: two launches that overlap need two. It may hold anything before. A mark of 64
// bits, which memory does not hold by chance, says that a part is there, and is gone when it is taken.
class AttentionParts {
 public:
  AttentionParts(const AttentionOperation& operation, const AttentionSizes& sizes,
                 const Parameters& parameters);

  // Gives the bytes of memory for so many CTAs; a head has `queries`.
  static size_t bytes(int64_t queries, int64_t ctas, int value_depth);

  // They are of rows of queries: the greatest score of each row, the sum of its weights as parts of that
  // score's, and the sums of weights by values.
  struct Sums {
    RegisterTile<f32> most, total, values;
  };
  // Leaves those of this part. `most` and `total` are in the layout of the accumulator's rows. All threads of
  // the consumer call it, after wgmma_wait(0).
  void give(const AttentionWork& w, const RegisterTile<f32>& most, const RegisterTile<f32>& total,
            const Accumulator& values) const;
  // The CTA of the last part calls it: it waits for the others, and runs `body` for some rows at a time, from
  // `first` of the block on. `exponent` makes powers of two of scores.
  void complete(const AttentionWork& w, f32 exponent,
                const std::function<void(u32 first, const Sums& sums)>& body) const;
  // complete() takes so many rows at a time, and this says whether the thread has the first column of one.
  int rows_at_once() const { return layout().rows(); }
  pred is_first_of(u32 row) const;

 private:
  RegisterLayout layout() const;
  bool has_whole_rows() const;
  u32 rows(const AttentionWork& w) const { return min(sizes_.queries - w.row, kConsumerRows); }
  // The place `n` has the sums of rows, and numbers, one for each row.
  GlobalTensor<f32, 2> values_of(const AttentionWork& w, u32 n) const;
  GlobalTensor<f32, 1> numbers_of(const AttentionWork& w, u32 n, int which) const;
  gmem mark_of(u32 n) const;
  // It gives the place of a part of the same block of queries.
  u32 place_of(const AttentionWork& w, u32 part) const;
  void wait(const AttentionWork& w) const;

  const AttentionSizes& sizes_;
  int columns_;
  u32 most_rows_;  // of a block
  gptr<f32> values_, numbers_;
  gmem marks_;
};

}  // namespace ptxbuilder::kernels
