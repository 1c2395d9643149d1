// Explains why a product gets its tile: the model's predictions for that tile and for others, with measured
// times if there are any.
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
  std::string file;  // the user's file that has the choice; "" if the table or the model chose
  std::vector<kernels::Candidate> tiles;       // the chosen tile, then the model's other tiles in their order
  std::map<std::string, double> microseconds;  // measured times, indexed with the tile's name
};

// Returns the choice, with the first `top` tiles of the model's shortlist. `tuned` is the tile that the
// user's file contains for the product, if it contains one.
ChoiceReport explain_choice(const GemmProblem& problem, int multiprocessors, size_t top,
                            const std::optional<kernels::GemmTile>& tuned = std::nullopt,
                            const std::string& file = "");

// Return the report as text for people, and as JSON for programs.
std::string choice_text(const ChoiceReport& report);
std::string choice_json(const ChoiceReport& report);

}  // namespace ptxbuilder::bench
