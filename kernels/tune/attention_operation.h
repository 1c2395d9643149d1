// Converts a problem of the benchmark to a call of the project's attention.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/measure/attention_problem.h"

namespace ptxbuilder::bench {

// Returns the arguments of the call on a set of buffers; `offsets` holds the offsets of packed sequences.
kernels::AttentionArguments arguments(const AttentionProblem& problem, const AttentionProblem::Set& set,
                                      runtime::View offsets);

// The operation and the size that the call derives from a problem. If the problem breaks a rule, place()
// throws an Error that names the rule and the value.
struct PlacedProblem {
  kernels::AttentionOperation operation;
  kernels::AttentionSize size;
};
PlacedProblem place(const AttentionProblem& problem);

}  // namespace ptxbuilder::bench
