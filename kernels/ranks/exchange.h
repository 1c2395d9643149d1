// Signals between launches on several ranks, exchanged through memory that all ranks can access.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

inline constexpr int kMostRanks = 64;

// The size of the area of 4-byte words at the beginning of each rank's memory. The words must be zero before
// the rank's first call. They hold the number of finished calls, the number of threads that have left the
// current call, and the signals of other ranks.
inline constexpr uint32_t kExchangeBytes = 256 * 1024;

// A call on a rank. Calls are numbered from 1. The device counts them, so that a recorded launch may be
// repeated. All ranks must make the same calls in the same order.
class RankedCall {
 public:
  // Each thread of the CTA must construct this object, because the number of the call must be read before the
  // call ends. `own` points to the words of this rank.
  explicit RankedCall(gptr<u32> own);
  u32 number() const { return number_; }
  // Reports that a thread will not wait for signals any more. `threads_of_cta` threads of each CTA must call
  // this function, and the last of them, over all CTAs, runs `at_end`.
  void left(uint32_t threads_of_cta = 1, const std::function<void()>& at_end = nullptr) const;

 private:
  static constexpr uint32_t kCalls = 0, kLeft = 1;  // indices of the words

  gptr<u32> own_;
  u32 number_;
};

// Exchanges data between ranks in blocks. It uses additional words. For each rank, a word counts the calls
// for which this rank's memory was reported free. For each block, a word counts the signals that have
// arrived; it is zero again at the end of a call.
class Exchange {
 public:
  // Each thread of the CTA must construct this object, outside roles. `of_ranks` points to the words of each
  // rank.
  Exchange(std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_blocks() { return kExchangeBytes / 4 - kBlocks; }

  // Signals to the other ranks that they may write to this rank's memory, because earlier work of this rank
  // no longer reads it. One thread of each CTA must call this function.
  void open() const;
  // Waits until rank `rank` has signalled that its memory may be written.
  void wait_until_free(u32 rank) const;

  // signal() reports to a rank that this thread's data for a block has arrived. signal_of() returns the
  // number that identifies the rank and the block; kNoSignal stands for none. wait() waits until `signals`
  // signals for this rank's block have arrived. take() waits for one signal and removes it. Afterwards, all
  // data is visible that the signalling threads stored, or that their completed copies wrote, before the
  // signal.
  static constexpr uint32_t kNoSignal = ~0u;
  static u32 signal_of(u32 to_rank, u32 block) { return to_rank * kMostWords + block; }
  void signal(u32 signal, u32 count = 1) const;
  void wait(u32 block, u32 signals) const;
  void take(u32 block) const;

  // Reports that a thread will not wait for signals any more. `threads_of_cta` threads of each CTA must call
  // this function. After all of them have, the signals of the blocks `waited` are removed.
  struct Blocks {
    u32 first, count;
  };
  void left(uint32_t threads_of_cta = 1, const std::optional<Blocks>& waited = {}) const;

 private:
  static constexpr uint32_t kMostWords = kExchangeBytes / 4;
  static constexpr uint32_t kFree = kMostRanks, kBlocks = 2 * kMostRanks;  // indices of the words

  std::vector<gptr<u32>> of_ranks_;
  u32 rank_;
  gptr<u32> own_;
  RankedCall call_;
};

// Returns pointers[number], where `number` is known only on the device.
gptr<u32> pointer_of(u32 number, const std::vector<gptr<u32>>& pointers);

// Exchanges data when all ranks send to all ranks. All ranks have the same number of CTAs, and a CTA waits
// only for CTAs that have the same number. For each CTA of each rank, an additional word holds the number of
// the last call whose data the CTA has sent. Every call waits for all ranks. A signal from a rank therefore
// implies that the rank has finished its previous call, and the memory that this call read may be
// overwritten. Thus two places for data, used alternately, are enough, and no signal is needed to free a
// place.
class PeerExchange {
 public:
  // Each thread of the CTA must construct this object. `own` points to the words of this rank, and `of_ranks`
  // to those of each rank.
  PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_ctas() { return (kExchangeBytes / 4 - kFirst) / kMostRanks; }

  // Returns the place that this call's data uses, 0 or 1.
  u32 place() const { return call_.number() & 1; }
  // signal() makes thread i of the CTA signal to rank i that this CTA's data has arrived at rank i. wait()
  // makes thread i wait for the data of rank i. The caller must synchronize the threads of the CTA before
  // signal() and after wait().
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
