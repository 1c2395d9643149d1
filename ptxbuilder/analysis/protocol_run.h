// Runs the part of a kernel that matters for its protocol: barriers, copies, and accesses to shared memory.
// One run represents all schedules in which decisions that depend on parameters have the same outcome.
#pragma once

#include <optional>

#include "ptxbuilder/analysis/protocol_deeds.h"
#include "ptxbuilder/analysis/prove_schedules.h"

namespace ptxbuilder::analysis {

// Thrown if a path was dropped because a loop on it takes more iterations than are followed.
struct Beyond {};

// A wait that is not repeated succeeds if `peeks_succeed` and its phase is complete, and fails otherwise.
// Steps are subtracted from those that remain. Throws Refusal or Beyond.
void run_protocol(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
                  bool peeks_succeed, size_t& steps_left);

// refuse_order() returns the reason why the order of events does not hold in all schedules, or why the limits
// of runs and steps were exceeded, or nothing if the order holds. `proof` receives the assumptions.
struct ProofLimits {
  size_t runs, steps, work;  // for all runs: instructions, and work on terms (protocol_terms.h)
};
std::optional<Refusal> refuse_order(const ProtocolCode& code, const ProofLimits& limits,
                                    ScheduleProof& proof);

}  // namespace ptxbuilder::analysis
