// What the operations on rows are, in float64: what a kernel's results are held against.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// What a call reads, row by row, with its numbers and extents.
struct RowReference {
  std::map<std::string, std::vector<double>> given;
  std::map<std::string, double> numbers;
  std::map<std::string, int64_t> sizes;
};

// What an element should be, and by how much it may miss that where its tensor is of f32.
struct RowExpected {
  double value, tolerance;
};

// The elements of each tensor that belong to one row, by its name.
std::map<std::string, std::vector<RowExpected>> row_reference(const std::string& operation,
                                                              const RowReference& call, size_t row);

}  // namespace ptxbuilder::kernels
