// Operations that a warp has begun and not finished: matrix products, copies, barriers, and changes of its
// register count.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// A wgmma of one warp that is not done.
struct PendingWgmma {
  const Instruction* instruction = nullptr;
  uint32_t group = 0;
  uint64_t a = 0, b = 0;  // matrix descriptors
  bool accumulate = false;
  std::vector<uint32_t> metadata = {};  // one element per lane if A is sparse
};

// A wgmma of one warp that no wgmma.wait_group has covered.
struct LiveWgmma {
  uint32_t pc, group;
  MatrixRegisters registers;
};

// The wgmma groups of a warp, numbered from 1.
struct WgmmaGroups {
  uint32_t committed = 0;          // the last committed group
  std::deque<PendingWgmma> queue;  // in the order of issue
  std::vector<LiveWgmma> live;
  uint32_t fences = 0;  // number of wgmma.fences so far
};

// A tcgen05.ld of one warp that no tcgen05.wait::ld has covered.
struct TensorLoad {
  uint32_t pc;
  RegisterList registers;
};

// The cp.async operations of a warp, numbered from 1 in the order of issue. A group is identified by its last
// operation.
struct AsyncCopies {
  Actor actor = 0;
  uint32_t issued = 0;
  std::set<uint32_t> outstanding;
  std::vector<uint32_t> groups;
};

// The cp.async.bulk groups of one thread, numbered from 1.
struct ThreadCopies {
  Actor actor = 0;          // its times are the numbers of the groups that have read their sources
  Actor writing_actor = 0;  // its times are the numbers of the groups that are done
  uint32_t open = 1;        // the group that is not committed yet
  std::map<uint32_t, uint32_t> reading,
      writing;  // for each group, the number of operations that have not read their source or are not done
};

// The lanes that have arrived at the cluster's barrier and not waited yet, and the barrier's generation when
// each lane arrived.
struct ClusterArrival {
  Lanes lanes = 0;
  std::array<uint32_t, 32> generation{};
};

// A warp's register count, as setmaxnreg has set it.
struct RegisterShare {
  uint32_t each = 0;  // registers per thread
  uint32_t changes = 0, changed_at = no_pc;
};

// The changes of a tensor map in global memory that this launch has made through the tensormap proxy.
struct MapChange {
  uint32_t version = 0;   // number of changes
  uint32_t released = 0;  // the last version that a release of the tensormap proxy has covered
  uint32_t pc = no_pc;    // program counter of the last change
  // An acquire of the tensormap proxy by a warp, and the version that it covered. A warp that knows of the
  // acquire may use the map.
  struct Acquired {
    Actor actor;
    uint32_t time, version;
  };
  std::vector<Acquired> acquired = {};
};

}  // namespace ptxbuilder::runtime::emulator
