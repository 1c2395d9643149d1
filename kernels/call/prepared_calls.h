// Calls that were made before. A call that differs only in addresses, in the values of scalars and in the
// stream skips the checks that these do not affect, which take most of the host's time.
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

// The source of an argument's value: the value is one of the call's sources plus a number.
struct ArgumentSource {
  size_t source;
  uint64_t more;
};

// The arguments of a launch with the source of each value, which is one of the call's `sources` (addresses
// and bits of scalars) or none of them.
class SourcedArguments {
 public:
  // The first sources of every call: the number 0, and the address of its workspace.
  static constexpr size_t kNone = 0, kWorkspace = 1;

  SourcedArguments(std::span<const uint64_t> sources, size_t most) : sources_(sources), list_(most) {
    from_.reserve(most);
  }

  // Adds what `make` returns: a scalar, whose bits are the source's, or memory at an offset from the source's
  // address. An argument without a source has the same value in all calls of the form.
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

// The launches of a call, in their order; empty if there is nothing to do. The caller must make sure that the
// addresses are aligned like those of the call that was checked, and that what the call writes does not
// overlap anything else, since neither is checked.
class PreparedCall {
 public:
  // Adds a launch that was queued, which means that its arguments were checked. Without a grid, it uses the
  // grid of the kernel's rule, which must not depend on a scalar that has a source. Throws Error like
  // LoadedKernel::prepare().
  void add(runtime::LoadedKernel& kernel, runtime::LaunchOptions options, SourcedArguments& arguments,
           Where where);

  bool is_empty() const { return steps_.empty(); }
  // Queues the launches, with the current values of the sources.
  void operator()(std::span<const uint64_t> sources, runtime::Stream stream) const;

 private:
  struct Step {
    runtime::PreparedLaunch launch;
    std::vector<ArgumentSource> from;  // indexed with the parameter
  };
  std::vector<Step> steps_;
};

// Returns whether two memories share no byte.
inline bool lie_apart(const runtime::View& x, const runtime::View& y) {
  return y.address - x.address >= x.bytes && x.address - y.address >= y.bytes;
}

// Returns whether a workspace, with `bytes` used, is large enough, aligned, and separate from the operands'
// memory as a whole. If it returns false, check_workspace() decides.
bool is_sound_workspace(const runtime::View& workspace, size_t bytes,
                        std::initializer_list<runtime::View> operands);

uint64_t next_number_of_calls();  // unique among all objects, including past ones

// The results found for calls, indexed with their form: `words` numbers that describe everything about a call
// except its sources and its stream. A `words_of` function is called with a function that takes the index of
// each word, beginning with 0, and the word. Any thread may call all functions at any time.
template <size_t words, class Value>
class ByForm {
 public:
  // Returns the value for calls of that form, or nullptr. It remains valid until the thread's next find(),
  // even after the end of this object.
  template <class WordsOf>
  const Value* find(const WordsOf& words_of) {
    // Most calls of a thread are like its previous one, which is compared first, without the lock and word by
    // word: comparing an entire form would have to wait until the form has been written.
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

  // Returns a number that changes with each clear().
  uint64_t number() const { return number_.load(std::memory_order_acquire); }

  // Stores what was found for a call when number() returned `number`. Nothing is stored if clear() was called
  // since then, because the value may depend on the previous kernel.
  template <class WordsOf>
  void add(const WordsOf& words_of, Value value, uint64_t number) {
    auto kept = std::make_shared<const Value>(std::move(value));
    const std::lock_guard lock(mutex_);
    if (number_ != number) return;
    if (known_.size() >= kMost) known_.clear();
    known_.emplace(form_of(words_of), std::move(kept));
  }

  // Discards all values, because calls use another kernel from then on.
  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
    number_.store(next_number_of_calls(), std::memory_order_release);  // makes threads discard their previous
                                                                       // calls
  }

 private:
  using Form = std::array<uint64_t, words>;
  static constexpr size_t kMost = 1 << 16;  // at this number, all values are discarded

  template <class WordsOf>
  static Form form_of(const WordsOf& words_of) {
    Form form = {};
    words_of([&](size_t at, uint64_t word) { form.at(at) = word; });  // `words` must be the number of words
    return form;
  }

  std::atomic<uint64_t> number_ = next_number_of_calls();
  std::shared_mutex mutex_;
  std::unordered_map<Form, std::shared_ptr<const Value>, WordsHash> known_;
};

}  // namespace ptxbuilder::kernels
