// Computes the rows and columns of a thread's values on the device, and provides scratch memory.
#pragma once

#include "ptxbuilder/plan/register_layout.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// Returns the number of this thread in its warpgroup, 0 to 127. Throws Error if the CTA has no roles and does
// not have 128 threads.
u32 thread_in_warpgroup();

// Computes the row and the column of each value of this thread. The part that depends on the thread is
// computed only once.
class Places {
 public:
  Places(const RegisterLayout& layout);

  u32 row(int value) const { return place(rows_, row_of_thread_, value, true); }
  u32 col(int value) const { return place(cols_, col_of_thread_, value, false); }

 private:
  u32 place(const std::optional<Additive>& sum, u32 of_thread, int value, bool row) const;

  RegisterLayout layout_;
  std::optional<Additive> rows_, cols_;
  u32 thread_, row_of_thread_, col_of_thread_;
};

// Runs `body` in only one of the threads that hold the same elements.
void once_for_each_element(const RegisterLayout& layout, const std::function<void()>& body);

// Returns the address of `bytes` bytes of shared memory for this warpgroup, aligned to 16 bytes. The next
// call may return the same memory, so call sync_warpgroup() before you write to the memory, and again before
// you read the data.
smem scratch(int bytes);

}  // namespace ptxbuilder::detail
