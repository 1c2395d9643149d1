// A row has a short name (names.def), which is a constant, so that a call is typed at compile time, or is a
// member of a family (families.def).
//
//   isa::rows_def::mbarrier_init                the row of a short name, a constant
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row of a member, a constant
//   isa::ldmatrix({.matrices = 4})              the same from the table
//
// A wrong form does not compile; from the table, it throws Error.
//
// The build prints the rows from the manual (print/), since parsing one row takes a kernel's compiler some 20
// ms.
#pragma once

#include <span>
#include <vector>

#include "ptxbuilder/isa/printed_rows.h"

namespace ptxbuilder::isa {

// Returns every row with a short name, then every member of a family.
std::span<const Row> rows();

// Returns the row with that function name, or null if there is none.
const Row* find(std::string_view name);

// Returns the typed C++ call of a row of the table: "mbarrier_init", "ldmatrix<MatrixForm{.matrices = 4}>".
std::string_view typed_call(const Row& row);

constexpr int wgmma_depth(DType ab) { return 32 / size_of(ab); }  // k: 32 bytes

// Returns whether wgmma has this n for accumulators of type d.
bool wgmma_has_width(DType d, int n);

// Returns the columns of each wgmma that computes n columns of sums: n or, if one wgmma does not allow n
// columns, half of n; 0 if neither is allowed.
int wgmma_width_of(DType d, int n);

// Returns the element types for which cp.reduce.async.bulk has this reduction.
std::vector<DType> types_of(CopyReduction reduction);

}  // namespace ptxbuilder::isa
