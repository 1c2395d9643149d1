// A convolution of images, or one of its gradients, as one call on the host: products whose windows TMA
// loads.
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

// The tensor that the call writes; the other two are read. y is the convolution of x with w. x is the
// gradient of the input, computed from w and the gradient of the result in y. w is the gradient of the
// filters, computed from x and y.
enum class ConvolutionResult : uint8_t { y, x, w };

// y[image, p, q, filter] = activation(the sum over r, s and channels of x[image, p step - before + r spread,
// q .., channel] w[filter, r, s, channel] + bias[filter]), where x is zero outside its images. With groups,
// x's channels and the filters are divided into that many groups of equal size, and a filter has only the
// channels of its group. The types are those of MatmulArguments; in gradients, all tensors except the result
// have 16 bits. The last dimension of each tensor has stride 1. The pixels of y, and of an x that is the
// result, are a fixed stride apart from the first pixel of the first image to the last pixel of the last
// image.
//
// Placement: TMA reads the pixels under windows in place (im2col), without a copy, if the channels of a group
// in x, w and y are multiples of 16 bytes; other tensors are copied into the workspace, as in
// MatmulArguments. An x with up to 8 channels, which would fill only part of what is multiplied, is copied
// with padding for each line, so that a window's taps in a line are contiguous. A gradient of x with steps is
// one product for each position between two windows, and the results are copied to their positions. A result
// with pixels that no window reaches must have no gaps.
struct ConvolutionArguments {
  struct Along {
    int64_t step = 1;                // pixels from one window to the next, 1 to 8
    int64_t before = 0, behind = 0;  // pixels of zero padding before an image and after it
    int64_t spread = 1;              // pixels from one tap of a window to the next
  };
  ContractionTensor x, w, y;
  ConvolutionResult result = ConvolutionResult::y;
  Along along_h = {}, along_w = {};
  int64_t groups = 1;
  runtime::View bias = {};  // only for y, like the activation: one element of y's type for each filter
  Activation activation = Activation::none;
  bool fast_accumulation = true;  // as in MatmulArguments
  runtime::View workspace = {};   // at a multiple of 16; belongs to the call until the call has finished
  runtime::Stream stream = {};
};

// Stores kernels and tiles like Matmul. It must not outlive its device. Any thread may call it at any time.
class Convolution {
 public:
  explicit Convolution(runtime::Device& device, MatmulOptions options = {});
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  // Queues the call on the device. Throws Error that names the tensor, its extents and the rule.
  void operator()(const ConvolutionArguments& arguments, Where where = Where::here());
  size_t workspace_bytes(const ConvolutionArguments& arguments, Where where = Where::here());
  // Describes in one line how many products there are, what they are and which tiles they use.
  std::string explain(const ConvolutionArguments& arguments, Where where = Where::here());
  // Tunes like Matmul::tune().
  void tune(const ConvolutionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
