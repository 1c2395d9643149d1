// Packed weights of the C interface.
#pragma once

#include "kernels/gemm/packed_weights.h"

namespace ptxbuilder::c {

// Decodes the number of a form: type | group << 8 | DLPack's code << 16 and bits << 24 of the scales. Throws
// Error for a number that is not a form.
kernels::PackedForm packed_form_of(int64_t form);

}  // namespace ptxbuilder::c
