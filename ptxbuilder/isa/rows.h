// Rows have short names (names.def), each a constant, so that a call is typed at compile time, or are members
// of families (families.def).
//
//   isa::rows_def::mbarrier_init                the row of a short name, a constant
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row of a member, a constant
//   isa::ldmatrix({.matrices = 4})              the same from the table
//
// A wrong form does not compile, or throws Error where it comes from the table.
//
// The build prints them from the manual (print/), for reading it costs a kernel's author some 20 ms a row.
#pragma once

#include <span>
#include <vector>

#include "ptxbuilder/isa/printed_rows.h"

namespace ptxbuilder::isa {

// Gives every row with a short name, then every member of a family.
std::span<const Row> rows();

// Finds the row of that function name; null where there is none.
const Row* find(std::string_view name);

// Gives the typed call of a row of the table in C++: "mbarrier_init", "ldmatrix<MatrixForm{.matrices = 4}>".
std::string_view typed_call(const Row& row);

constexpr int wgmma_depth(DType ab) { return 32 / size_of(ab); }  // k: 32 bytes

// Tells whether there is such an n for accumulators of type d.
bool wgmma_has_width(DType d, int n);

// Gives the columns of each of the wgmmas that make n columns of sums: all, or where n is wider than one has
// them, half; 0 where there is no such n.
int wgmma_width_of(DType d, int n);

// Gives the types whose elements cp.reduce.async.bulk reduces so.
std::vector<DType> types_of(CopyReduction reduction);

}  // namespace ptxbuilder::isa
