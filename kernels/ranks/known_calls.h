// Caches calls of multi-GPU operations. A call that differs from a cached call only in addresses, in one
// number and in the stream is queued without checking its arguments and choosing its tile again.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/call/prepared_calls.h"
#include "kernels/ranks/peer_memory.h"

namespace ptxbuilder::kernels {

// The values that may differ between calls of the same form. They are the addresses of tensors, the addresses
// of each rank's exchange memory, and the bits of a number.
class RankedSources {
 public:
  static constexpr size_t kMostTensors = 5, kFirstTensor = SourcedArguments::kWorkspace + 1,
                          kNumber = kFirstTensor + kMostTensors, kFirstMemory = kNumber + 1;
  static constexpr size_t tensor(size_t i) { return kFirstTensor + i; }
  static constexpr size_t memory(size_t rank) { return kFirstMemory + rank; }

  RankedSources(const std::array<runtime::Address, kMostTensors>& tensors,
                const std::vector<runtime::View>& memory_of_ranks, uint64_t number = 0) {
    for (size_t i = 0; i < kMostTensors; ++i) values_[tensor(i)] = tensors[i];
    values_[kNumber] = number;
    for (size_t r = 0; r < std::min(memory_of_ranks.size(), size_t{kMostRanks}); ++r)
      values_[memory(r)] = memory_of_ranks[r].address;
  }
  operator std::span<const uint64_t>() const { return values_; }  // NOLINT: meant to be implicit

 private:
  std::array<uint64_t, kFirstMemory + kMostRanks> values_ = {};
};

// The numbers of words that describe a tensor's memory, and the exchange memory of all ranks, in a form. If
// is_even_memory() holds for two calls with equal words, the rules of peer_memory.h hold for both calls or
// for neither.
inline constexpr size_t kWordsOfView = 2, kWordsOfPeers = 3;
template <class Word>
void words_of_view(const Word& word, size_t at, const runtime::View& view) {
  constexpr uint64_t kTensorMap = 16;
  word(at, view.bytes);
  word(at + 1, view.address % kTensorMap | (view.address == 0 ? kTensorMap : 0));
}
template <class Word, class Arguments>
void words_of_peers(const Word& word, size_t at, const Arguments& p) {
  word(at, p.memory.size() | static_cast<uint64_t>(p.rank) << 32);
  word(at + 1, p.memory.empty() ? 0 : p.memory[0].bytes);
  word(at + 2, static_cast<uint64_t>(p.multiprocessors));
}

template <size_t words>
class KnownRankedCalls {
 public:
  // Queues the call if a call of its form is cached. Returns whether the call was queued.
  template <class WordsOf>
  bool queue(const std::vector<runtime::View>& memory, const WordsOf& words_of, const RankedSources& sources,
             runtime::Stream stream) {
    const PreparedCall* known = is_even_memory(memory) ? calls_.find(words_of) : nullptr;
    if (known) (*known)(sources, stream);
    return known;
  }
  // Launches a call that has been checked. Caches the call if `is_kept`, which must be false if words_of()
  // does not describe the call completely.
  template <class WordsOf>
  void launch(runtime::LoadedKernel& kernel, const runtime::LaunchOptions& options,
              SourcedArguments& arguments, const WordsOf& words_of, Where where, bool is_kept = true) {
    kernel.launch(options, arguments.list(), where);
    if (!is_kept) return;
    const uint64_t number = calls_.number();
    PreparedCall made;
    made.add(kernel, options, arguments, where);
    calls_.add(words_of, std::move(made), number);
  }

 private:
  ByForm<words, PreparedCall> calls_;
};

}  // namespace ptxbuilder::kernels
