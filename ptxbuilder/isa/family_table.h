// Looks up members of families in the table of all members. The functions that print/ generates for families
// use these look-ups.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa::detail {

// Receives the row of a member, its key in the manual, and a function that returns a C++ call of the member.
using VisitMember =
    std::function<void(const MadeRow& row, std::string_view key, const std::function<std::string()>& call)>;
void for_each_member(const VisitMember& visit);

// Returns a call in C++, such as "ldmatrix<MatrixForm{.matrices = 4}>", or "fence_acq_rel<Scope::gpu>" for a
// family that has a single axis instead of a form. Fields that are false are omitted.
std::string call_text(std::string_view family, std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string>> fields);

// Returns the row of the first of `keys` that belongs to a member of the family. If there is none, throws an
// Error, which quotes `broken_rule` unless it is empty.
const Row& find_member(std::string_view family, std::span<const Text> keys, std::string_view broken_rule,
                       Where where);

}  // namespace ptxbuilder::isa::detail
