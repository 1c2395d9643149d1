#include "kernels/c/contraction.h"

#include <cstddef>

#include "kernels/c/grown.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {

kernels::ContractionTensor strided_tensor(const char* name, const ptxb_tensor* tensor, int gpu) {
  constexpr size_t kMostRank = 8;
  const Placed t(name, tensor, gpu, kMostRank);
  kernels::ContractionTensor x{.memory = t.memory(), .type = t.type};
  for (size_t i = 0; i < t.rank(); ++i) {
    x.extents.push_back(t.extent(i));
    x.strides.push_back(t.extent(i) > 1 ? t.stride(i) : 1);
  }
  return x;
}

kernels::ContractionArguments read_contraction(const ptxb_contraction& given_contraction, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_contraction, precise) + sizeof given_contraction.precise;
  const ptxb_contraction c =
      grown(given_contraction, PTXB_CONTRACTION_INIT, kFirst, "ptxb_contraction", "PTXB_CONTRACTION_INIT");
  kernels::ContractionArguments p{.subscripts = &given(c.subscripts, "the subscripts")};
  p.a = strided_tensor("A", c.a, gpu), p.b = strided_tensor("B", c.b, gpu),
  p.d = strided_tensor("D", c.d, gpu);
  for (kernels::ContractionTensor* x : {&p.a, &p.b})
    if (x->type == DType::f32) {
      if (!c.tf32) throw Error("the tensor cores truncate f32 A and B to tf32: set `tf32` to allow it");
      x->type = DType::tf32;
    }
  p.alpha = c.alpha, p.fast_accumulation = !c.precise;
  return p;
}

}  // namespace ptxbuilder::c
