// The signals that launches of several ranks exchange through memory that all of them reach.
#pragma once

#include <vector>

#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

inline constexpr int kMostRanks = 64;

// The memory of each rank begins with words of four bytes, which are zeros before its first call: the number
// of calls that are done, the number of CTAs that have left the current call, and the signals of other ranks.
inline constexpr uint32_t kExchangeBytes = 256 * 1024;

// A call of a rank has a number, beginning with 1, which the device counts, so that a recorded launch may be
// repeated. All ranks make the same calls in the same order.
class RankedCall {
 public:
  // Each thread of the CTA constructs this: the number is read before any CTA leaves. `own` points to the
  // words of this rank.
  explicit RankedCall(gptr<u32> own);
  u32 number() const { return number_; }
  // One thread of each CTA signals that the CTA waits for nothing more.
  void left() const;

 private:
  static constexpr uint32_t kCalls = 0, kLeft = 1;  // These are numbers of words.

  gptr<u32> own_;
  u32 number_;
};

// Ranks form a ring, in which each sends to the next. There are more words: one with the call for which the
// next rank's memory is free, and one for each block with the call in which its data arrived.
class Exchange {
 public:
  // Each thread of the CTA constructs this, outside of roles. `own`, `next` and `previous` are the words of
  // this rank and of its neighbours.
  Exchange(gptr<u32> own, gptr<u32> next, gptr<u32> previous);

  static constexpr uint32_t most_blocks() { return kExchangeBytes / 4 - kBlocks; }

  // One thread of each CTA calls these. open() signals that this rank's memory is free for the previous rank,
  // because this rank's earlier work no longer reads it; left() signals that the CTA waits for nothing more.
  void open() const;
  void left() const { call_.left(); }
  // Waits until the next rank's memory is free.
  void wait_for_next() const;

  // signal() reports that this thread's data of a block is at the next rank; wait() waits for the previous
  // rank's. Whatever this thread and the copies known to it have stored is visible after wait().
  void signal(u32 block) const;
  void wait(u32 block) const;

 private:
  static constexpr uint32_t kFree = 32, kBlocks = 64;  // These are numbers of words.

  gptr<u32> own_, next_, previous_;
  RankedCall call_;
};

// All ranks send to all. They have the same number of CTAs, and each CTA waits for those with its number.
// There is one more word for each CTA of each rank: the last call whose data the CTA has sent. Since every
// call waits for all ranks, a rank that has received another rank's signal knows that the other is done with
// the previous call, and may overwrite what that call has read: there are two places for data, used in turn,
// and no signal is needed to free a place.
class PeerExchange {
 public:
  // Each thread of the CTA constructs this. `of_ranks` are the words of all ranks.
  PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_ctas() { return (kExchangeBytes / 4 - kFirst) / kMostRanks; }

  // Returns the place of this call's data, 0 or 1.
  u32 place() const { return call_.number() & 1; }
  // Thread i of the CTA signals to rank i that this CTA's data has arrived there, or waits for the data of
  // rank i. The CTA's threads meet before signal() and after wait().
  void signal(u32 thread) const;
  void wait(u32 thread) const;
  void left() const { call_.left(); }

 private:
  static constexpr uint32_t kFirst = 64;  // This is the number of a word.
  u32 word_of(u32 rank) const;

  gptr<u32> own_;
  std::vector<gptr<u32>> of_ranks_;
  u32 rank_;
  RankedCall call_;
};

}  // namespace ptxbuilder::kernels
