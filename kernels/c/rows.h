// Converts the C structs for operations on rows to the library's types.
#pragma once

#include <string>
#include <vector>

#include "kernels/c/ptxb.h"
#include "kernels/rows/rows.h"

namespace ptxbuilder::c {

// Returns the call that a C struct describes. `gpu` is the GPU's number, or negative for the emulator. Throws
// Error if the struct is not valid.
kernels::RowCall read_rows(const ptxb_rows& given, int gpu);

// Reads a tensor. Throws Error if the tensor is not valid, or has gaps although `may_have_gaps` is false.
kernels::RowOperand read_row_operand(const std::string& name, const ptxb_tensor* tensor, int gpu,
                                     bool may_have_gaps = false);

// Returns the table of all operations, as JSON.
const std::string& rows_table();

}  // namespace ptxbuilder::c
