#include "runtime/argument.h"

#include <fmt/format.h>

#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {

Argument scalar_bits(DType dtype, uint64_t bits) {
  return {.kind = Parameter::Kind::scalar, .dtype = dtype, .name = {}, .bits = bits};
}

Argument pointer(View memory, DType dtype) {
  return {
      .kind = Parameter::Kind::pointer, .dtype = dtype, .name = {}, .bits = memory.address, .memory = memory};
}

Argument structure(std::vector<Argument> fields) {
  Argument argument{.kind = Parameter::Kind::structure};
  argument.fields = std::make_shared<const std::vector<Argument>>(std::move(fields));
  return argument;
}

void check_rank(size_t rank) {
  if (rank == 0 || rank > Argument::kMaxRank)
    throw Error(fmt::format("tensor: the rank is {}, but must be 1 to {}", rank, Argument::kMaxRank));
}

Argument tensor(View memory, DType dtype, std::span<const uint64_t> shape,
                std::span<const uint64_t> strides) {
  check_rank(shape.size());
  if (!strides.empty() && strides.size() != shape.size() - 1)
    throw Error(
        fmt::format("tensor: {} strides were given for rank {}; give {}, or none for a tensor without gaps",
                    strides.size(), shape.size(), shape.size() - 1));
  Argument argument{
      .kind = Parameter::Kind::tensor_map, .dtype = dtype, .name = {}, .bits = 0, .memory = memory};
  argument.rank = shape.size();
  for (size_t i = 0; i < shape.size(); ++i) argument.shape[i] = shape[i];
  if (strides.empty()) argument.strides = packed_strides(dtype, shape);
  for (size_t i = 0; i < strides.size(); ++i) argument.strides[i] = strides[i];
  return argument;
}

Argument tensor(View memory, DType dtype, std::initializer_list<uint64_t> shape,
                std::initializer_list<uint64_t> strides) {
  return tensor(memory, dtype, std::span(shape.begin(), shape.size()),
                std::span(strides.begin(), strides.size()));
}

Argument im2col(Argument tensor, Im2col walk) {
  tensor.im2col = std::make_shared<const Im2col>(std::move(walk));
  return tensor;
}

Argument overlapping(Argument tensor) {
  tensor.overlaps = true;
  return tensor;
}

}  // namespace ptxbuilder::runtime
