// The operations on rows. Each is defined in the file with its name, together with its gradient.
#pragma once

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

RowOperation rms_norm();
RowOperation rms_norm_gradient();
RowOperation rms_scale();
RowOperation layer_norm();
RowOperation layer_norm_gradient();
RowOperation softmax();
RowOperation softmax_gradient();
RowOperation cross_entropy();
RowOperation cross_entropy_gradient();
RowOperation cumsum();
RowOperation embedding();
RowOperation rotary();
RowOperation rotary_gradient();
RowOperation append();
RowOperation mla_append();
RowOperation quantize_1x128();
RowOperation silu_gate_quantize_1x128();
RowOperation quantize_128x1();
RowOperation top_k();
RowOperation transpose();
// The operation that runs after an operation with summed results. It is not listed in row_operations().
RowOperation row_sums();

}  // namespace ptxbuilder::kernels
