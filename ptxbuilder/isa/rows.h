// Each row here has a short name (names.def), a constant with which calls are typed at compile time, or is a
// member of a family (families.def).
//
//   isa::rows_def::mbarrier_init                the row of a short name, a constant
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row of a member, a constant
//   isa::ldmatrix({.matrices = 4})              the same row, found in a table at run time
//
// An invalid form does not compile; when the table is used, it throws Error.
//
// The build generates the rows from the manual (print/), since parsing one row would take the compiler of a
// kernel about 20 ms.
#pragma once

#include <span>
#include <vector>

#include "ptxbuilder/isa/printed_rows.h"

namespace ptxbuilder::isa {

// Returns every row with a short name, followed by every member of a family.
std::span<const Row> rows();

// Returns the row with this function name, or null if there is none.
const Row* find(std::string_view name);

// Returns the typed C++ call of a row in the table: "mbarrier_init", "ldmatrix<MatrixForm{.matrices = 4}>".
std::string_view typed_call(const Row& row);

constexpr int wgmma_depth(DType ab) { return 32 / size_of(ab); }  // k: 32 bytes

// Returns whether wgmma has this n for accumulators of type d.
bool wgmma_has_width(DType d, int n);

// Returns the columns of each wgmma for a product with n columns: n or, if one wgmma cannot have n columns,
// half of n; 0 if neither is possible.
int wgmma_width_of(DType d, int n);

// Returns the element types for which cp.reduce.async.bulk supports this reduction.
std::vector<DType> types_of(CopyReduction reduction);

}  // namespace ptxbuilder::isa
