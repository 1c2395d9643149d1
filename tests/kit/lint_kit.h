// Runs lint on PTX text, and returns the rules that have found something.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>

#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/lint.h"

namespace ptxbuilder::test {

// Returns the rules that find something in any kernel of the text.
inline std::set<std::string> rules_that_find(const std::string& text) {
  const ptx_text::Module module = ptx_text::parse(text);
  std::set<std::string> rules;
  for (const std::string& kernel : analysis::kernels_of(module))
    for (const analysis::Finding& f : analysis::lint(module, kernel)) rules.emplace(f.rule);
  return rules;
}

// Returns the rules that find something in a mutant but nothing in its original, such as "wait, parity", or
// "" if there are none.
inline std::string found_in_mutant(const std::set<std::string>& of_original, const std::string& mutant) {
  std::set<std::string> rules = rules_that_find(mutant);
  for (const std::string& rule : of_original) rules.erase(rule);
  return fmt::format("{}", fmt::join(rules, ", "));
}

}  // namespace ptxbuilder::test
