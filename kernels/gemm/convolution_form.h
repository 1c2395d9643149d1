// Turns a convolution into products. Determines the windows of each product, and where its results are
// stored.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call/packed_pixels.h"
#include "kernels/call/permuted_copy.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::kernels {

// The tensors of a convolution and its workspace. A form refers to memory by these identifiers.
enum class ConvolutionMemory : uint8_t { x, w, y, bias, workspace };

// A product, with the copies that run before it (`ahead`) and after it (`behind`). The workspace begins with
// the copies of tensors and the temporary results, which occupy `scratch` bytes in total.
struct ConvolutionProduct {
  MatmulArguments product;            // workspace, stream and modes are not set
  std::optional<ProductModes> modes;  // empty if the product multiplies plain matrices
  std::vector<PackedPixels> ahead = {};
  std::vector<PermutedCopyForm> behind = {};
  size_t scratch = 0;
};

struct ConvolutionForm {
  bool fills =
      false;  // true: the result is filled with zeros first, because no window reaches some of its pixels
  std::vector<ConvolutionProduct> products;  // in the order of execution; empty if there is nothing to do
};

// Returns the form of a call. The form's tensors have the addresses in `arguments`, and the workspace has
// placeholder addresses. Throws an Error if Convolution would. The memory is not accessed, so it need not
// exist.
ConvolutionForm convolution_form(const ConvolutionArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels
