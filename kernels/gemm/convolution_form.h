// A convolution becomes products: this finds their windows, and where their results go.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call/packed_pixels.h"
#include "kernels/call/permuted_copy.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::kernels {

// A product has copies ahead of it and after it. What is copied, or comes from the product, has its
// place in the workspace, by an address from its start, and these take `scratch` bytes.
struct ConvolutionProduct {
  MatmulArguments product;            // without workspace, stream and modes
  std::optional<ProductModes> modes;  // none of a product of matrices
  std::vector<PackedPixels> ahead = {};
  std::optional<PermutedCopy> behind = {};
  bool a_is_near = false, b_is_near = false, d_is_near = false;  // in the workspace
  size_t scratch = 0;
};

struct ConvolutionForm {
  bool fills = false;  // pixels of the result are reached by no window: it is made zero ahead of the products
  std::vector<ConvolutionProduct> products;  // one after another; none where nothing is to be done
};

// Throws Error as Convolution does. Memory may be that of nobody.
ConvolutionForm convolution_form(const ConvolutionArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels
