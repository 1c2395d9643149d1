// Turns a convolution into products: finds their windows, and where their results are stored.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call/packed_pixels.h"
#include "kernels/call/permuted_copy.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::kernels {

// The memories of a convolution, which identify the addresses in a form.
enum class ConvolutionMemory : uint8_t { x, w, y, bias, workspace };

// A product with the copies before it and after it. Tensors that are copied, or that the product writes, are
// at the beginning of the workspace, and take `scratch` bytes in total.
struct ConvolutionProduct {
  MatmulArguments product;            // without workspace, stream and modes
  std::optional<ProductModes> modes;  // empty for a product of matrices
  std::vector<PackedPixels> ahead = {};
  std::vector<PermutedCopyForm> behind = {};
  size_t scratch = 0;
};

struct ConvolutionForm {
  bool fills = false;  // no window reaches some pixels of the result, so it is zeroed before the products
  std::vector<ConvolutionProduct> products;  // in order; empty if there is nothing to do
};

// Returns the form of a call with the addresses in `arguments`, and the form's own addresses for the
// workspace. Throws Error like Convolution. The memory is not accessed, so it need not exist.
ConvolutionForm convolution_form(const ConvolutionArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels
