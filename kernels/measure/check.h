// Checks whether a contender's result is correct: a sample against float64, and the entire result against
// another contender's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/measure/random_matrix.h"
#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// The expected value of an element of the output, and the error that a correct kernel may have.
struct Expected {
  int64_t row, column;
  double value, tolerance;
};

using Elements = std::function<double(int64_t)>;  // returns an element of an input, in stored order

// Computes about `count` elements of the output in float64: some at its corners, and others that are drawn
// with a seed. `inputs` are the inputs of the problem.
std::vector<Expected> expected_elements(const Problem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count = 200);

// Computes `count` elements of D. The tolerance is one rounding to D's type, plus the loss in the tensor
// core's accumulation: 2^-20 of the sum of magnitudes in f32, or 2^-10 with fast accumulation of fp8, which
// keeps about 14 bits. For integers it is 0.
std::vector<Expected> expected_elements(const GemmProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// Computes all columns of `count` / 8 rows of O: the first, the last, and others. The tolerance is the
// rounding of the weights and of O to their types.
std::vector<Expected> expected_elements(const AttentionProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// Rows of a matrix that were copied to the host, as bits: all rows if they have less than 64 MiB, and
// otherwise as many as fit, evenly spread.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<std::byte> bytes;  // one row after the other, without gaps
};
Rows download(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
              size_t most_bytes = size_t{64} << 20);

// Returns a message with the first wrong element, or "" if there is none. A NaN is wrong.
std::string compare(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
                    const std::vector<Expected>& expected);

// Compares two results, which may differ by twice the tolerance of the expected elements.
std::string compare(const Matrix& matrix, const Rows& got, const Rows& other,
                    const std::vector<Expected>& expected);

}  // namespace ptxbuilder::bench
