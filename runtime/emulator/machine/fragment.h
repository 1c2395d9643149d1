// Lanes of a warp that share a program counter, and what they wait for.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

enum class Wait : uint8_t {
  none,
  meeting,  // for the lanes from which it diverged, but not forever
  aligned,  // for all other lanes of the warp, at an .aligned instruction
  lanes,    // for those of its member mask, at a .sync instruction
  barrier,
  cluster,
  mbarrier,
  wgmma,
  bulk,
  copies,
  registers,
  sleep,
  others  // for all that can go on without an instruction that is delayed
};

struct Fragment {
  uint32_t pc = 0;
  Lanes lanes = 0;
  int meeting = -1;    // where they meet the lanes they parted from; index in Warp::meetings_
  uint32_t depth = 0;  // of calls

  Wait wait = Wait::none;
  uint64_t version = 0;  // of the cluster when the wait began: it is retried once that has changed
  uint64_t until = 0;    // of a meeting: instructions of the warp after which the others are not waited for
  uint64_t until_step = 0;  // and steps of the cluster; only these if it waits for others
  uint32_t generation = 0;  // of the barrier waited for
  uint32_t object = 0;      // barrier id, shared address or count of registers, for reports
  uint32_t phase = 0;       // of the mbarrier
  Lanes wanted = 0;         // the member mask

  // The last strong read of global memory, which is a poll if the next one is the same.
  uint32_t read_pc = no_pc;
  uint64_t read_address = 0, read_value = 0;
};

// A point at which lanes that diverged at a branch are likely to meet again. Only the speed of the emulator
// depends on it: a fragment that waits there too long goes on alone.
struct Meeting {
  uint32_t pc = no_pc;
  uint32_t depth = 0;  // of calls
  Lanes expected = 0;  // lanes that may still arrive, or have arrived
  int outer = -1;
};

// The state to which a lane returns from a call.
struct LaneFrame {
  uint32_t pc = 0, routine = 0;  // the routine is the called one
  uint64_t base = 0, top = 0;    // of the caller's frame
  std::vector<std::byte> saved;  // what the routine's registers held, if the call is recursive
};

// Disjoint sets of lanes of a warp.
class Groups {
 public:
  void add(Lanes lanes) { lists_[count_++] = lanes; }
  const Lanes* begin() const { return lists_; }
  const Lanes* end() const { return lists_ + count_; }

 private:
  Lanes lists_[32];
  int count_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator
