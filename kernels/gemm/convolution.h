// Computes a convolution of images, or one of its gradients, in one call on the host. The call queues matrix
// products, and TMA loads the windows.
//
//   Convolution convolution(*device);
//   ConvolutionArguments p;
//   p.x = {.memory = x, .type = DType::f16, .extents = {8, 56, 56, 64}};  // images, lines, pixels, channels
//   p.w = {.memory = w, .type = DType::f16, .extents = {128, 3, 3, 64}};  // filters, lines, pixels, channels
//   p.y = {.memory = y, .type = DType::f16, .extents = {8, 28, 28, 128}};  // images, lines, pixels, filters
//   p.along_h = p.along_w = {.step = 2, .before = 1, .behind = 1};
//   if (size_t bytes = convolution.workspace_bytes(p)) p.workspace = workspace = ...;
//   convolution(p);  // queued
#pragma once

#include <memory>
#include <string>

#include "kernels/gemm/contraction.h"

namespace ptxbuilder::kernels {

// The tensor that the call writes; the call reads the other two. `y` selects the convolution of x with w. `x`
// selects the gradient of the input, computed from w and from y, which holds the gradient of the result. `w`
// selects the gradient of the filters, computed from x and y.
enum class ConvolutionResult : uint8_t { y, x, w };

// Defines y[image, p, q, filter] = activation(the sum over r, s and channels of x[image, p step - before + r
// spread, q .., channel] w[filter, r, s, channel] + bias[filter]), where x is zero outside its images.
// `groups` divides the channels of x and the filters into groups of equal size, and a filter has only the
// channels of its group. The types are those that MatmulArguments allows; for gradients, all tensors except
// the result must have 16-bit types. The last dimension of each tensor must have stride 1. The pixels of y,
// and of x if x is the result, must be a fixed stride apart, from the first pixel of the first image to the
// last pixel of the last image.
//
// Placement: TMA reads the pixels of windows in place (im2col mode) if the channels of a group occupy a
// multiple of 16 bytes in x, w and y. Other tensors are first copied into the workspace, as for
// MatmulArguments. An x with up to 8 channels would fill only part of a stage; it is copied, line by line and
// with padding, so that a window's taps within a line are contiguous. If windows move in steps greater than
// 1, the gradient of x requires one product for each pixel position within a step, and copies move the
// results to their pixels. If no window reaches some pixels of the result, the result must have no gaps.
struct ConvolutionArguments {
  struct Along {
    int64_t step = 1;                // pixels from one window to the next; 1 to 8
    int64_t before = 0, behind = 0;  // pixels of zero padding before and after an image
    int64_t spread = 1;              // pixels from one tap of a window to the next
  };
  ContractionTensor x, w, y;
  ConvolutionResult result = ConvolutionResult::y;
  Along along_h = {}, along_w = {};
  int64_t groups = 1;
  runtime::View bias =
      {};  // one element of y's type for each filter; bias and activation require that the result is y
  Activation activation = Activation::none;
  bool fast_accumulation = true;  // see MatmulArguments
  runtime::View workspace =
      {};  // begins at a multiple of 16 bytes; may not be used until the call has finished
  runtime::Stream stream = {};
};

// Computes convolutions, and caches kernels and tiles like Matmul. The object must not outlive its device.
// Any thread may call it at any time.
class Convolution {
 public:
  explicit Convolution(runtime::Device& device, MatmulOptions options = {});
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  // Queues one convolution on the device. Throws an Error that names the tensor, its extents and the violated
  // rule.
  void operator()(const ConvolutionArguments& arguments, Where where = Where::here());
  size_t workspace_bytes(const ConvolutionArguments& arguments, Where where = Where::here());
  // Returns one line that contains the number of matrix products of the call, and the size, the operands and
  // the tile of the first product.
  std::string explain(const ConvolutionArguments& arguments, Where where = Where::here());
  // Finds the fastest tiles, as Matmul::tune() does.
  void tune(const ConvolutionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
