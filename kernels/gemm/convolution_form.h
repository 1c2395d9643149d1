// A convolution becomes products: this finds their windows, and where their results go.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call/permuted_copy.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::kernels {

// One product. Where its result is copied, that begins `scratch` bytes long at the workspace's start.
struct ConvolutionProduct {
  MatmulArguments product;            // without workspace, stream and modes
  std::optional<ProductModes> modes;  // none of a product of matrices
  std::optional<PermutedCopy> behind = {};
  size_t scratch = 0;
};

struct ConvolutionForm {
  bool fills = false;  // pixels of the result are reached by no window: it is made zero ahead of the products
  std::vector<ConvolutionProduct> products;  // one behind the other; none where nothing is to be done
};

// Throws Error as Convolution does. Memory may be that of nobody.
ConvolutionForm convolution_form(const ConvolutionArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels
