// This draws packed weights for a run, and the numbers that a product takes, to check it against.
#pragma once

#include <vector>

#include "kernels/family/run.h"
#include "kernels/gemm/packed_weights.h"

namespace ptxbuilder::kernels {

struct PackedDraw {
  command::Tensor packed, numbers;  // n rows of k numbers
};

inline PackedDraw draw_packed(const PackedForm& form, command::Run& run, size_t n, size_t k) {
  const size_t groups = form.group == 0 ? 1 : (k + form.group - 1) / form.group;
  const auto bytes_of = [](const command::Tensor& x, size_t size) {
    std::vector<std::byte> bytes(x.count() * size);
    for (size_t i = 0; i < x.count(); ++i) {
      const uint32_t bits = x.bits(i);
      std::memcpy(&bytes[i * size], &bits, size);
    }
    return bytes;
  };
  const auto bytes = [&](size_t rows) { return bytes_of(run.normal(DType::s8, {rows, n}), 1); };
  const bool is_float = form.type == WeightType::e4m3;
  std::vector<std::byte> weights = is_float ? bytes_of(run.normal(DType::e4m3, {k, n}), 1) : bytes(k), scales,
                         zeros;
  for (std::byte& one : weights)
    if (form.row().bits == 4)
      one = static_cast<std::byte>(static_cast<int>(one & std::byte{0xf}) + form.row().least);
  if (form.has_scales())
    scales = bytes_of(run.normal(form.scales, {groups, n}), static_cast<size_t>(size_of(form.scales)));
  if (form.has_zeros()) zeros = bytes(groups);
  for (std::byte& one : zeros) one &= std::byte{0xf};
  const PlainWeights<const std::byte> plain = {weights, scales, zeros};
  const auto columns = static_cast<int64_t>(n), depth = static_cast<int64_t>(k);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(form, columns, depth)));
  pack_weights(form, columns, depth, plain, packed);
  PackedDraw draw = {run.output(DType::u32, {packed.size() / 4}), run.output(DType::f32, {k, n})};
  for (size_t i = 0; i < draw.packed.count(); ++i) {
    uint32_t word;
    std::memcpy(&word, &packed[4 * i], sizeof word);
    draw.packed.set(i, word);
  }
  draw.packed.to_device();
  for (size_t i = 0; run.verifies() && i < n * k; ++i)
    draw.numbers.set(i,
                     number_at(form, depth, plain, static_cast<int64_t>(i / k), static_cast<int64_t>(i % k)));
  return draw;
}

}  // namespace ptxbuilder::kernels
