// This chooses a matrix product's tile without measuring: from a table of tuned tiles, or else from a model.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/model.h"

namespace ptxbuilder::kernels {

// A tile, and the model's prediction for it.
struct Candidate {
  TilePlan tile;
  Prediction prediction;
};

// The factor by which a tile is assumed to exceed its prediction when tiles are chosen: 1, or a little more
// for kinds of tiles that turned out slower than predicted.
double doubt(const GemmTile& tile);
// Returns the prediction times that factor, in microseconds, which decides between tiles.
inline double doubted(const Candidate& c) { return c.prediction.microseconds() * doubt(c.tile); }

// Returns all tiles of the menu that the operation allows, beginning with the fastest in the model.
std::vector<Candidate> candidates(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

// Returns the first `most` of them by doubted(), omitting tiles that differ little from a better one: at most
// two with the same rows and columns that divide the last wave of tiles, and two that do not.
std::vector<Candidate> shortlist(const GemmOperation& operation, const GemmSize& size, int multiprocessors,
                                 size_t most);

// Returns the tuned tile of exactly this product, if there is one. Epilogue and batches do not matter.
std::optional<TilePlan> tuned(const GemmOperation& operation, const GemmSize& size);

// The source of a tile: the table of tuned tiles, or the model.
enum class ChoiceSource : uint8_t { table, model };

// The tile that a product uses.
struct Choice {
  TilePlan tile;
  ChoiceSource source;
};

// Returns tuned(), or else the first of the shortlist. Throws Error that says what no tile supports.
Choice choice_of(const GemmOperation& operation, const GemmSize& size, int multiprocessors);
inline GemmTile choose(const GemmOperation& operation, const GemmSize& size, int multiprocessors) {
  return choice_of(operation, size, multiprocessors).tile;
}

// Returns the tiles that are worth measuring if there is time for it: the `chosen` tile, and the first twelve
// of the shortlist.
std::vector<GemmTile> tiles_to_measure(const GemmOperation& operation, const GemmSize& size,
                                       int multiprocessors, const GemmTile& chosen);

}  // namespace ptxbuilder::kernels
