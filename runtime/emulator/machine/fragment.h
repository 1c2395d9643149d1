// Defines fragments, which consist of lanes of a warp that share a program counter, and the reasons for which
// a fragment waits.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

enum class Wait : uint8_t {
  none,
  meeting,  // for the lanes from which the fragment diverged, for a limited time
  aligned,  // for all other lanes of the warp, at an .aligned instruction
  lanes,    // for the lanes of the member mask, at a .sync instruction
  barrier,
  cluster,
  mbarrier,
  wgmma,
  bulk,
  copies,
  registers,
  sleep,
  others  // for everything that can run without a delayed instruction
};

struct Fragment {
  uint32_t pc = 0;
  Lanes lanes = 0;
  int meeting = -1;    // index in Warp::meetings_ of the next meeting point; -1 if there is none
  uint32_t depth = 0;  // depth of calls

  Wait wait = Wait::none;
  uint64_t version = 0;     // version of the cluster when the wait began; a new version allows a retry
  uint64_t until = 0;       // for `meeting` only: the value of Warp::executed() at which the wait ends
  uint64_t until_step = 0;  // the value of Cluster::steps at which the wait ends
  uint32_t generation = 0;  // generation of the barrier for which the fragment waits
  uint32_t object = 0;      // barrier id, shared address or number of registers, for reports
  uint32_t phase = 0;       // phase of the mbarrier
  Lanes wanted = 0;         // the member mask

  // The last strong read of global memory. If the next strong read is the same, the fragment polls.
  uint32_t read_pc = no_pc;
  uint64_t read_address = 0, read_value = 0;
};

// A point at which lanes that diverged at a branch are likely to meet again. A fragment that waits there too
// long continues without the others, so the point affects only the speed of the emulator.
struct Meeting {
  uint32_t pc = no_pc;
  uint32_t depth = 0;  // depth of calls
  Lanes expected = 0;  // lanes that have arrived or may still arrive
  int outer = -1;
};

// The state to which a lane returns from a call.
struct LaneFrame {
  uint32_t pc = 0, routine = 0;  // `routine` is the called routine
  uint64_t base = 0, top = 0;    // limits of the caller's frame
  std::vector<std::byte> saved;  // previous contents of the routine's registers, if the call is recursive
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
