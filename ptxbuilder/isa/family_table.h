// Looks up members of families in the table of all members. The functions of families, which print/
// generates, use this.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa::detail {

// Receives the row of a member, its key in the manual, and a function that writes a call of it in C++.
using VisitMember =
    std::function<void(const MadeRow& row, std::string_view key, const std::function<std::string()>& call)>;
void for_each_member(const VisitMember& visit);

// Returns a call in C++: "ldmatrix<MatrixForm{.matrices = 4}>", or "fence_acq_rel<Scope::gpu>" for a family
// with a single axis instead of a form. Fields that are false are omitted.
std::string call_text(std::string_view family, std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string>> fields);

// Returns the row of the first of `keys` that a member has. Otherwise throws Error with the rule that the
// form breaks, if there is one.
const Row& find_member(std::string_view family, std::span<const Text> keys, std::string_view broken_rule,
                       Where where);

}  // namespace ptxbuilder::isa::detail
