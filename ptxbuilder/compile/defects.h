// Known defects of ptxas, which then makes wrong code from correct PTX, and the kernels that they affect.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/line_map.h"

namespace ptxbuilder {

// A defect of some versions of ptxas.
struct Defect {
  std::string_view name;                 // with which a kernel waives the warning: "wgmma-a-registers"
  PtxasVersion since;                    // the first version that has it
  std::optional<PtxasVersion> fixed_in;  // the first version without it; empty if every known version has it
  std::string_view
      instruction;  // the instruction that it needs, in words; "" if unknown, so that PTX does not show it
  std::string_view description;  // one sentence
  std::string_view remedy;       // what to do, as a sentence
  std::string_view source;       // where it was reported

  // Returns whether a version of ptxas has the defect.
  bool is_in(PtxasVersion version) const { return since <= version && (!fixed_in || version < *fixed_in); }
};

// Returns all published defects that are known here.
std::vector<Defect> all_defects();
// Returns the known defects that `version` has.
std::vector<Defect> known_defects(PtxasVersion version);

// A defect whose instruction a PTX text contains.
struct PossibleDefect {
  Defect defect;
  PtxasVersion version = {};  // that has it
  int ptx_line = 0;           // of the first such instruction, counted from 1
  SourceLine source;          // the C++ line that made it
  int count = 0;              // of such instructions

  std::string text() const;  // sentences, for a warning
};

// Returns the defects of `version` that may affect `ptx`, except defects whose instruction is unknown.
std::vector<PossibleDefect> possible_defects(std::string_view ptx, PtxasVersion version);

}  // namespace ptxbuilder
