// The objects that order a launch's threads: mbarriers, barriers, and words that threads access in order.
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
  uint32_t pending = 0;    // those of `count` that are still missing
  int64_t tx = 0;          // bytes expected and not yet arrived
  uint32_t phase = 0;      // completed phases
  uint32_t in_flight = 0;  // asynchronous operations that will signal this phase
  int64_t in_flight_bytes = 0;
  uint32_t copies_to_arrive = 0;  // cp.async.mbarrier.arrives whose copies are not done
  Actor actor = 0;                // whose times are the phases
  Access init;
  uint32_t last_arrival = no_pc, last_expect = no_pc;  // program counters, for reports
  std::array<uint32_t, 16> warps{};                    // that have ever arrived, by the rank of their CTA
  Knowledge gathered;                                  // from the arrivals of this phase
  Knowledge completed;                                 // given to those who wait
  uint64_t phase_began = 0;                            // step, for the trace
};

// Returns how many warps have ever arrived at the mbarrier.
uint32_t arriving_warps(const Mbarrier& m);

// Returns a text for a report: how many warps arrive at the barrier, if a phase takes fewer arrivals, and
// what its count means if the barrier's name is that of a Pipeline's barrier; otherwise an empty text.
std::string about_arrivals(const Mbarrier& m);

// Returns the barrier's name, for reports of a warp.
std::string name_for(const Warp& w, const Mbarrier& m);

// A barrier of bar.sync and similar instructions: one of a CTA's sixteen, or the barrier of the cluster.
struct Barrier {
  uint32_t expected = 0;  // threads; 0 until the first arrival
  bool all = false;       // expects every warp that is still running
  uint32_t arrived = 0;   // threads; for the cluster's barrier, warps
  uint32_t generation = 0;
  std::array<Lanes, 32> who{};  // of each warp the lanes that count as arrived: those that left count too
  uint32_t sum = 0;             // of bar.red: threads whose predicate holds
  uint32_t result = 0, result_threads = 0;
  Knowledge gathered, completed;
};

// A word that orders other accesses.
struct WordOrder {
  Knowledge passed;   // by the threads that released it
  Clock users;        // the times of other accesses to it
  bool used = false;  // by such an access
};

}  // namespace ptxbuilder::runtime::emulator
