#include "kernels/gemm/parameters.h"

#include <fmt/format.h>

#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {

GemmParameters::GemmParameters(Kernel& k, const GemmOperation& o, const GemmTile& t, Where where) {
  using enum Parameter::Kind;
  add("A", tensor_map, DType::u32, o.a_k_major ? "M rows of K" : "K rows of M");
  add("B", tensor_map, DType::u32, o.b_k_major ? "N rows of K" : "K rows of N");
  add("D", tensor_map, DType::u32, "the result: M rows of N");
  add("M", scalar, DType::u32, "rows of D");
  add("N", scalar, DType::u32, "columns of D");
  add("K", scalar, DType::u32, "depth of the product");
  if (o.alpha) add("alpha", scalar, DType::f32, "a factor of the product");
  if (o.beta) {
    add("beta", scalar, DType::f32, "a factor of C");
    add("C", pointer, o.d, "what is added: M rows of N, for each batch");
    add("ldc", scalar, DType::u32, "elements from a row of C to the next");
  }
  if (o.bias) add("bias", pointer, o.d, "added to each row: N elements");
  if (o.batched) add("batches", scalar, DType::u32, "products");
  if (t.split_last > 1)
    add("workspace", pointer, DType::f32,
        fmt::format(
            "{} B, which may hold anything, for sums on their way from CTA to CTA; of this launch alone",
            gemm_workspace_bytes(checked(o, t), {kMostSplitCtas, 1})));
  declare(k, where);
}

}  // namespace ptxbuilder::kernels
