// The functions of families, which print/ prints, use these functions and the table of all members.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa::detail {

// `visit` receives the row of a member, the manual's key, and a function that writes its call in C++.
using VisitMember =
    std::function<void(const MadeRow& row, std::string_view key, const std::function<std::string()>& call)>;
void for_each_member(const VisitMember& visit);

// Returns a call: "ldmatrix<MatrixForm{.matrices = 4}>", or "fence_acq_rel<Scope::gpu>" for a family that has
// one axis and no form. A field that is false is left out.
std::string call_text(std::string_view family, std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string>> fields);

// Returns the row of the first key that a member has. Throws Error with the rule that the form breaks, if
// there is one.
const Row& find_member(std::string_view family, std::span<const Text> keys, std::string_view broken_rule,
                       Where where);

}  // namespace ptxbuilder::isa::detail
