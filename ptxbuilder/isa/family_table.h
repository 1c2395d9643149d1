// The functions of families are made of these, which print/ prints, and the table of all members.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa::detail {

// `visit` gets the row of a member, the manual's key, and what writes its call in C++.
using VisitMember =
    std::function<void(const MadeRow& row, std::string_view key, const std::function<std::string()>& call)>;
void for_each_member(const VisitMember& visit);

// Writes a call: "ldmatrix<MatrixForm{.matrices = 4}>", or "fence_acq_rel<Scope::gpu>" of an axis alone,
// which has no form. A field that is false is left out.
std::string call_text(std::string_view family, std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string>> fields);

// Finds the row of the first of the keys that a member has. Throws Error with the rule that the form breaks,
// if any.
const Row& find_member(std::string_view family, std::span<const Text> keys, std::string_view broken_rule,
                       Where where);

}  // namespace ptxbuilder::isa::detail
