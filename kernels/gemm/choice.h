// Chooses a matrix product's tile without measuring: from a table of tuned tiles, or else with a model.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/model.h"

namespace ptxbuilder::kernels {

// A tile with the model's prediction for it.
struct Candidate {
  TilePlan tile;
  Prediction prediction;
};

// Returns the factor by which a tile's time is assumed to exceed the prediction when tiles are chosen: 1, or
// a little more for kinds of tiles that proved slower than predicted.
double doubt(const GemmTile& tile);
// Returns the prediction times doubt(), in microseconds, which decides between tiles.
inline double doubted(const Candidate& c) { return c.prediction.microseconds() * doubt(c.tile); }

// Returns all tiles in the menu that the operation allows, ordered by predicted time, fastest first.
std::vector<Candidate> candidates(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

// Returns the first `most` candidates by doubted(), without tiles that differ little from a better one: of
// tiles with the same rows and columns it returns at most two that divide the last wave of tiles, and two
// that do not.
std::vector<Candidate> shortlist(const GemmOperation& operation, const GemmSize& size, int multiprocessors,
                                 size_t most);

// Returns the tuned tile for exactly this product, if there is one. Epilogue and batches are ignored.
std::optional<TilePlan> tuned(const GemmOperation& operation, const GemmSize& size);

// The source of a tile: the table of tuned tiles, or the model.
enum class ChoiceSource : uint8_t { table, model };

// The tile that a product uses, with its source.
struct Choice {
  TilePlan tile;
  ChoiceSource source;
};

// Returns tuned(), or else the first tile of the shortlist. Throws Error that says what no tile supports.
Choice choice_of(const GemmOperation& operation, const GemmSize& size, int multiprocessors);
inline GemmTile choose(const GemmOperation& operation, const GemmSize& size, int multiprocessors) {
  return choice_of(operation, size, multiprocessors).tile;
}

// Returns the tiles that are worth measuring if there is time for it: the `chosen` tile, and the first twelve
// of the shortlist.
std::vector<GemmTile> tiles_to_measure(const GemmOperation& operation, const GemmSize& size,
                                       int multiprocessors, const GemmTile& chosen);

}  // namespace ptxbuilder::kernels
