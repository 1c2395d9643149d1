// This chooses a matrix product's tile without measuring: from a table of tuned ones, else from a model.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/model.h"

namespace ptxbuilder::kernels {

// A tile, and what the model predicts of it.
struct Candidate {
  TilePlan tile;
  Prediction prediction;
};

// A tile is taken to need so many times its prediction where tiles are chosen: 1, and a little more of kinds
// that came out slower than predicted.
double doubt(const GemmTile& tile);
// The prediction with that, in microseconds, by which tiles are chosen.
inline double doubted(const Candidate& c) { return c.prediction.microseconds() * doubt(c.tile); }

// All tiles of the menu that the operation allows, the fastest first by the model.
std::vector<Candidate> candidates(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

// The first of them by doubted(), without what differs little from a better one: at most
// two of the same rows and columns that divide the last wave of tiles, and two that do not.
std::vector<Candidate> shortlist(const GemmOperation& operation, const GemmSize& size, int multiprocessors,
                                 size_t most);

// The tuned tile of just this product, if there is one. Epilogue and batches play no part.
std::optional<TilePlan> tuned(const GemmOperation& operation, const GemmSize& size);

// A tile comes from the table of tuned tiles, or from the model.
enum class ChoiceSource : uint8_t { table, model };

// The tile that a product runs with.
struct Choice {
  TilePlan tile;
  ChoiceSource source;
};

// tuned(), else the first of the shortlist. Throws Error that says what no tile can serve.
Choice choice_of(const GemmOperation& operation, const GemmSize& size, int multiprocessors);
inline GemmTile choose(const GemmOperation& operation, const GemmSize& size, int multiprocessors) {
  return choice_of(operation, size, multiprocessors).tile;
}

// These are worth measuring where there is time for it: the `chosen` tile, and the first twelve of the
// shortlist.
std::vector<GemmTile> tiles_to_measure(const GemmOperation& operation, const GemmSize& size,
                                       int multiprocessors, const GemmTile& chosen);

}  // namespace ptxbuilder::kernels
