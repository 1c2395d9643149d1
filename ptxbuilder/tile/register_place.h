// Where the elements of a thread's values are, on the device: rows and columns, and places in memory.
#pragma once

#include "ptxbuilder/tile/kernel.h"
#include "ptxbuilder/tile/register_layout.h"

namespace ptxbuilder::detail {

// The number of this thread in its warpgroup, 0 to 127. Throws Error where a CTA without roles has other than
// 128 threads.
u32 thread_in_warpgroup(Where where);

// A sum over the thread's bits. I is u32, or int64_t on the host.
template <class I>
I sum_of_bits(I thread, const std::array<int, 7>& bits) {
  I sum = 0;
  for (size_t first = 0, next; first < bits.size(); first = next) {
    // As many bits at once as have doubling strides.
    for (next = first + 1; next < bits.size() && bits[next] == 2 * bits[next - 1];) ++next;
    if (bits[first] == 0) continue;
    I digit = (thread >> static_cast<uint32_t>(first)) & ((1u << (next - first)) - 1);
    sum = sum + digit * static_cast<uint32_t>(bits[first]);
  }
  return sum;
}

// The row and the column of each value of a thread. What the thread adds is computed once.
template <class I>
class PlacesOf {
 public:
  PlacesOf(const RegisterLayout& layout, I thread)
      : layout_(layout),
        rows_(additive_rows(layout)),
        cols_(additive_cols(layout)),
        thread_(thread),
        row_of_thread_(0),
        col_of_thread_(0) {
    if (rows_) row_of_thread_ = sum_of_bits(thread_, rows_->bits);
    if (cols_) col_of_thread_ = sum_of_bits(thread_, cols_->bits);
  }

  I row(int value) const { return place(rows_, row_of_thread_, value, true); }
  I col(int value) const { return place(cols_, col_of_thread_, value, false); }

 private:
  I place(const std::optional<Additive>& sum, I of_thread, int value, bool row) const {
    if (sum) return of_thread + sum->values[static_cast<size_t>(value)];
    std::array<int, 7> bits;
    for (size_t b = 0; b < bits.size(); ++b) bits[b] = layout_.of_thread(1 << b);
    I element = sum_of_bits(thread_, bits) + layout_.of_value(value);
    return row ? element / layout_.cols() : element % layout_.cols();
  }

  RegisterLayout layout_;
  std::optional<Additive> rows_, cols_;
  I thread_, row_of_thread_, col_of_thread_;
};

// Those of this thread.
class Places : public PlacesOf<u32> {
 public:
  Places(const RegisterLayout& layout, Where where) : PlacesOf(layout, thread_in_warpgroup(where)) {}
};

// Makes one thread of those that hold the same elements run `body`.
void once_for_each_element(const RegisterLayout& layout, const std::function<void()>& body, Where where);

// `bytes` of shared memory for each warpgroup of the role, 16-byte aligned, which the next call may give
// again: sync_warpgroup() stands before writing and between writing and reading.
smem scratch(int bytes, Where where);

}  // namespace ptxbuilder::detail
