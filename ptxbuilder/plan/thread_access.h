// Plans the address at which each access of a thread to shared memory begins. The plan consists of one
// composed layout, and of the parts of the address that depend on the thread and on the access.
#pragma once

#include <optional>
#include <vector>

#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// Converts a layout that counts elements to a layout that counts bytes.
ComposedLayout in_bytes(const ComposedLayout& elements, int element_bytes);

// Changes the order of accesses in some threads. Each thread whose number contains the bit `thread_bit` swaps
// accesses i and i ^ access_bit. Each of the two members has exactly one bit set.
struct Exchange {
  int thread_bit, access_bit;

  // Returns whether the thread swaps accesses.
  bool concerns(int64_t thread) const { return (thread & thread_bit) != 0; }
  // Returns the number of the access that a thread makes in position i.
  int made(int64_t thread, int i) const { return concerns(thread) ? i ^ access_bit : i; }
};

// The addresses in shared memory at which the accesses of threads begin.
class ThreadAccess {
 public:
  // Plans the accesses. Access i of thread t begins at element threads(t) + accesses[i] of the tile, where
  // elements are counted column by column. `memory` maps (row, column) to an element in memory, counted from
  // a start that is aligned to the swizzle's pattern.
  ThreadAccess(const ComposedLayout& memory, int element_bytes, const Layout& threads,
               std::vector<int64_t> accesses);

  int threads() const { return static_cast<int>(of_thread_.size()); }
  int accesses() const { return static_cast<int>(accesses_.size()); }
  // Returns the start of access i of a thread, in bytes from the start of the tile.
  int64_t address(int thread, int i) const;

  // Returns the same accesses with an exchange. Returns nullopt if an XOR with a constant cannot express the
  // exchange, or if the accesses already have an exchange.
  std::optional<ThreadAccess> exchanged(Exchange exchange) const;
  const std::optional<Exchange>& exchange() const { return exchange_; }

  // Separates the parts of an address that depend on the thread and on the access, for code that emits
  // addresses. The address is
  //   swizzle(of_thread + inside[i]) + outside[i].
  // of_thread is the sum of bits[b] over all bits b that are set in the thread's number. If `bits` is not
  // set, of_thread is the offset that memory().layout() yields for the thread's element. If `apart` is true,
  // of_thread and inside[i] have no bit in common (before any exchange), and swizzle(of_thread) ^
  // swizzle(inside[i]) replaces the swizzle of the sum. `taken` contains the bits that are set in
  // swizzle(of_thread) for any thread.
  struct Split {
    std::optional<std::vector<int>> bits;
    std::vector<int64_t> inside, outside;
    bool apart = false;
    int64_t taken = 0;
  };
  const std::optional<Split>& split() const { return split_; }
  const ComposedLayout& memory() const { return memory_; }  // maps (row, column) to a byte
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
  std::vector<int64_t> of_thread_;        // offset of each thread, in elements
  std::vector<int64_t> of_row_, of_col_;  // offsets of rows and columns, in bytes
  std::optional<Exchange> exchange_;
  std::optional<Split> split_;
};

}  // namespace ptxbuilder
