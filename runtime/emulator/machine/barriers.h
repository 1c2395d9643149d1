// These order the threads of a launch: mbarriers, barriers, and words that several threads access in order.
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
  uint32_t pending = 0;    // of them, those still missing
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

// This is how many warps have ever arrived at it.
uint32_t arriving_warps(const Mbarrier& m);

// The text is for a report: how many warps arrive at a barrier, if a phase takes fewer arrivals, and what its
// count means where its name is that of a Pipeline's; else nothing.
std::string about_arrivals(const Mbarrier& m);

// Its name, for reports of a warp.
std::string name_for(const Warp& w, const Mbarrier& m);

// bar.sync and its kin: one of a CTA's sixteen, or the barrier of the cluster.
struct Barrier {
  uint32_t expected = 0;  // threads; 0 while nobody has arrived
  bool all = false;       // expects every warp that is still running
  uint32_t arrived = 0;   // threads; of the cluster's, warps
  uint32_t generation = 0;
  std::array<Lanes, 32> who{};  // of each warp the lanes that count as arrived: those that left count too
  uint32_t sum = 0;             // of bar.red: threads whose predicate holds
  uint32_t result = 0, result_threads = 0;
  Knowledge gathered, completed;
};

// A word that orders other accesses.
struct WordOrder {
  Knowledge passed;   // by those who released
  Clock users;        // when others have accessed it
  bool used = false;  // by such
};

}  // namespace ptxbuilder::runtime::emulator
