// A run of a kernel's threads up to what counts for its protocol: barriers, copies, and accesses to shared
// memory. One run represents all schedules in which the same is chosen of what its parameters decide.
#pragma once

#include <optional>

#include "ptxbuilder/analysis/protocol_deeds.h"
#include "ptxbuilder/analysis/prove_schedules.h"

namespace ptxbuilder::analysis {

// A way was left on which a loop turns more often than is looked at.
struct Beyond {};

// A wait that is not repeated finds its phase over where `peeks_succeed` and it is, and else does not. Takes
// its steps from those that are left. Throws Refusal, or Beyond.
void run_protocol(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
                  bool peeks_succeed, size_t& steps_left);

// Why the order of events does not hold in all schedules, or that more than so many runs and steps were
// needed; nothing where it holds. `proof` gets what is assumed.
struct ProofLimits {
  size_t runs, steps, work;  // of all runs: instructions, and what terms take (protocol_terms.h)
};
std::optional<Refusal> refuse_order(const ProtocolCode& code, const ProofLimits& limits,
                                    ScheduleProof& proof);

}  // namespace ptxbuilder::analysis
