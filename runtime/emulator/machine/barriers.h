// The objects through which the threads of a launch are ordered: mbarriers, barriers, and words that order
// other accesses.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/emulator/machine/program.h"
#include "runtime/emulator/machine/shadow.h"

namespace ptxbuilder::runtime::emulator {

class Cta;
class Warp;

// One mbarrier object (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
struct Mbarrier {
  Cta* cta = nullptr;
  uint32_t offset = 0;
  uint32_t count = 0;      // arrivals that a phase expects
  uint32_t pending = 0;    // arrivals of this phase that are still missing
  int64_t tx = 0;          // bytes that are expected and have not yet arrived
  uint32_t phase = 0;      // number of completed phases
  uint32_t in_flight = 0;  // asynchronous operations that will signal in this phase
  int64_t in_flight_bytes = 0;
  uint32_t copies_to_arrive = 0;  // cp.async.mbarrier.arrives whose copies are not done
  Actor actor = 0;                // its times are the mbarrier's phases
  Access init;
  uint32_t last_arrival = no_pc, last_expect = no_pc;  // program counters, for reports
  std::array<uint32_t, 16> warps{};  // the warps that have ever arrived, indexed by CTA rank
  Knowledge gathered;                // what the arrivals of this phase pass on
  Knowledge completed;               // what threads learn when their wait ends
  uint64_t phase_began = 0;          // step at which the phase began, for the trace
};

// Returns how many warps have ever arrived at the mbarrier.
uint32_t arriving_warps(const Mbarrier& m);

// Returns an explanation to append to a report about an mbarrier, or "". The explanation mentions if more
// warps arrive than a phase expects. If the mbarrier's name is that of a Pipeline's mbarrier, it also
// explains the mbarrier's count.
std::string about_arrivals(const Mbarrier& m);

// Returns the mbarrier's name for a report about the warp.
std::string name_for(const Warp& w, const Mbarrier& m);

// A barrier that bar.sync and similar instructions use: one of a CTA's sixteen barriers, or the barrier of
// the cluster.
struct Barrier {
  uint32_t expected = 0;  // number of threads; 0 until the first arrival
  bool all = false;       // whether the barrier expects every warp that is still running
  uint32_t arrived = 0;   // number of arrived threads; for the cluster's barrier, of warps
  uint32_t generation = 0;
  std::array<Lanes, 32> who{};  // for each warp, the lanes that have arrived or exited
  uint32_t sum = 0;             // for bar.red, the number of threads whose predicate is true
  uint32_t result = 0, result_threads = 0;
  Knowledge gathered, completed;
};

// A word that orders other accesses.
struct WordOrder {
  Knowledge passed;   // what threads that released the word have passed on
  Clock users;        // times of accesses that do not order others
  bool used = false;  // whether such an access has occurred
};

}  // namespace ptxbuilder::runtime::emulator
