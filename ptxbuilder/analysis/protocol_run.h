// Simulates the part of a kernel that is relevant to its protocol: barriers, copies, and accesses to shared
// memory. One run represents all schedules in which the decisions that depend on parameters have the same
// outcomes as in the run.
#pragma once

#include <optional>

#include "ptxbuilder/analysis/protocol_deeds.h"
#include "ptxbuilder/analysis/prove_schedules.h"

namespace ptxbuilder::analysis {

// Thrown to drop a path on which a loop has more iterations than the limit.
struct Beyond {};

// Performs one run. A wait that is not repeated succeeds only if its phase is complete and `peeks_succeed` is
// true. Subtracts the number of steps from `steps_left`. Throws Refusal if the proof fails, and Beyond if a
// loop has too many iterations.
void run_protocol(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
                  bool peeks_succeed, size_t& steps_left);

// refuse_order() returns nothing if the necessary order of events holds in all schedules. Otherwise it
// returns the reason: a schedule without this order, or a limit that was exceeded. The assumptions are stored
// in `proof`.
struct ProofLimits {
  size_t runs, steps, work;  // maximum numbers of runs, of simulated instructions, and of operations on terms
                             // (protocol_terms.h), in all runs together
};
std::optional<Refusal> refuse_order(const ProtocolCode& code, const ProofLimits& limits,
                                    ScheduleProof& proof);

}  // namespace ptxbuilder::analysis
