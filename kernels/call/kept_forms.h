// Stored forms of calls that become products and copies. Each form is computed once for all calls that differ
// only in addresses and in values that their words omit, and every call inserts its own addresses.
#pragma once

#include <array>

#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {

// An address in a form encodes which memory of the call it belongs to: addresses in memory i begin at owner
// i's value, which is beyond the size of any memory and has the alignment of the call's own address.
constexpr int kOwnerBits = 44;
constexpr runtime::Address form_address(size_t memory, runtime::Address own) {
  return own == 0 ? 0 : (static_cast<uint64_t>(memory) + 1) << kOwnerBits | own % kTma;
}

// The addresses of one call, indexed by memory.
template <size_t count>
struct CallAddresses {
  std::array<runtime::Address, count> own;

  // Returns a form's memory with the call's address.
  runtime::View operator()(runtime::View memory) const {
    const uint64_t owner = memory.address >> kOwnerBits;
    if (owner != 0) memory.address += own[owner - 1] - form_address(owner - 1, own[owner - 1]);
    return memory;
  }
  // Returns a copy whose source and destination have the call's addresses.
  template <class Copy>
  Copy moved(Copy copy) const {
    copy.from = (*this)(copy.from), copy.to = (*this)(copy.to);
    return copy;
  }
};

template <size_t words, class Form>
class KeptForms {
 public:
  // Returns what make() returns for a call. The result is stored if the call has words, in the format of
  // ByForm. Throws what make() throws.
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
