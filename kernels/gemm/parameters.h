// The parameters of a matrix product's kernel, in the order documented at gemm() in kernel.h.
#pragma once

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// A parameter of a user's epilogue, which is a 32-bit scalar or a pointer.
struct UserParameter {
  std::string name;
  Parameter::Kind kind = Parameter::Kind::pointer;
  DType type = DType::f32;
  std::string meaning = {};
};

// Declares the parameters of a product's kernel and returns them by name.
class GemmParameters : public Parameters {
 public:
  // Declares A, B, D, the sizes, the other operands that the operation has, the user's parameters, `batches`
  // and, if the tile needs one, the workspace.
  GemmParameters(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
                 const std::vector<UserParameter>& user, Where where);

  // Returns the parameters that hold the extents of all modes of `axis` except the last. For axis "m", they
  // are named "m0", "m1" and so on.
  std::vector<u32> extents(const std::string& axis, int modes) const;

  // Returns the name of the parameter that holds the distance between consecutive rows of a matrix.
  static std::string stride_of(const ProductOperandRow& matrix);
};

}  // namespace ptxbuilder::kernels
