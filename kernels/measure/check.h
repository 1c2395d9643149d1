// Checks whether a contender's result is right: a sample against float64, and all of it against another's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/measure/random_matrix.h"
#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// An element of the output should be this, and a right kernel may miss it by so much.
struct Expected {
  int64_t row, column;
  double value, tolerance;
};

using Elements = std::function<double(int64_t)>;  // of an input, as they are stored

// It computes about `count` elements of the output in float64: some at its corners, and others that a seed
// chooses. `inputs` are those of the problem.
std::vector<Expected> expected_elements(const Problem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count = 200);

// It gives `count` elements of D. The tolerance is one rounding to D's type, and what the tensor core's
// accumulation loses: 2^-20 of the sum of magnitudes in f32, 2^-10 with fast accumulation of fp8, which keeps
// some 14 bits; nothing for integers.
std::vector<Expected> expected_elements(const GemmProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// It gives all columns of `count` / 8 rows of O: of the first, the last, and others. The tolerance is the
// rounding of the weights and of O to their type.
std::vector<Expected> expected_elements(const AttentionProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// It copies rows of a matrix as bits to the host: all where it has less than 64 MiB, else as many as that
// holds, evenly spread.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<std::byte> bytes;  // of row after row, without gaps
};
Rows download(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
              size_t most_bytes = size_t{64} << 20);

// This says what is wrong, with the first wrong element; "" when nothing is. A NaN is wrong.
std::string compare(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
                    const std::vector<Expected>& expected);

// This compares two results: they may differ by two tolerances of the elements that were expected.
std::string compare(const Matrix& matrix, const Rows& got, const Rows& other,
                    const std::vector<Expected>& expected);

}  // namespace ptxbuilder::bench
