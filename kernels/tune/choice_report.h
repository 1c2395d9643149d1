// Why a product gets its tile: the model's predictions for it and for others, with measured times if there
// are any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm/choice.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

struct ChoiceReport {
  GemmProblem problem;
  int multiprocessors = 0;
  kernels::Choice choice;
  std::string file;  // the user's file with the choice; "" if the table or the model chose
  std::vector<kernels::Candidate> tiles;       // the chosen tile, then the model's others in their order
  std::map<std::string, double> microseconds;  // measured, by the tile's name
};

// Returns the choice, with the first `top` tiles of the model's shortlist. `tuned` is what the user's file
// contains for the product, if anything.
ChoiceReport explain_choice(const GemmProblem& problem, int multiprocessors, size_t top,
                            const std::optional<kernels::GemmTile>& tuned = std::nullopt,
                            const std::string& file = "");

// Text for people, and JSON for programs.
std::string choice_text(const ChoiceReport& report);
std::string choice_json(const ChoiceReport& report);

}  // namespace ptxbuilder::bench
