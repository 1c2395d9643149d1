// Operations that a warp has begun and not finished: products, copies, and its part in barriers and pools.
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

// One wgmma of one warp that is not done.
struct PendingWgmma {
  const Instruction* instruction = nullptr;
  uint32_t group = 0;
  uint64_t a = 0, b = 0;  // descriptors
  bool accumulate = false;
  std::vector<uint32_t> metadata = {};  // of each lane, if A is sparse
};

// One wgmma of one warp that no wgmma.wait_group has covered.
struct LiveWgmma {
  uint32_t pc, group;
  MatrixRegisters registers;
};

// Groups are numbered from 1.
struct WgmmaGroups {
  uint32_t committed = 0;          // the last closed group
  std::deque<PendingWgmma> queue;  // in order
  std::vector<LiveWgmma> live;
  uint32_t fences = 0;  // the number of wgmma.fences so far
};

// One tcgen05.ld of one warp that no tcgen05.wait::ld has covered.
struct TensorLoad {
  uint32_t pc;
  RegisterList registers;
};

// cp.async of a warp: operations are numbered from 1 in issue order; a group is identified by its last one.
struct AsyncCopies {
  Actor actor = 0;
  uint32_t issued = 0;
  std::set<uint32_t> outstanding;
  std::vector<uint32_t> groups;
};

// cp.async.bulk groups of one thread. Groups are numbered from 1.
struct ThreadCopies {
  Actor actor = 0;          // whose times are the groups that have read their sources
  Actor writing_actor = 0;  // and those that are done
  uint32_t open = 1;        // the group that is not committed yet
  std::map<uint32_t, uint32_t> reading,
      writing;  // by group: operations that have not read their source, or are not done
};

// Lanes between their arrival at the cluster barrier and their wait, and its generation when they arrived.
struct ClusterArrival {
  Lanes lanes = 0;
  std::array<uint32_t, 32> generation{};
};

// A warp's register count as set with setmaxnreg.
struct RegisterShare {
  uint32_t each = 0;  // of one thread
  uint32_t changes = 0, changed_at = no_pc;
};

// The changes of a tensor map in global memory by this launch, through the tensormap proxy.
struct MapChange {
  uint32_t version = 0;   // counts its changes
  uint32_t released = 0;  // the last version that a release of the tensormap proxy has covered
  uint32_t pc = no_pc;    // of the last change
  // Acquires of the tensormap proxy by warps, and the version that each has covered: a warp that knows of an
  // acquire may use the map.
  struct Acquired {
    Actor actor;
    uint32_t time, version;
  };
  std::vector<Acquired> acquired = {};
};

}  // namespace ptxbuilder::runtime::emulator
