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
  std::string tile;                          // the tile's text(); without a tile, the contender's name
  double predicted = 0;                      // microseconds; 0 without a tile
  std::optional<kernels::Prediction> terms;  // of the prediction; empty for attention
  bool chosen = false;                       // by the table or the model in their current state
  double microseconds = 0;                   // the median; 0 if it was not timed
  double low_quartile = 0, high_quartile = 0;
  std::string problem;  // why it was not timed

  bool timed() const { return microseconds > 0; }
};

// Returns the longest term of the prediction: "multiply", "l2" or "memory".
std::string limiting_term(const kernels::Prediction& prediction);

// Returns the tiles of a measured problem, from its contenders: each once, the fastest first, and those
// without a time last. `chosen` is the currently chosen tile.
std::vector<TunedTile> tuned_tiles(const ShapeResult& result, const std::string& chosen, int multiprocessors);

// The first returns text for people, and the second a JSON object for programs.
std::string tune_table(const Problem& problem, const std::vector<TunedTile>& tiles);
std::string tune_json(const Problem& problem, const std::vector<TunedTile>& tiles);

}  // namespace ptxbuilder::bench
