// Selects the instructions of a kernel that are relevant to its protocol.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The effect of an instruction on the protocol.
enum class Deed : uint8_t {
  none,
  compute,
  branch,
  end,
  trap,
  init,
  arrive,
  expect,
  wait,
  load,
  store,
  store_async,  // st.async; an mbarrier counts its bytes
  copy_in,
  copy_out,
  bulk_commit,
  bulk_wait,
  thread_copy,  // cp.async
  thread_commit,
  thread_wait,
  wgmma,
  wgmma_commit,
  wgmma_wait,
  barrier,
  cluster_arrive,
  cluster_wait,
  fence_proxy,
  fence_init,
  registers_more,
  registers_less,
  warp_sync,
  unknown  // the effect on the protocol is not known
};

// The part of a kernel's code that is relevant to its protocol. It consists of the instructions with an
// effect on the protocol, the computations of their operands, and the branches that decide whether they run.
class ProtocolCode {
 public:
  explicit ProtocolCode(const Code& code);

  const Code& code;
  const Graph graph;
  std::vector<Deed> deeds;   // indexed by instruction
  std::vector<bool> counts;  // for each instruction, true if it is relevant
  std::vector<bool> spins;   // for each wait, true if it is repeated until it succeeds
  std::vector<int>
      joins;  // for each block, the block where the paths from it join again; kNone if there is none
  std::vector<int> registers;  // number among the relevant registers, or kNone
  std::vector<int> rank;       // for each block, its position in the graph's order
  int counted_registers = 0;
  static constexpr int64_t kMostCtas = 16;  // greatest number of CTAs in a cluster
  std::array<int64_t, 3> cta = {}, cluster = {1, 1, 1};
  std::map<int, uint64_t> places;  // addresses of shared variables, indexed by number
  bool has_order = false;          // true if any instructions order other instructions
  bool has_waits = false;          // whether there are waits for mbarriers
  bool has_thread_copies = false;
  bool has_peeks = false;    // true if there are waits for mbarriers that are not repeated
  bool has_generic = false;  // true if there are loads or stores without a state space in their mnemonic
  bool has_words = false;    // true if there are atomic, volatile or strong accesses to shared memory, which
                             // may order other accesses

  // Returns whether the access is atomic, volatile or strong. Such accesses do not race with each other.
  static bool is_word(const Operation& o);
  // Returns the innermost loop that contains a wait, or kNone. The loop that only repeats the wait does not
  // count.
  int loop_of_wait(int operation) const {
    const int loop = graph.blocks[at(graph.block_of[at(operation)])].loop;
    return spins[at(operation)] ? graph.loops[at(loop)].parent : loop;
  }
  int64_t threads() const { return cta[0] * cta[1] * cta[2]; }
  int64_t ctas() const { return cluster[0] * cluster[1] * cluster[2]; }

 private:
  void find_deeds();
  void find_spins();
  void find_joins();
  void find_counting();
  bool leads_to_counting(int block) const;
};

}  // namespace ptxbuilder::analysis
