// These are the members of all families, which print/ prints, and what their functions are made of.
#pragma once

#include <span>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa::detail {

struct Member {
  std::string_view key, call, name;  // the manual's key, the call in C++, and what the row is called
  std::string_view syntax;
  Effect effect;
  int ptx_version;
  Targets targets;
  std::string_view intrinsic;
  EarlyFloor early;
};

std::span<const Member> members();

// Finds the row of the first of the keys that a member has. Throws Error with the rule that the form breaks,
// if any.
const Row& find_member(std::string_view family, std::span<const Text> keys, std::string_view broken_rule,
                       Where where);

}  // namespace ptxbuilder::isa::detail
