// Chooses the tile of a matrix product without measuring. The tile comes from a table of tuned tiles or, if
// the table does not list the product, from a model.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/model.h"

namespace ptxbuilder::kernels {

// A tile, and the model's prediction for this tile.
struct Candidate {
  TilePlan tile;
  Prediction prediction;
};

// Returns the factor that multiplies the predictions for a tile before tiles are compared. It is 1, or
// slightly more for kinds of tiles that proved slower than predicted.
double doubt(const GemmTile& tile);
// Returns the predicted time times doubt(), in microseconds. Tiles are compared by this number.
inline double doubted(const Candidate& c) { return c.prediction.microseconds() * doubt(c.tile); }

// Returns all tiles of the menu that the operation allows, sorted by predicted time, fastest first.
std::vector<Candidate> candidates(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

// Returns the `most` best candidates by doubted(), but skips tiles that differ little from a better tile.
// Among tiles with equal numbers of rows and columns, at most two that divide the last wave are returned, and
// at most two that do not.
std::vector<Candidate> shortlist(const GemmOperation& operation, const GemmSize& size, int multiprocessors,
                                 size_t most);

// Returns the tile that tuned.def lists for this product, if any. Types, layout, m, n and k must match
// exactly; the epilogue and batches are ignored.
std::optional<TilePlan> tuned(const GemmOperation& operation, const GemmSize& size);

// The source of a tile: the table of tuned tiles (tuned.def), or the model.
enum class ChoiceSource : uint8_t { table, model };

// The tile that a product uses, and the tile's source.
struct Choice {
  TilePlan tile;
  ChoiceSource source;
};

// Returns the tile from tuned() if there is one, and otherwise the first tile of the shortlist. If no tile
// supports the operation, throws an Error that explains why.
Choice choice_of(const GemmOperation& operation, const GemmSize& size, int multiprocessors);
inline GemmTile choose(const GemmOperation& operation, const GemmSize& size, int multiprocessors) {
  return choice_of(operation, size, multiprocessors).tile;
}

// Returns the tiles worth measuring when a product is tuned, which are the `chosen` tile and the first twelve
// of the shortlist.
std::vector<GemmTile> tiles_to_measure(const GemmOperation& operation, const GemmSize& size,
                                       int multiprocessors, const GemmTile& chosen);

}  // namespace ptxbuilder::kernels
