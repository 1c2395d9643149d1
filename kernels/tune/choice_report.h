// Explains why a product uses its tile, with the model's predictions for that tile and others, and with
// measured times if there are any.
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
  std::string file;  // the user's file that contains the choice; "" if it comes from the table or the model
  std::vector<kernels::Candidate> tiles;       // the chosen tile, then the model's other tiles in the model's
                                               // order
  std::map<std::string, double> microseconds;  // measured times, indexed by the tile's name
};

// Returns a report on the choice, with the first `top` tiles of the model's shortlist. `tuned` is the tile
// for the product in the user's file, if the file contains one.
ChoiceReport explain_choice(const GemmProblem& problem, int multiprocessors, size_t top,
                            const std::optional<kernels::GemmTile>& tuned = std::nullopt,
                            const std::string& file = "");

// These functions return the report as text for people, and as JSON for programs.
std::string choice_text(const ChoiceReport& report);
std::string choice_json(const ChoiceReport& report);

}  // namespace ptxbuilder::bench
