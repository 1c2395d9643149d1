// Adds up the parts of a block of queries when several CTAs divide its keys. Each CTA stores the sums of its
// part in memory, and the CTA with the last part completes the result.
#pragma once

#include <functional>

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/accumulator.h"

namespace ptxbuilder::kernels {

// Parts are added in the order of their keys, so that results are reproducible bit for bit. A CTA waits only
// for CTAs with lower numbers, so the grid may have any size. A CTA stores at most two parts: a part of one
// head that is not the head's first, and the first part of another head. If `group` is not 0, parts form
// groups of this size: the CTA with the last part of a group adds up the group, and the CTA with the very
// last part adds up only the groups. Several CTAs thus share the addition of large parts. Launches that
// overlap need separate memory. Its initial contents do not matter, because a 64-bit mark, which memory does
// not contain by chance, shows that a part is present, and the CTA that reads the part clears its mark.
class AttentionParts {
 public:
  // `columns` is the number of columns that this warpgroup holds. If several warpgroups hold columns of the
  // same rows, `number` tells them apart, starting at 0.
  AttentionParts(int columns, const AttentionSizes& sizes, gptr<f32> memory, u32 number = 0, int group = 0);

  // Returns the size of the memory in bytes, for `ctas` CTAs and heads of `queries` queries.
  static size_t bytes(const AttentionOperation& o, int64_t queries, int64_t ctas);

  // The sums for rows of queries. They are the largest score (`most`), the sum of the weights relative to the
  // weight of this score (`total`), and the sums of weights times values.
  struct Sums {
    RegisterTile<f32> most, total, values;
  };
  // Stores the sums of this part. `most` and `total` have the layout of the accumulator's rows. All threads
  // of the consumer must call this function, after wgmma_wait(0).
  void give(const AttentionWork& w, const RegisterTile<f32>& most, const RegisterTile<f32>& total,
            const Accumulator& values) const;
  // Adds up a group if this part is the last of the group. If parts have groups, the consumer of every part
  // must call this function after give(). `exponent` is the factor that turns scores into exponents of two.
  void add_group(const AttentionWork& w, f32 exponent) const;
  // Waits for the other parts, and runs `body` for rows_at_once() rows at a time, beginning at row `first` of
  // the block. The CTA with the last part calls this function.
  void complete(const AttentionWork& w, f32 exponent,
                const std::function<void(u32 first, const Sums& sums)>& body) const;
  // rows_at_once() returns how many rows complete() processes at a time. is_first_of() returns whether the
  // thread holds the first column of a row.
  int rows_at_once() const { return layout().rows(); }
  pred is_first_of(u32 row) const;

 private:
  RegisterLayout layout() const;
  bool has_whole_rows() const;
  u32 rows(const AttentionWork& w) const { return min(w.queries - w.row, kConsumerRows); }
  // The memory is divided into places. These functions return the sums in place `n`, and the numbers that it
  // holds for each row.
  GlobalTensor<f32, 2> values_of(u32 n, u32 rows) const;
  GlobalTensor<f32, 1> numbers_of(u32 n, u32 rows, int which) const;
  // The marks of groups follow the marks of all places.
  u32 places() const { return nctaid_x() * kPartsOfCta; }
  gmem mark_of(u32 n) const;
  // Returns the place of another part of the same block of queries.
  u32 place_of(const AttentionWork& w, u32 part) const;
  // A selection of the parts of a block of queries, in the order of their keys. `number` returns the number
  // of the i-th part, and `first_mark` is the position of the marks.
  struct Range {
    u32 count;
    std::function<u32(u32 i)> number;
    u32 first_mark;
  };
  void wait(const AttentionWork& w, const Range& parts) const;
  void mark(u32 n) const;
  void add(const AttentionWork& w, const Range& parts, f32 exponent,
           const std::function<void(u32 first, const Sums& sums)>& body) const;

  const AttentionSizes& sizes_;
  static constexpr int kPartsOfCta = 2;
  int columns_, group_;
  u32 most_rows_;  // maximum number of rows in a block
  gptr<f32> values_, numbers_;
  gmem marks_;
};

}  // namespace ptxbuilder::kernels
