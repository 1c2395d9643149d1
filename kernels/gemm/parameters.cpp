#include "kernels/gemm/parameters.h"

namespace ptxbuilder::kernels {

GemmParameters::GemmParameters(Kernel& k, const GemmOperation& o, const GemmTile& t, Where where) {
  std::vector<Parameter> all;
  auto add = [&](const char* name, Parameter::Kind kind, DType type) {
    index_[name] = all.size();
    Parameter one;
    one.name = name;
    one.kind = kind;
    one.dtype = type;
    all.push_back(std::move(one));
  };
  for (const char* name : {"A", "B", "D"}) add(name, Parameter::Kind::tensor_map, DType::u32);
  for (const char* name : {"M", "N", "K"}) add(name, Parameter::Kind::scalar, DType::u32);
  if (o.alpha) add("alpha", Parameter::Kind::scalar, DType::f32);
  if (o.beta) {
    add("beta", Parameter::Kind::scalar, DType::f32);
    add("C", Parameter::Kind::pointer, o.d);
    add("ldc", Parameter::Kind::scalar, DType::u32);
  }
  if (o.bias) add("bias", Parameter::Kind::pointer, o.d);
  if (o.batched) add("batches", Parameter::Kind::scalar, DType::u32);
  if (t.stream_k) add("workspace", Parameter::Kind::pointer, DType::f32);
  values_ = k.builder().declare_parameters(std::move(all), where);
}

}  // namespace ptxbuilder::kernels
