// Signals that launches on several ranks exchange through memory that all of them can access.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

inline constexpr int kMostRanks = 64;

// The memory of each rank begins with 4-byte words, which must be zero before its first call: the number of
// calls that are done, the number of threads that have left the current call, and the signals of other ranks.
inline constexpr uint32_t kExchangeBytes = 256 * 1024;

// A call of a rank. Calls are numbered from 1, and the device counts them, so that a recorded launch may be
// repeated. All ranks make the same calls in the same order.
class RankedCall {
 public:
  // Each thread of the CTA must construct this, since the number is read before any CTA leaves. `own` points
  // to the words of this rank.
  explicit RankedCall(gptr<u32> own);
  u32 number() const { return number_; }
  // Signals that a thread waits for nothing more; `threads_of_cta` threads of each CTA must call this. The
  // last of all these threads runs `at_end`.
  void left(uint32_t threads_of_cta = 1, const std::function<void()>& at_end = nullptr) const;

 private:
  static constexpr uint32_t kCalls = 0, kLeft = 1;  // indices of words

  gptr<u32> own_;
  u32 number_;
};

// Exchanges data between ranks in blocks. It uses additional words: for each rank, the number of calls for
// which the rank's memory was free; for each block, the number of signals that have arrived, which is zero
// again at the end of a call.
class Exchange {
 public:
  // Each thread of the CTA must construct this, outside roles. `of_ranks` are the words of all ranks.
  Exchange(std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_blocks() { return kExchangeBytes / 4 - kBlocks; }

  // Signals that this rank's memory is free for the other ranks, because this rank's earlier work no longer
  // reads it. One thread of each CTA must call this.
  void open() const;
  // Waits until the memory of a rank is free.
  void wait_until_free(u32 rank) const;

  // signal() reports that this thread's data of a block has arrived at a rank; signal_of() returns the number
  // of that signal, or kNoSignal. wait() waits until the given number of signals for this rank's block have
  // arrived; take() waits for one signal, and removes it. Everything that the signalling threads, and the
  // copies known to them, have stored is visible afterwards.
  static constexpr uint32_t kNoSignal = ~0u;
  static u32 signal_of(u32 to_rank, u32 block) { return to_rank * kMostWords + block; }
  void signal(u32 signal, u32 count = 1) const;
  void wait(u32 block, u32 signals) const;
  void take(u32 block) const;

  // Signals that a thread waits for nothing more; `threads_of_cta` threads of each CTA must call this. After
  // all of them have left, the signals of the blocks that were waited for are removed.
  struct Blocks {
    u32 first, count;
  };
  void left(uint32_t threads_of_cta = 1, const std::optional<Blocks>& waited = {}) const;

 private:
  static constexpr uint32_t kMostWords = kExchangeBytes / 4;
  static constexpr uint32_t kFree = kMostRanks, kBlocks = 2 * kMostRanks;  // indices of words

  std::vector<gptr<u32>> of_ranks_;
  u32 rank_;
  gptr<u32> own_;
  RankedCall call_;
};

// Returns the pointer with an index that only the device knows.
gptr<u32> pointer_of(u32 number, const std::vector<gptr<u32>>& pointers);

// Exchanges data if all ranks send to all ranks. They have the same number of CTAs, and each CTA waits for
// those with its own number. There is an additional word for each CTA of each rank: the last call whose data
// the CTA has sent. Since every call waits for all ranks, a rank that has received another rank's signal
// knows that the other has finished the previous call, and may overwrite what that call read. Two places for
// data, which calls use in turn, are therefore enough, and no signal is needed to free a place.
class PeerExchange {
 public:
  // Each thread of the CTA must construct this. `of_ranks` are the words of all ranks.
  PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_ctas() { return (kExchangeBytes / 4 - kFirst) / kMostRanks; }

  // Returns which place this call's data uses, 0 or 1.
  u32 place() const { return call_.number() & 1; }
  // Thread i of the CTA signals to rank i that this CTA's data has arrived there, or waits for the data of
  // rank i. The CTA's threads synchronize before signal() and after wait().
  void signal(u32 thread) const;
  void wait(u32 thread) const;
  void left() const { call_.left(); }

 private:
  static constexpr uint32_t kFirst = 64;  // index of the first word
  u32 word_of(u32 rank) const;

  gptr<u32> own_;
  std::vector<gptr<u32>> of_ranks_;
  u32 rank_;
  RankedCall call_;
};

}  // namespace ptxbuilder::kernels
