// Computes the expected results of operations on rows, in float64.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// The inputs of a call, row by row, with its numbers and extents.
struct RowReference {
  std::map<std::string, std::vector<double>> given;
  std::map<std::string, double> numbers;
  std::map<std::string, int64_t> sizes;
};

// The expected element: `value`, with an error of up to `tolerance` if its tensor is f32.
struct RowExpected {
  double value, tolerance;
};

// Returns the expected elements of one row, indexed with the tensor's name.
std::map<std::string, std::vector<RowExpected>> row_reference(const std::string& operation,
                                                              const RowReference& call, size_t row);

// Returns one element of an updated tensor; `given` includes the tensor's elements before the call.
RowExpected updated_reference(const std::string& operation, const RowReference& call,
                              const std::string& tensor, size_t element);

}  // namespace ptxbuilder::kernels
