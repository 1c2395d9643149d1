// The parameters of a matrix product's kernel, in the order that gemm() documents.
#pragma once

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

class GemmParameters : public Parameters {
 public:
  // Declares those that the operation has, and behind them the workspace of a tile that needs one.
  GemmParameters(Kernel& kernel, const GemmOperation& operation, const GemmTile& tile, Where where);
};

}  // namespace ptxbuilder::kernels
