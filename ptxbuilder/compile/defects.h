// Known defects of ptxas itself, which makes wrong code from right PTX, and the kernels that they can hit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/line_map.h"

namespace ptxbuilder {

// A defect of some versions of ptxas.
struct Defect {
  std::string_view name;         // by which a kernel waives the warning: "wgmma-a-registers"
  PtxasVersion since, fixed_in;  // the first version with it, and the first without
  std::string_view instruction;  // which one it needs, in words; "" where nobody knows, and no PTX tells
  std::string_view description;  // one sentence
  std::string_view remedy;       // what to do, as a sentence
  std::string_view source;       // where it was reported

  // This says whether a version of ptxas has the defect.
  bool is_in(PtxasVersion version) const { return since <= version && version < fixed_in; }
};

// It gives all published ones that are known here.
std::vector<Defect> all_defects();
// They are those that `version` has; none where none is known.
std::vector<Defect> known_defects(PtxasVersion version);

// This is a defect for which a PTX text has the instruction.
struct PossibleDefect {
  Defect defect;
  PtxasVersion version = {};  // that has it
  int ptx_line = 0;           // of the first such instruction, counted from 1
  SourceLine source;          // the C++ line that made it
  int count = 0;              // of such instructions

  std::string text() const;  // sentences, for a warning
};

// They are what `version` may do wrong with `ptx`. Defects whose instruction nobody knows are not among them.
std::vector<PossibleDefect> possible_defects(std::string_view ptx, PtxasVersion version);

}  // namespace ptxbuilder
