// This computes the operations on rows in float64, against which a kernel's results are held.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// A call reads this, row by row, with its numbers and extents.
struct RowReference {
  std::map<std::string, std::vector<double>> given;
  std::map<std::string, double> numbers;
  std::map<std::string, int64_t> sizes;
};

// An element should be `value`, and may miss it by `tolerance` where its tensor is of f32.
struct RowExpected {
  double value, tolerance;
};

// It gives the elements of each tensor that belong to one row, by its name.
std::map<std::string, std::vector<RowExpected>> row_reference(const std::string& operation,
                                                              const RowReference& call, size_t row);

// It gives one element of a tensor that is updated, whose elements before the call are among `given`.
RowExpected updated_reference(const std::string& operation, const RowReference& call,
                              const std::string& tensor, size_t element);

}  // namespace ptxbuilder::kernels
