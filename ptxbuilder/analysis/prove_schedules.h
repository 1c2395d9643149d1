// Proves that a kernel's protocol of mbarriers, copies and shared memory is correct in all schedules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::analysis {

struct ScheduleProof {
  enum class Verdict : uint8_t {
    proved,
    refuted,   // there is a schedule in which the protocol fails
    undecided  // it is not known whether there is such a schedule
  };

  Verdict verdict = Verdict::undecided;
  std::string what = {};             // reason why the kernel is not proved
  uint32_t line = 0, column = 0;     // position in the PTX; 0 if no instruction causes the problem
  std::vector<uint32_t> lines = {};  // other instructions involved, in ascending order
  uint32_t late =
      0;  // line of the operation that is late in a failing schedule, for `ptxb sim --delay`; 0 if none
  std::vector<std::string> assumed = {};
  int turns = 0;    // greatest number of iterations for which a loop was followed
  size_t runs = 0;  // number of runs, which together represent all schedules
};

// Proves that a kernel is correct in all schedules. An empty name selects the module's only kernel. Throws
// Error under the same conditions as lint().
ScheduleProof prove_schedules(const ptx_text::Module& module, std::string_view kernel = "");

// Returns a string such as "proved for all schedules" or "not proved: line 12: ... (line 4)", followed by the
// assumptions.
std::string text(const ScheduleProof& proof);

}  // namespace ptxbuilder::analysis
