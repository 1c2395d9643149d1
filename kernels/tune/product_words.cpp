#include "kernels/tune/product_words.h"

namespace ptxbuilder::bench {

GemmProblem ProductWords::problem() const {
  GemmProblem p = sizes;
  p.a = p.b = *dtype_from_name(dtype);
  p.d = d_type.empty() ? usual_output(p.a) : *dtype_from_name(d_type);
  try {
    p.set_layout(layout);
    if (slow_accumulation) p.accumulate_slowly();
  } catch (const Error& e) {
    throw command::UsageError(e.what());
  }
  return p;
}

command::Option add_product(const command::Arguments& app, ProductWords& words) {
  auto size = [&](const char* name, int64_t& value, const char* help) {
    app.option(name, value, help).required().from(int64_t{1}, int64_t{1} << 24);
  };
  size("M", words.sizes.m, "rows of D");
  size("N", words.sizes.n, "columns of D");
  size("K", words.sizes.k, "depth of the product");
  app.option("--dtype", words.dtype, "type of A and B")
      .among({"bf16", "f16", "tf32", "e4m3", "e5m2", "s8"})
      .with_default();
  app.option("--d-type", words.d_type,
             "type of D; by default that of A, or f32 for tf32, s32 for s8, bf16 for e4m3 and e5m2")
      .among({"bf16", "f16", "f32", "s32"});
  app.option("--layout", words.layout,
             "the layout in cuBLAS's letters for row-major data: NN is A[m,k] times B[k,n]")
      .among({"TN", "NN", "NT", "TT"})
      .with_default();
  return app.flag("--slow-accumulation", words.slow_accumulation,
                  "promote sums of e4m3 and e5m2 products to f32 along k");
}

}  // namespace ptxbuilder::bench
