// Computes the expected results of operations on rows in float64.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// The inputs of a call. `given` holds the elements of the input tensors in row-major order.
struct RowReference {
  std::map<std::string, std::vector<double>> given;
  std::map<std::string, double> numbers;
  std::map<std::string, int64_t> sizes;
};

// An expected element. `tolerance` bounds its error if the tensor is f32.
struct RowExpected {
  double value, tolerance;
};

// Returns a map from the name of each result to its expected elements in row `row`.
std::map<std::string, std::vector<RowExpected>> row_reference(const std::string& operation,
                                                              const RowReference& call, size_t row);

// Returns one element of a tensor that is updated in place. call.given must include its elements before the
// call.
RowExpected updated_reference(const std::string& operation, const RowReference& call,
                              const std::string& tensor, size_t element);

}  // namespace ptxbuilder::kernels
