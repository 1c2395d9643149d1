// Which tile a matrix product gets, without measuring: from a table of tuned ones, else from a model.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

struct GemmSize {
  int64_t m = 0, n = 0, k = 0, batches = 1;
};

// What the model says of a tile, in microseconds: of the SMs' steps, of L2, and of the GPU's memory, which
// act at once, and of what happens once for a launch and for each tile.
struct Prediction {
  double multiply = 0, l2 = 0, memory = 0, overhead = 0;

  double microseconds() const;
};

// For an H100 SXM or H200 with `multiprocessors` SMs. The tile has its bk and stages (see checked()).
Prediction predict(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile,
                   int multiprocessors);

struct Candidate {
  GemmTile tile;
  Prediction prediction;
};

// All tiles of the menu that the operation allows, the fastest first by the model.
std::vector<Candidate> candidates(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

// The tuned tile of just this product, if there is one. Epilogue and batches play no part.
std::optional<GemmTile> tuned(const GemmOperation& operation, const GemmSize& size);

// tuned(), else the first of the candidates.
GemmTile choose(const GemmOperation& operation, const GemmSize& size, int multiprocessors);

}  // namespace ptxbuilder::kernels
