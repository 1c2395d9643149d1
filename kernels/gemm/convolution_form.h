// A convolution becomes products: this finds their windows, and where their results are stored.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call/packed_pixels.h"
#include "kernels/call/permuted_copy.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::kernels {

// The memories of a convolution, by which a form has its addresses.
enum class ConvolutionMemory : uint8_t { x, w, y, bias, workspace };

// A product has copies before it and after it. Tensors that are copied, or that the product writes, are in
// the workspace, from its start on, and together take `scratch` bytes.
struct ConvolutionProduct {
  MatmulArguments product;            // without workspace, stream and modes
  std::optional<ProductModes> modes;  // empty for a product of matrices
  std::vector<PackedPixels> ahead = {};
  std::vector<PermutedCopyForm> behind = {};
  size_t scratch = 0;
};

struct ConvolutionForm {
  bool fills = false;  // no window reaches some pixels of the result: it is zeroed before the products
  std::vector<ConvolutionProduct> products;  // in order; empty if there is nothing to do
};

// Returns the form of a call with the addresses of `arguments`, and those of a form for the workspace. Throws
// Error like Convolution. The memory is not accessed, so it need not exist.
ConvolutionForm convolution_form(const ConvolutionArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels
