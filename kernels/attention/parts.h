// The parts of a block of queries whose keys several CTAs divide: each CTA stores the sums of its part in
// memory, and the CTA with the last part completes them.
#pragma once

#include <functional>

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/accumulator.h"

namespace ptxbuilder::kernels {

// The parts are added in the order of their keys, so that results are reproducible bit for bit. A CTA waits
// only for CTAs that begin before it, so the grid may have any size. A CTA stores at most two parts: one that
// is not the first part of a head's keys, and the first part of another head's keys. `group`, if above 0, is
// a number of parts: the CTA with the last part of each group adds up that group, and the CTA with the last
// part of all adds up only the groups, so that several CTAs share the addition of large parts. The memory
// belongs to the launch, so two launches that overlap need separate memory. The memory may initially hold
// anything. A 64-bit mark, which memory does not contain by chance, shows that a part is present, and is
// cleared when the part is taken.
class AttentionParts {
 public:
  // Several warpgroups that hold columns of the same rows are numbered from 0.
  AttentionParts(int columns, const AttentionSizes& sizes, gptr<f32> memory, u32 number = 0, int group = 0);

  // Returns the bytes of memory for `ctas` CTAs; a head has `queries` queries.
  static size_t bytes(const AttentionOperation& o, int64_t queries, int64_t ctas);

  // The sums for rows of queries: the greatest score of each row, the sum of its weights relative to the
  // weight of that score, and the sums of weights times values.
  struct Sums {
    RegisterTile<f32> most, total, values;
  };
  // Stores the sums of this part. `most` and `total` have the layout of the accumulator's rows. All threads
  // of the consumer must call it, after wgmma_wait(0).
  void give(const AttentionWork& w, const RegisterTile<f32>& most, const RegisterTile<f32>& total,
            const Accumulator& values) const;
  // Adds up a group if this part is its last. If parts have groups, the consumer of each part must call this
  // after give(). `exponent` turns scores into exponents of two.
  void add_group(const AttentionWork& w, f32 exponent) const;
  // Waits for the other parts, and runs `body` for some rows at a time, beginning at row `first` of the
  // block. The CTA with the last part calls this.
  void complete(const AttentionWork& w, f32 exponent,
                const std::function<void(u32 first, const Sums& sums)>& body) const;
  // complete() processes rows_at_once() rows at a time; is_first_of() returns whether a thread holds a row's
  // first column.
  int rows_at_once() const { return layout().rows(); }
  pred is_first_of(u32 row) const;

 private:
  RegisterLayout layout() const;
  bool has_whole_rows() const;
  u32 rows(const AttentionWork& w) const { return min(w.queries - w.row, kConsumerRows); }
  // Place `n` holds the sums of rows, and a few numbers for each row.
  GlobalTensor<f32, 2> values_of(u32 n, u32 rows) const;
  GlobalTensor<f32, 1> numbers_of(u32 n, u32 rows, int which) const;
  // Groups have their own marks, which follow the marks of all places.
  u32 places() const { return nctaid_x() * kPartsOfCta; }
  gmem mark_of(u32 n) const;
  // Returns the place of a part of the same block of queries.
  u32 place_of(const AttentionWork& w, u32 part) const;
  // Some parts of a block of queries, in the order of their keys, and the position of their first mark.
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
  u32 most_rows_;  // rows of a block
  gptr<f32> values_, numbers_;
  gmem marks_;
};

}  // namespace ptxbuilder::kernels
