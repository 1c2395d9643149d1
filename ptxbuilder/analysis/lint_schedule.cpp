// The rule about failed proofs. It reports an order of threads in which a wait or an access to shared memory
// fails, like `ptxb lint --prove`.
#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/analysis/protocol_run.h"

namespace ptxbuilder::analysis {

void check_schedule(LintKernel& kernel, Report& report) {
  constexpr ProofLimits kLimits = {.runs = 100, .steps = 200'000, .work = 500'000};  // a limit of about 0.1 s
  ScheduleProof told;
  const auto refusal = refuse_order(ProtocolCode(kernel.code), kLimits, told);
  if (!refusal || refusal->is_undecided || !refusal->is_of_order || refusal->operation == kNone) return;
  report.add(refusal->operation, refusal->what, std::set(refusal->others.begin(), refusal->others.end()));
}

}  // namespace ptxbuilder::analysis
