#include "ptxbuilder/plan/thread_access.h"

#include <bit>

#include "ptxbuilder/plan/offsets.h"

namespace ptxbuilder {
namespace {

IntTuple scaled(const IntTuple& strides, int64_t by) {
  if (!strides.is_tuple()) return LayoutInteger<int64_t>::multiply(strides.value(), by);
  std::vector<IntTuple> elements;
  for (const IntTuple& e : strides.elements()) elements.push_back(scaled(e, by));
  return IntTuple(std::move(elements));
}

}  // namespace

ComposedLayout in_bytes(const ComposedLayout& elements, int element_bytes) {
  const Layout& layout = elements.layout();
  return {downcast(elements.swizzle(), element_bytes), elements.offset() * element_bytes,
          make_layout(layout.shape(), scaled(layout.stride(), element_bytes))};
}

ThreadAccess::ThreadAccess(const ComposedLayout& memory, int element_bytes, const Layout& threads,
                           std::vector<int64_t> accesses)
    : memory_(in_bytes(memory, element_bytes)),
      threads_(threads),
      accesses_(std::move(accesses)),
      of_thread_(offsets_of(threads)),
      of_row_(offsets_of(memory_.layout()[0])),
      of_col_(offsets_of(memory_.layout()[1])),
      split_(make_split()) {}

int64_t ThreadAccess::linear(int64_t element) const {
  const auto at = static_cast<size_t>(element);
  return of_row_[at % of_row_.size()] + of_col_[at / of_row_.size()];
}

int64_t ThreadAccess::address(int thread, int i) const {
  const int made = exchange_ ? exchange_->made(thread, i) : i;
  const int64_t element = of_thread_[static_cast<size_t>(thread)] + element_of(made);
  return memory_.swizzle()(memory_.offset() + linear(element));
}

std::optional<ThreadAccess::Split> ThreadAccess::make_split() const {
  Split split;
  const int64_t period = memory_.swizzle().period();
  int64_t known = 0;  // bits that are set in any access's part of the address
  for (int i = 0; i < accesses(); ++i) {
    const int64_t offset = of_access(i);
    split.inside.push_back(offset % period);
    split.outside.push_back(offset - offset % period);
    known |= offset % period;
  }
  std::vector<int> bits;
  for (int bit = 1; bit < threads(); bit *= 2) bits.push_back(static_cast<int>(of_thread(bit)));
  bool is_sum = true;
  split.apart = true;
  for (int thread = 0; thread < threads(); ++thread) {
    const int64_t offset = of_thread(thread);
    for (int i = 0; i < accesses(); ++i)
      if (linear(of_thread_[static_cast<size_t>(thread)] + element_of(i)) != offset + linear(element_of(i)))
        return std::nullopt;
    int64_t sum = 0;
    for (size_t b = 0; b < bits.size(); ++b)
      if (thread >> b & 1) sum += bits[b];
    is_sum = is_sum && sum == offset;
    split.apart = split.apart && (offset & known) == 0;
    split.taken |= memory_.swizzle()(offset);
  }
  if (is_sum) split.bits = std::move(bits);
  return split;
}

// An address is T ^ A, which is also the sum of the thread's part T and the access's part A, because T and A
// have no bit in common. The two exchanged accesses differ by a constant D. No thread and no other access has
// the bits of D, so the threads that make the exchange use T + D instead of T.
std::optional<ThreadAccess> ThreadAccess::exchanged(Exchange exchange) const {
  const int other = exchange.access_bit;
  if (exchange_ || !split_ || !split_->bits || !split_->apart || accesses() % (2 * other) != 0 ||
      exchange.thread_bit >= threads())
    return std::nullopt;
  const int64_t difference = of_access(other) - of_access(0);
  if (difference <= 0) return std::nullopt;
  ThreadAccess result = *this;
  Split& split = *result.split_;
  for (int i = 0; i < accesses(); ++i) {
    const int64_t offset = of_access(i & ~other);
    if ((offset & difference) != 0 || of_access(i | other) != offset + difference) return std::nullopt;
    auto at = static_cast<size_t>(i);
    split.inside[at] |= split.outside[at] & difference;
    split.outside[at] &= ~difference;
  }
  const auto bit = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(exchange.thread_bit)));
  (*split.bits)[bit] += static_cast<int>(difference);
  for (int thread = 0; thread < threads(); ++thread) {
    const int64_t offset = of_thread(thread);
    if ((offset & difference) != 0) return std::nullopt;
    split.taken |= memory_.swizzle()(exchange.concerns(thread) ? offset | difference : offset);
  }
  result.exchange_ = exchange;
  return result;
}

}  // namespace ptxbuilder
