// Checks the arguments of a call on rows against the table of its operation.
#pragma once

#include <map>
#include <string>

#include "kernels/rows/rows.h"

namespace ptxbuilder::kernels {

// The results of checking the types and extents of a call.
struct CheckedRows {
  std::map<std::string, int64_t> sizes;  // indexed with the table's words
  RowProblem problem;
  bool is_empty = false;  // there is no row

  int64_t rows() const { return sizes.at("rows"); }
  int64_t columns() const { return sizes.at("columns"); }
};

// Throws Error that names the tensor, the rule and the value.
CheckedRows check_rows(const RowCall& call, Where where);
// Throws Error for a call that would run with a tensor at address 0.
void check_row_addresses(const RowCall& call, Where where);

}  // namespace ptxbuilder::kernels
