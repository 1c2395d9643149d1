// The parameters of a matrix product's kernel, in the order that gemm() documents.
#pragma once

#include <map>

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

class GemmParameters {
 public:
  // Declares those that the operation has, and behind them the workspace of a tile that needs one.
  GemmParameters(Kernel& kernel, const GemmOperation& operation, const GemmTile& tile, Where where);

  // The value of one of them, as what it was declared.
  template <class T>
  T get(const std::string& name) const {
    return T(values_[index_.at(name)].handle());
  }

 private:
  std::vector<Value> values_;
  std::map<std::string, size_t> index_;
};

}  // namespace ptxbuilder::kernels
