// Launches of several ranks tell each other this through memory that all of them reach.
#pragma once

#include <vector>

#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

inline constexpr int kMostRanks = 64;

// The memory of each rank begins with words of four bytes, which are zeros before its first call: how many
// calls it has done, how many CTAs have left the one that runs, and what other ranks have to say.
inline constexpr uint32_t kExchangeBytes = 256 * 1024;

// A call of a rank has a number, from 1 on, which the device counts, so that a recorded launch may be
// repeated. All ranks make the same calls in the same order.
class RankedCall {
 public:
  // Each thread of the CTA makes it: the number is what it is before any CTA leaves. `own` has the words of
  // this rank.
  explicit RankedCall(gptr<u32> own);
  u32 number() const { return number_; }
  // One thread of each CTA says that the CTA waits for nothing more.
  void left() const;

 private:
  static constexpr uint32_t kCalls = 0, kLeft = 1;  // These are numbers of words.

  gptr<u32> own_;
  u32 number_;
};

// Ranks are a ring, in which each sends to the next. There are more words: one of the call for which the next
// rank's memory is free, and for each block of the call in which its data came.
class Exchange {
 public:
  // Each thread of the CTA makes it, outside of roles. `own`, `next` and `previous` are the words of this
  // rank and of its neighbours.
  Exchange(gptr<u32> own, gptr<u32> next, gptr<u32> previous);

  static constexpr uint32_t most_blocks() { return kExchangeBytes / 4 - kBlocks; }

  // These are for one thread of each CTA. open() says that the memory of this rank is free for the one before
  // it, which what this rank did before it no longer reads; left() says that the CTA waits for nothing more.
  void open() const;
  void left() const { call_.left(); }
  // Waits until the next rank's memory is free.
  void wait_for_next() const;

  // Says that this thread's data of a block has come to the next rank, or waits for that of the one before.
  // What thread and copies it knows of have stored is seen by who has waited.
  void signal(u32 block) const;
  void wait(u32 block) const;

 private:
  static constexpr uint32_t kFree = 32, kBlocks = 64;  // These are numbers of words.

  gptr<u32> own_, next_, previous_;
  RankedCall call_;
};

// All ranks send to all. They have as many CTAs, and each waits for those of its number. There is one
// more word for each CTA of each rank: the last call whose data it has sent. Since every call waits for all
// ranks, who has heard of a rank's call knows that this rank is done with the one before, and may overwrite
// what that has read: there are two places for data, which calls take in turn, and nobody has to say that one
// is free.
class PeerExchange {
 public:
  // Each thread of the CTA makes it. `of_ranks` are the words of all ranks.
  PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank);

  static constexpr uint32_t most_ctas() { return (kExchangeBytes / 4 - kFirst) / kMostRanks; }

  // It says which place this call's data have, 0 or 1.
  u32 place() const { return call_.number() & 1; }
  // Thread i of the CTA says to rank i that this CTA's data has come there, or waits for that of rank i. The
  // CTA's threads meet before signal() and after wait().
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
