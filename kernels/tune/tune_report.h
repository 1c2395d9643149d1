// The report of tuning: each tile's prediction with its measured time.
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
  double microseconds = 0;                   // median; 0 if it was not timed
  double low_quartile = 0, high_quartile = 0;
  std::string problem;  // why it was not timed

  bool timed() const { return microseconds > 0; }
};

// Returns the longest term of the prediction: "multiply", "l2" or "memory".
std::string limiting_term(const kernels::Prediction& prediction);

// Returns the tiles of a measured problem, each once, from its contenders: the fastest first, and those
// without a time last. `chosen` is the tile that is currently chosen.
std::vector<TunedTile> tuned_tiles(const ShapeResult& result, const std::string& chosen, int multiprocessors);

// Return text for people, and a JSON object for programs.
std::string tune_table(const Problem& problem, const std::vector<TunedTile>& tiles);
std::string tune_json(const Problem& problem, const std::vector<TunedTile>& tiles);

}  // namespace ptxbuilder::bench
