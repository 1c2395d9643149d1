// Reports the result of tuning, with the predicted and the measured time of each tile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm/choice.h"
#include "kernels/measure/operation.h"
#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

struct TunedTile {
  std::string tile;                          // the tile's text(), or the contender's name if it has no tile
  double predicted = 0;                      // in microseconds; 0 if there is no tile
  std::optional<kernels::Prediction> terms;  // terms of the prediction; empty for attention
  bool chosen = false;                       // whether the table or the model currently chooses this tile
  double microseconds = 0;                   // median time; 0 if the tile was not timed
  double low_quartile = 0, high_quartile = 0;
  std::string problem;  // the reason why the tile was not timed

  bool timed() const { return microseconds > 0; }
};

// Returns the longest term of the prediction: "multiply", "l2" or "memory".
std::string limiting_term(const kernels::Prediction& prediction);

// Returns the tiles of a problem from the results of its contenders, without duplicates. The fastest tile is
// first, and tiles without a time are last. `chosen` is the tile that is currently chosen.
std::vector<TunedTile> tuned_tiles(const ShapeResult& result, const std::string& chosen, int multiprocessors);

// These functions return the report as text for people, and as a JSON object for programs.
std::string tune_table(const Problem& problem, const std::vector<TunedTile>& tiles);
std::string tune_json(const Problem& problem, const std::vector<TunedTile>& tiles);

}  // namespace ptxbuilder::bench
