// Stores calls that have been checked. A call that differs from a stored call only in addresses, the values
// of scalars and the stream skips the checks that do not depend on these. The skipped checks take most of the
// host's time.
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/call/words_hash.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {

// The origin of an argument's value, which is one of the call's sources plus a constant.
struct ArgumentSource {
  size_t source;
  uint64_t more;
};

// The arguments of a launch with the origin of each value. The origin is either a constant or one of the
// call's `sources`, which are addresses and bits of scalars.
class SourcedArguments {
 public:
  // The first sources of every call, which are the number 0 and the address of its workspace.
  static constexpr size_t kNone = 0, kWorkspace = 1;

  SourcedArguments(std::span<const uint64_t> sources, size_t most) : sources_(sources), list_(most) {
    from_.reserve(most);
  }

  // Adds the argument that `make` returns. It is a scalar that has the bits of the source, or memory at an
  // offset from the address in the source. An argument without a source has the same value in all calls of
  // the form.
  template <class Make>
  void add(size_t source, Make&& make) {
    list_.add(std::forward<Make>(make));
    const runtime::Argument& added = list().back();
    const uint64_t value = added.kind == Parameter::Kind::scalar ? added.bits : added.memory.address;
    from_.push_back({source, value - sources_[source]});
  }
  std::span<const runtime::Argument> list() { return list_; }
  const std::vector<ArgumentSource>& from() const { return from_; }

 private:
  std::span<const uint64_t> sources_;
  runtime::ArgumentList list_;
  std::vector<ArgumentSource> from_;
};

// The launches of a call in order; empty if there is nothing to do. Two rules are not checked, so the caller
// must ensure them. The addresses must be aligned like the addresses of the call that was checked, and the
// memory that the call writes must not overlap anything else.
class PreparedCall {
 public:
  // Adds a launch that has been queued before, so that its arguments have been checked. If the options set no
  // grid, the kernel's rule determines the grid, and must not depend on a scalar that has a source. Throws
  // Error when LoadedKernel::prepare() does.
  void add(runtime::LoadedKernel& kernel, runtime::LaunchOptions options, SourcedArguments& arguments,
           Where where);

  bool is_empty() const { return steps_.empty(); }
  // Queues the launches, with the current values of the sources.
  void operator()(std::span<const uint64_t> sources, runtime::Stream stream) const;

 private:
  struct Step {
    runtime::PreparedLaunch launch;
    std::vector<ArgumentSource> from;  // indexed by parameter
  };
  std::vector<Step> steps_;
};

// Returns whether two ranges of memory share no byte.
inline bool lie_apart(const runtime::View& x, const runtime::View& y) {
  return y.address - x.address >= x.bytes && x.address - y.address >= y.bytes;
}

// Returns whether a workspace holds `bytes`, is aligned, and does not overlap the full memory range of any
// operand. This test is quick but strict. If it returns false, check_workspace() must decide.
bool is_sound_workspace(const runtime::View& workspace, size_t bytes,
                        std::initializer_list<runtime::View> operands);

uint64_t next_number_of_calls();  // unique in the process; numbers of destroyed objects are not reused

// Results that were computed for calls, indexed by the form of the call. A form is `words` numbers that
// describe everything about a call except its sources and its stream. The argument `words_of` is a function.
// It is called with a function that it must call for each word, with the word's index, beginning with 0, and
// the word. Any thread may call the functions at any time.
template <size_t words, class Value>
class ByForm {
 public:
  // Returns the value for calls of the form, or nullptr. The value remains valid until the thread's next
  // find(), even after this object is destroyed.
  template <class WordsOf>
  const Value* find(const WordsOf& words_of) {
    // Most calls of a thread have the form of its previous call, so that form is compared first, without the
    // lock. It is compared word by word, because comparing an entire form would have to wait until the new
    // form has been written to memory.
    struct Last {
      uint64_t owner = 0;
      Form form;
      std::shared_ptr<const Value> value;
    };
    thread_local Last last;
    const uint64_t now = number();
    bool is_last = last.owner == now;
    words_of([&](size_t at, uint64_t word) { is_last &= last.form[at] == word; });
    if (is_last) return last.value.get();
    const Form form = form_of(words_of);
    const std::shared_lock lock(mutex_);
    const auto found = known_.find(form);
    if (found == known_.end()) return nullptr;
    last = {now, form, found->second};
    return last.value.get();
  }

  // Returns a number that changes whenever clear() is called.
  uint64_t number() const { return number_.load(std::memory_order_acquire); }

  // Stores a value that was computed when number() returned `number`. If clear() has been called since then,
  // nothing is stored, because the value may depend on the previous kernel.
  template <class WordsOf>
  void add(const WordsOf& words_of, Value value, uint64_t number) {
    auto kept = std::make_shared<const Value>(std::move(value));
    const std::lock_guard lock(mutex_);
    if (number_ != number) return;
    if (known_.size() >= kMost) known_.clear();
    known_.emplace(form_of(words_of), std::move(kept));
  }

  // Discards all values. Must be called when later calls use a different kernel.
  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
    number_.store(next_number_of_calls(), std::memory_order_release);  // invalidates the previous call that
                                                                       // each thread has stored
  }

 private:
  using Form = std::array<uint64_t, words>;
  static constexpr size_t kMost = 1 << 16;  // when there are this many values, all are discarded

  template <class WordsOf>
  static Form form_of(const WordsOf& words_of) {
    Form form = {};
    words_of([&](size_t at, uint64_t word) { form.at(at) = word; });  // throws if there are more than `words`
                                                                      // words
    return form;
  }

  std::atomic<uint64_t> number_ = next_number_of_calls();
  std::shared_mutex mutex_;
  std::unordered_map<Form, std::shared_ptr<const Value>, WordsHash> known_;
};

}  // namespace ptxbuilder::kernels
