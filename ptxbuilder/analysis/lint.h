// Finds errors and likely errors in a kernel, as far as its PTX shows them without being run. A rule reports
// nothing if it cannot decide: a finding is about what some thread does on some path through the kernel.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/ptx/ptx.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder::analysis {

struct Finding {
  std::string_view rule;             // its name
  uint32_t line = 0, column = 0;     // of the PTX
  std::string what;                  // with the values that the finding is about
  std::string_view cure;             // in one sentence
  std::vector<uint32_t> lines = {};  // of the other instructions involved, ascending
  int times = 1;                     // the number of occurrences, the first one at `line`
  bool is_advice = false;            // nothing is wrong, but the code could be better
  bool is_undecided = false;         // the analysis could not decide it
};

struct RuleText {
  std::string_view name, finds, cure;
  bool is_advice = false;
};
std::vector<RuleText> lint_rules();

// Selects which undecided findings are reported: only if a rule gave up because the kernel is too large for
// it, or also if the rule skipped something that it does not know.
enum class Undecided : uint8_t { given_up, all };

// The swizzles of the tensor maps of a launch, by the parameter's number and the byte offset in it.
using TensorMaps = std::map<std::pair<int, int64_t>, Swizzle>;

// Returns the findings of the rules that are not in `allowed`, by line. An empty name is the module's only
// kernel. Throws Error if the kernel or a rule does not exist, and Error "ptx LINE:COLUMN: ..." for a guard
// or a label that is not declared.
std::vector<Finding> lint(const ptx_text::Module& module, std::string_view kernel = "",
                          const std::set<std::string, std::less<>>& allowed = {},
                          Undecided undecided = Undecided::given_up, const TensorMaps& maps = {});

// "line 12:3: wgmma-fence: ... (line 4); 16 times. Cure."
std::string text(const Finding& finding);

}  // namespace ptxbuilder::analysis
