// Lists known defects of ptxas, which make it generate wrong code from correct PTX, and finds the kernels
// that they may affect.
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
  std::string_view name;                 // name by which a kernel waives the warning: "wgmma-a-registers"
  PtxasVersion since;                    // first version with the defect
  std::optional<PtxasVersion> fixed_in;  // first version without it; empty if every later known version has
                                         // it
  std::string_view
      instruction;  // instruction that triggers it; "" if unknown, since PTX then does not show it
  std::string_view description;  // one sentence
  std::string_view remedy;       // what to do, in one sentence
  std::string_view source;       // where the defect was reported

  // Returns whether a version of ptxas has the defect.
  bool is_in(PtxasVersion version) const { return since <= version && (!fixed_in || version < *fixed_in); }
};

// Returns all known published defects.
std::vector<Defect> all_defects();
// Returns the known defects of `version`.
std::vector<Defect> known_defects(PtxasVersion version);

// A defect whose instruction occurs in a PTX text.
struct PossibleDefect {
  Defect defect;
  PtxasVersion version = {};  // version with the defect
  int ptx_line = 0;           // line of the first such instruction, counted from 1
  SourceLine source;          // C++ line that made it
  int count = 0;              // number of such instructions

  std::string text() const;  // sentences for a warning
};

// Returns the defects of `version` that may affect `ptx`, without defects whose instruction is unknown.
std::vector<PossibleDefect> possible_defects(std::string_view ptx, PtxasVersion version);

}  // namespace ptxbuilder
