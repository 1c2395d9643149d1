// Proves for all schedules that a kernel's protocol of mbarriers, copies and shared memory is correct.
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
    undecided  // it is not known whether such a schedule exists
  };

  Verdict verdict = Verdict::undecided;
  std::string what = {};             // the reason why it is not proved
  uint32_t line = 0, column = 0;     // of the PTX; 0 if no instruction is to blame
  std::vector<uint32_t> lines = {};  // of the other instructions involved, ascending
  uint32_t late =
      0;  // the line of the operation that is late in such a schedule, for `ptxb sim --delay`; 0 if none
  std::vector<std::string> assumed = {};
  int turns = 0;    // of each loop, the iterations up to which it was followed
  size_t runs = 0;  // the runs that represent all schedules
};

// An empty name is the module's only kernel. Throws the errors of lint().
ScheduleProof prove_schedules(const ptx_text::Module& module, std::string_view kernel = "");

// "proved for all schedules", or "not proved: line 12: ... (line 4)", followed by the assumptions.
std::string text(const ScheduleProof& proof);

}  // namespace ptxbuilder::analysis
