// Lists known defects of ptxas that cause wrong code for correct PTX, and finds the kernels that they may
// affect.
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
  std::string_view name;                 // name that waives the warning, such as "wgmma-a-registers"
  PtxasVersion since;                    // first version with the defect
  std::optional<PtxasVersion> fixed_in;  // first version without the defect; empty if there is none yet
  std::string_view instruction;          // instruction that triggers the defect; "" if it is unknown
  std::string_view description;          // one sentence
  std::string_view remedy;               // sentence that describes the remedy
  std::string_view source;               // where the defect was reported

  // Returns whether a version of ptxas has the defect.
  bool is_in(PtxasVersion version) const { return since <= version && (!fixed_in || version < *fixed_in); }
};

// Returns all known published defects.
std::vector<Defect> all_defects();
// Returns the known defects of `version`.
std::vector<Defect> known_defects(PtxasVersion version);

// A defect that may affect some PTX text, because the instruction that triggers the defect occurs in the
// text.
struct PossibleDefect {
  Defect defect;
  PtxasVersion version = {};  // version with the defect
  int ptx_line = 0;           // line of the first such instruction, counted from 1
  SourceLine source;          // C++ line of the first such instruction
  int count = 0;              // number of such instructions

  std::string text() const;  // returns the sentences of a warning
};

// Returns the defects of `version` that may affect `ptx`, except defects whose instruction is unknown.
std::vector<PossibleDefect> possible_defects(std::string_view ptx, PtxasVersion version);

}  // namespace ptxbuilder
