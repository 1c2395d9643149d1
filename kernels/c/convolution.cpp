#include "kernels/c/convolution.h"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/c/contraction.h"
#include "kernels/c/grown.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {

kernels::ConvolutionArguments read_convolution(const ptxb_convolution& given_convolution, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_convolution, precise) + sizeof given_convolution.precise;
  const ptxb_convolution c =
      grown(given_convolution, PTXB_CONVOLUTION_INIT, kFirst, "ptxb_convolution", "PTXB_CONVOLUTION_INIT");
  if (c.result < PTXB_CONVOLUTION_Y || c.result > PTXB_CONVOLUTION_W)
    throw Error(fmt::format("result {} is not a ptxb_convolution_result", c.result));
  if (c.activation < 0 || static_cast<size_t>(c.activation) >= kernels::activation_words.size())
    throw Error(fmt::format("activation {} is not a ptxb_activation", c.activation));
  kernels::ConvolutionArguments p;
  p.x = strided_tensor("x", c.x, gpu), p.w = strided_tensor("w", c.w, gpu),
  p.y = strided_tensor("y", c.y, gpu);
  p.result = static_cast<kernels::ConvolutionResult>(c.result);
  p.activation = static_cast<kernels::Activation>(c.activation);
  for (kernels::ContractionTensor* one : {&p.x, &p.w})
    if (p.result == kernels::ConvolutionResult::y && one->type == DType::f32) {
      if (!c.tf32) throw Error("the tensor cores truncate f32 x and w to tf32: set `tf32` to allow it");
      one->type = DType::tf32;
    }
  const auto along = [&](size_t d) {
    return kernels::ConvolutionArguments::Along{
        .step = c.step[d], .before = c.before[d], .behind = c.behind[d], .spread = c.spread[d]};
  };
  p.along_h = along(0), p.along_w = along(1);
  p.groups = c.groups;
  if (c.bias) {
    const Placed bias("bias", c.bias, gpu);
    if (bias.rank() != 1 || bias.extent(0) != p.w.extents[0] || (bias.extent(0) > 1 && bias.stride(0) != 1) ||
        bias.type != p.y.type)
      throw Error(
          fmt::format("bias: it is {} in {} dimensions, but must have one dimension of {} contiguous {} "
                      "elements, one for each filter",
                      name(bias.type), bias.rank(), p.w.extents[0], name(p.y.type)));
    p.bias = bias.memory();
  }
  p.fast_accumulation = !c.precise;
  return p;
}

}  // namespace ptxbuilder::c
