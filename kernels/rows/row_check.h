// Checks the arguments of a call on rows against the description of its operation.
#pragma once

#include <map>
#include <string>

#include "kernels/rows/rows.h"

namespace ptxbuilder::kernels {

// A call whose types and extents have been checked.
struct CheckedRows {
  std::map<std::string, int64_t> sizes;  // extents by name
  RowProblem problem;
  bool is_empty = false;  // true: there are no rows

  int64_t rows() const { return sizes.at("rows"); }
  int64_t columns() const { return sizes.at("columns"); }
};

// Checks a call. Throws an Error that names the tensor, the violated rule and the value.
CheckedRows check_rows(const RowCall& call, Where where);
// Throws an Error if a tensor with elements has address 0.
void check_row_addresses(const RowCall& call, Where where);

}  // namespace ptxbuilder::kernels
