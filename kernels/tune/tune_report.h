// What tuning one product found: each tile's prediction beside its measured time.
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm/choice.h"
#include "kernels/measure/operation.h"
#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

struct TunedTile {
  std::string tile;               // as text(GemmTile); the contender's name where it had none
  kernels::Prediction predicted;  // zeros where there was no tile
  bool chosen = false;            // by the table or the model, as they are now
  double microseconds = 0;        // the median; 0 where it was not timed
  double low_quartile = 0, high_quartile = 0;
  std::string problem;  // why it was not timed

  bool timed() const { return microseconds > 0; }
};

// The longest term of the prediction, which counts: "multiply", "l2" or "memory".
std::string limiting_term(const kernels::Prediction& prediction);

// Those of a measured shape whose contenders are tiles of gemm, the one that is chosen first: the fastest
// first, those without a time last, a tile once.
std::vector<TunedTile> tuned_tiles(const ShapeResult& result, int multiprocessors);

// For people, and for programs.
std::string tune_table(const GemmProblem& problem, const std::vector<TunedTile>& tiles);
std::string tune_json(const GemmProblem& problem, const std::vector<TunedTile>& tiles);

}  // namespace ptxbuilder::bench
