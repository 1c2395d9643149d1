// Offers the rows that have short names (names.def) or are members of families (families.def).
//
//   isa::rows_def::mbarrier_init                the row with a short name, a constant
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row of a member, a constant
//   isa::ldmatrix({.matrices = 4})              the row of the same member, found in a table at run time
//
// An invalid form causes a compile error or, if the table is used, an Error.
//
// The build generates the rows from the manual (print/), because the compiler would need about 20 ms to parse
// each row that a kernel uses.
#pragma once

#include <span>
#include <vector>

#include "ptxbuilder/isa/printed_rows.h"

namespace ptxbuilder::isa {

// Returns every row with a short name, followed by every member of a family.
std::span<const Row> rows();

// Returns the row with this function name, or null if there is none.
const Row* find(std::string_view name);

// Returns the typed C++ call of a row in the table, such as "mbarrier_init" or "ldmatrix<MatrixForm{.matrices
// = 4}>".
std::string_view typed_call(const Row& row);

constexpr int wgmma_depth(DType ab) { return 32 / size_of(ab); }  // returns k in elements, which is 32 bytes

// Returns whether wgmma supports `n` columns for accumulators of type `d`.
bool wgmma_has_width(DType d, int n);

// Returns the number of columns of each wgmma in a product with n columns, which is n or, if one wgmma cannot
// have n columns, n / 2. Returns 0 if neither number is possible.
int wgmma_width_of(DType d, int n);

// Returns the element types for which cp.reduce.async.bulk supports this reduction.
std::vector<DType> types_of(CopyReduction reduction);

}  // namespace ptxbuilder::isa
