// Checks the result of a contender by comparing a sample of the elements with float64, and many rows with the
// result of another contender.
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

// Computes about `count` elements of the output in float64, some of them at its corners, and others that the
// seed selects. `inputs` are the inputs of the problem.
std::vector<Expected> expected_elements(const Problem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count = 200);

// Computes `count` elements of D. The tolerance is one rounding to D's type, plus the accuracy that is lost
// when the tensor core accumulates. This loss is 2^-20 of the sum of magnitudes for f32 accumulation, and
// 2^-10 for fast accumulation of fp8, which keeps about 14 bits. For integers the tolerance is 0.
std::vector<Expected> expected_elements(const GemmProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// Computes all columns of `count` / 8 rows of O, including the first and the last. The tolerance is the
// rounding of the weights and of O to their types.
std::vector<Expected> expected_elements(const AttentionProblem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count);

// The bits of rows of a matrix that were copied to the host. These are all rows if they have less than 64 MiB
// in total; otherwise they are as many rows as fit, at equal distances.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<std::byte> bytes;  // one row after the other, without gaps
};
Rows download(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
              size_t most_bytes = size_t{64} << 20);

// Returns a message with the first wrong element, or "" if there is none. A NaN counts as wrong.
std::string compare(const Gpu& gpu, const Matrix& matrix, runtime::View memory,
                    const std::vector<Expected>& expected);

// Compares two results, and returns a message or "", like the other compare(). The results may differ by
// twice the tolerance of the expected elements.
std::string compare(const Matrix& matrix, const Rows& got, const Rows& other,
                    const std::vector<Expected>& expected);

}  // namespace ptxbuilder::bench
