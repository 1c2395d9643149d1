// Computes the addresses of a ThreadAccess: on the device, to emit accesses, and on the host, to record them.
#pragma once

#include <map>
#include <span>

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder::detail {

// Returns the sum of bits[b] over all bits b that are set in `thread`. I is Index or, on the host, int64_t.
template <class I>
I sum_of_bits(const I& thread, std::span<const int> bits) {
  using N = LayoutInteger<I>;
  I sum(0);
  for (size_t first = 0, next; first < bits.size(); first = next) {
    // Each iteration handles a run of bits in which each bit has twice the stride of the previous bit.
    for (next = first + 1; next < bits.size() && bits[next] == 2 * bits[next - 1];) ++next;
    if (bits[first] == 0) continue;
    I digit =
        N::bit_and(N::shift_right(thread, static_cast<int>(first)), I((int64_t{1} << (next - first)) - 1));
    sum = N::add(sum, N::multiply(digit, I(bits[first])));
  }
  return sum;
}

// Computes the addresses of one thread's accesses, relative to `start`. A is smem and I is Index, or both are
// int64_t. The part that depends on the thread is computed only once.
template <class A, class I>
class ThreadAddresses {
 public:
  ThreadAddresses(A start, const ThreadAccess& access, I thread)
      : start_(start), access_(access), thread_(thread), of_thread_(0) {
    if (!access.split()) return;
    of_thread_ = access.split()->bits ? sum_of_bits(thread, *access.split()->bits)
                                      : on(access.memory().layout())(on(access.layout_of_threads())(thread));
    if (access.split()->apart) of_thread_ = access.memory().swizzle().apply(of_thread_);
  }

  // Returns the address of the thread's access number i.
  A operator[](int i) {
    const XorSwizzle& swizzle = access_.memory().swizzle();
    if (!access_.split()) {
      const I element = N::add(on(access_.layout_of_threads())(thread_), I(access_.element_of(i)));
      const I linear = N::add(I(access_.memory().offset()), on(access_.memory().layout())(element));
      return moved(start_, swizzle.apply(linear));
    }
    const ThreadAccess::Split& split = *access_.split();
    const int64_t inside = split.inside[static_cast<size_t>(i)],
                  outside = split.outside[static_cast<size_t>(i)];
    if (!split.apart) return moved(moved(start_, swizzle.apply(N::add(of_thread_, I(inside)))), I(outside));
    // The bits that are known on the host can simply be added, except for those that the thread's part may
    // also set.
    const int64_t offset = swizzle(inside), met = offset & split.taken;
    auto base = bases_.find(met);
    if (base == bases_.end()) base = bases_.emplace(met, moved(start_, N::bit_xor(of_thread_, I(met)))).first;
    return moved(base->second, I(offset - met + outside));
  }

 private:
  using N = LayoutInteger<I>;

  static BasicLayout<I> on(const Layout& layout) {
    if constexpr (std::same_as<I, Index>)
      return to_device(layout);
    else
      return layout;
  }

  static A moved(A from, const I& bytes) {
    if (N::known(bytes) == 0) return from;
    if constexpr (std::same_as<I, Index>)
      return from + bytes.value();
    else
      return from + bytes;
  }

  A start_;
  const ThreadAccess& access_;
  I thread_, of_thread_;
  std::map<int64_t, A> bases_;  // base addresses, indexed by the bits that are combined with exclusive or
};

}  // namespace ptxbuilder::detail
