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

// One of the three tensors is the call's result, and the others are read: y is the convolution of x by w, x
// the gradient of its input where y has that of its result, and w the gradient of its filters.
enum class ConvolutionResult : uint8_t { y, x, w };

// y[image, p, q, filter] = activation(the sum over r, s and channels of
// x[image, p step - before + r spread, q .., channel] w[filter, r, s, channel] + bias[filter]), where x is
// zero outside of its images. With groups, x's channels and the filters are so many groups of equally many,
// and a filter has the channels of its group alone.
//
// Types are those of MatmulArguments, of 16 bits in gradients but for the result. Of each tensor the last
// dimension has the stride 1, and the pixels of y, and of the x that is a result, one stride from the first
// of the first image to the last of the last one.
//
// Placement: TMA walks over the pixels under windows as they lie (im2col), so that no copy is made, where
// channels of a group, in x, w and y, have multiples of 16 bytes; others are copied into the workspace, as in
// MatmulArguments. Up to 8 channels of x, which would fill a part of what is multiplied, are copied with a
// line's padding, so that a window has a line's taps side by side. A gradient of x with steps is a product
// for each place between two windows, whose results are copied to where they belong. A result that no window
// reaches, all or in part, has no gaps.
struct ConvolutionArguments {
  struct Along {
    int64_t step = 1;                // pixels from a window to the next, 1 to 8
    int64_t before = 0, behind = 0;  // pixels of zeros before an image and after it
    int64_t spread = 1;              // pixels from a tap of a window to the next
  };
  ContractionTensor x, w, y;
  ConvolutionResult result = ConvolutionResult::y;
  Along along_h = {}, along_w = {};
  int64_t groups = 1;
  runtime::View bias = {};  // of y alone, as the activation: an element of y's type for each filter
  Activation activation = Activation::none;
  bool fast_accumulation = true;  // as in MatmulArguments
  runtime::View workspace = {};   // at a multiple of 16, of the call until it is done
  runtime::Stream stream = {};
};

// Keeps kernels and tiles as Matmul does. Not to outlive its device. Any thread may call it at any time.
class Convolution {
 public:
  explicit Convolution(runtime::Device& device, MatmulOptions options = {});
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  // Queues the call on the device. Throws Error that names the tensor, its extents and the rule.
  void operator()(const ConvolutionArguments& arguments, Where where = Where::here());
  size_t workspace_bytes(const ConvolutionArguments& arguments, Where where = Where::here());
  // Says how many products there are, what they are and which tiles they have, in a line.
  std::string explain(const ConvolutionArguments& arguments, Where where = Where::here());
  // It does as Matmul::tune().
  void tune(const ConvolutionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
