// Finds errors and likely errors in a kernel by examining its PTX, without running it. Each finding describes
// an action of a thread on a path through the kernel. If a rule cannot decide whether there is an error, it
// does not report one.
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
  std::string_view rule;             // name of the rule
  uint32_t line = 0, column = 0;     // position in the PTX
  std::string what;                  // description of the error, with the relevant values
  std::string_view cure;             // remedy, in one sentence
  std::vector<uint32_t> lines = {};  // other instructions involved, in ascending order
  int times = 1;                     // number of occurrences; the first occurrence is at `line`
  bool is_advice = false;            // true if the code is correct, but could be better
  bool is_undecided = false;         // true if the analysis could not decide whether there is an error
};

struct RuleText {
  std::string_view name, finds, cure;
  bool is_advice = false;
};
std::vector<RuleText> lint_rules();

// Selects the undecided findings that are reported. They are either only those of rules that gave up because
// the kernel is too large, or also those of rules that skipped an unknown operation.
enum class Undecided : uint8_t { given_up, all };

// The swizzles of the tensor maps of a launch, indexed by the number of the parameter and the byte offset in
// the parameter.
using TensorMaps = std::map<std::pair<int, int64_t>, Swizzle>;

// Returns the findings of the rules that are not in `allowed`, sorted by line. An empty name selects the
// module's only kernel. Throws Error if the kernel or a rule does not exist. For a guard or a label that is
// not declared, throws an Error "ptx LINE:COLUMN: ...".
std::vector<Finding> lint(const ptx_text::Module& module, std::string_view kernel = "",
                          const std::set<std::string, std::less<>>& allowed = {},
                          Undecided undecided = Undecided::given_up, const TensorMaps& maps = {});

// Returns a string such as "line 12:3: wgmma-fence: ... (line 4); 16 times. Cure."
std::string text(const Finding& finding);

}  // namespace ptxbuilder::analysis
