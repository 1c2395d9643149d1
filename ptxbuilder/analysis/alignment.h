// Aligns two sequences by finding elements that correspond to each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ptxbuilder::analysis {

// Returns the pairs of positions, ascending in both sequences, that have the largest sum of weights. If each
// weight is 1, the result is the longest common subsequence. `worth(i, j)` is the weight of the pair (i, j),
// or 0 if i and j cannot be a pair. The running time is proportional to rows x columns.
template <typename Worth>
std::vector<std::pair<size_t, size_t>> align(size_t rows, size_t columns, const Worth& worth) {
  std::vector<std::vector<uint32_t>> best(rows + 1, std::vector<uint32_t>(columns + 1, 0));
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;) {
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      if (const uint32_t w = worth(i, j)) best[i][j] = std::max(best[i][j], best[i + 1][j + 1] + w);
    }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    const uint32_t w = worth(i, j);
    if (w && best[i][j] == best[i + 1][j + 1] + w)
      pairs.emplace_back(i++, j++);
    else if (best[i][j] == best[i + 1][j])
      ++i;
    else
      ++j;
  }
  return pairs;
}

}  // namespace ptxbuilder::analysis
