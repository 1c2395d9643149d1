// The parameters of a matrix product's kernel, in the order that gemm() documents.
#pragma once

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// A parameter of a user's epilogue: a 32-bit scalar or a pointer.
struct UserParameter {
  std::string name;
  Parameter::Kind kind = Parameter::Kind::pointer;
  DType type = DType::f32;
  std::string meaning = {};
};

// The parameters of a product's kernel.
class GemmParameters : public Parameters {
 public:
  // Declares A, B, D and the sizes, the operands that the operation has, the user's parameters, `batches`,
  // and the workspace if the tile needs one.
  GemmParameters(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
                 const std::vector<UserParameter>& user, Where where);

  // Returns the extents of all modes of an axis except the last, such as "m0" and "m1" for m.
  std::vector<u32> extents(const std::string& axis, int modes) const;

  // Returns the name of the parameter that holds the distance between the matrix's rows.
  static std::string stride_of(const ProductOperandRow& matrix);
};

}  // namespace ptxbuilder::kernels
