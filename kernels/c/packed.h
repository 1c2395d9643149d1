// Decodes the forms of packed weights that the C interface passes as numbers.
#pragma once

#include "kernels/gemm/packed_weights.h"

namespace ptxbuilder::c {

// Decodes the number of a form, which is type | group << 8 | code << 16 | bits << 24, where `code` and `bits`
// are the fields of the DLPack type of the scales. Throws Error if the number does not describe a form.
kernels::PackedForm packed_form_of(int64_t form);

}  // namespace ptxbuilder::c
