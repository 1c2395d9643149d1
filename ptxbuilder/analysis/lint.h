// Finds what is wrong with a kernel, or likely to be, as far as its PTX says so without being run. A rule is
// silent where it does not know: a finding is about what some thread does on some way through the kernel.
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
  std::string what;                  // with the values that it is about
  std::string_view cure;             // in a sentence
  std::vector<uint32_t> lines = {};  // of the other instructions that have a part in it, ascending
  int times = 1;                     // that it is so, the first one at `line`
  bool is_advice = false;            // nothing is wrong, but it could be better for others
  bool is_undecided = false;         // it may be so or not
};

struct RuleText {
  std::string_view name, finds, cure;
  bool is_advice = false;
};
std::vector<RuleText> lint_rules();

// This says which undecided findings are reported: where a rule gave up, since the kernel is too large for
// it, or also where it passed over what it does not know.
enum class Undecided : uint8_t { given_up, all };

// The swizzles of the tensor maps that a launch gives, by the parameter's number and the bytes into it.
using TensorMaps = std::map<std::pair<int, int64_t>, Swizzle>;

// These are the findings of the rules that are not in `allowed`, by line. An empty name is the module's only
// kernel. Throws Error for a kernel or a rule that is not there, and Error "ptx LINE:COLUMN: ..." for a guard
// or a label that is not declared.
std::vector<Finding> lint(const ptx_text::Module& module, std::string_view kernel = "",
                          const std::set<std::string, std::less<>>& allowed = {},
                          Undecided undecided = Undecided::given_up, const TensorMaps& maps = {});

// "line 12:3: wgmma-fence: ... (line 4); 16 times. Cure."
std::string text(const Finding& finding);

}  // namespace ptxbuilder::analysis
