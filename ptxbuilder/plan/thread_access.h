// Where each access of a thread to shared memory begins, as a plan: one composed layout, and what of it the
// thread adds and what the access.
#pragma once

#include <optional>
#include <vector>

#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// A layout of elements as one of bytes.
ComposedLayout in_bytes(const ComposedLayout& elements, int element_bytes);

// Threads of which the bit `thread_bit` is set take their accesses that differ in the bit `access_bit` in
// exchanged order. Both are numbers of one bit.
struct Exchange {
  int thread_bit, access_bit;

  bool concerns(int64_t thread) const { return (thread & thread_bit) != 0; }
  // Which of its accesses a thread makes as the i-th.
  int made(int64_t thread, int i) const { return concerns(thread) ? i ^ access_bit : i; }
};

class ThreadAccess {
 public:
  // `memory` is (row, column) -> element, from a start that is aligned to the swizzle's pattern. What
  // `threads` gives for a thread and `accesses` for an access add up to an element, counted down the columns.
  ThreadAccess(const ComposedLayout& memory, int element_bytes, const Layout& threads,
               std::vector<int64_t> accesses);

  int threads() const { return static_cast<int>(of_thread_.size()); }
  int accesses() const { return static_cast<int>(accesses_.size()); }
  // Of the i-th access that a thread makes, in bytes from the start.
  int64_t address(int thread, int i) const;

  // The same with an exchange; none where an exclusive or with a constant does not do it, or there is one
  // already.
  std::optional<ThreadAccess> exchanged(Exchange exchange) const;
  const std::optional<Exchange>& exchange() const { return exchange_; }

  // How thread and access take part in an address, for those who emit it. With a split, it is
  //   swizzle(of_thread + inside[i]) + outside[i],
  // of_thread being the sum of bits[b] where the thread's bit b is set, or without bits what memory() has for
  // the thread; and where no bit meets another, `apart`, swizzle(of_thread) ^ swizzle(inside[i]) in place of
  // the swizzle of the sum. `taken` are the bits that swizzle(of_thread) has in any thread.
  struct Split {
    std::optional<std::vector<int>> bits;
    std::vector<int64_t> inside, outside;
    bool apart = false;
    int64_t taken = 0;
  };
  const std::optional<Split>& split() const { return split_; }
  const ComposedLayout& memory() const { return memory_; }  // (row, column) -> byte
  const Layout& layout_of_threads() const { return threads_; }
  int64_t element_of(int i) const { return accesses_[static_cast<size_t>(i)]; }

 private:
  int64_t linear(int64_t element) const;
  int64_t of_thread(int thread) const { return linear(of_thread_[static_cast<size_t>(thread)]); }
  int64_t of_access(int i) const { return memory_.offset() + linear(element_of(i)); }
  std::optional<Split> make_split() const;

  ComposedLayout memory_;
  Layout threads_;
  std::vector<int64_t> accesses_;
  std::vector<int64_t> of_thread_;        // elements
  std::vector<int64_t> of_row_, of_col_;  // bytes
  std::optional<Exchange> exchange_;
  std::optional<Split> split_;
};

}  // namespace ptxbuilder
