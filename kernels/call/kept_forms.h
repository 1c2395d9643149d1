// Stores the forms of calls that consist of products and copies. A form is computed once for all calls that
// have the same words. These calls differ only in addresses and in values that the words omit, and each call
// inserts its own addresses into the form.
#pragma once

#include <array>

#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {

// Returns the address that stands for memory number `memory` of a call in the call's form. The number of the
// memory is in its high bits, so that no offset within a memory can change it. The low bits are those of
// `own`, the call's own address, so that both addresses have the same alignment.
constexpr int kOwnerBits = 44;
constexpr runtime::Address form_address(size_t memory, runtime::Address own) {
  return own == 0 ? 0 : (static_cast<uint64_t>(memory) + 1) << kOwnerBits | own % kTma;
}

// The addresses of one call, indexed by the numbers of its memories.
template <size_t count>
struct CallAddresses {
  std::array<runtime::Address, count> own;

  // Converts memory in the form to the call's memory.
  runtime::View operator()(runtime::View memory) const {
    const uint64_t owner = memory.address >> kOwnerBits;
    if (owner != 0) memory.address += own[owner - 1] - form_address(owner - 1, own[owner - 1]);
    return memory;
  }
  // Converts the source and the destination of a copy in the form to the call's memory.
  template <class Copy>
  Copy moved(Copy copy) const {
    copy.from = (*this)(copy.from), copy.to = (*this)(copy.to);
    return copy;
  }
};

template <size_t words, class Form>
class KeptForms {
 public:
  // Returns the result of make() for a call. If `has_words` is true, the result is stored, and is returned
  // for later calls with the same words. `words_of` enumerates the words of the call, as for ByForm. Throws
  // what make() throws.
  template <class WordsOf, class Make>
  std::shared_ptr<const Form> get(bool has_words, const WordsOf& words_of, const Make& make) {
    if (has_words)
      if (const std::shared_ptr<const Form>* known = known_.find(words_of)) return *known;
    const uint64_t number = known_.number();
    auto made = std::make_shared<const Form>(make());
    if (has_words) known_.add(words_of, made, number);
    return made;
  }

 private:
  ByForm<words, std::shared_ptr<const Form>> known_;
};

}  // namespace ptxbuilder::kernels
