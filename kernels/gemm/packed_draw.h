// Draws random packed weights and computes the numbers that they represent, so that products can be checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/gemm/packed_weights.h"

namespace ptxbuilder::kernels {

struct PackedDraw {
  std::vector<uint32_t> packed;
  std::vector<float> numbers;  // for each matrix, n rows of k numbers; empty if not requested
};

// Draws the given number of matrices. `normal` must return N(0,1) numbers. `numbers` requests the numbers
// that the weights represent.
inline PackedDraw draw_packed(const PackedForm& form, int64_t n, int64_t k,
                              const std::function<double()>& normal, bool numbers = true,
                              int64_t matrices = 1) {
  const WeightRow& row = form.row();
  const auto integer = [&](double middle, double spread, int least, int greatest) {
    return static_cast<std::byte>(
        std::clamp(static_cast<int>(std::lround(middle + spread * normal())), least, greatest));
  };
  const auto weight = [&] {
    if (form.type == WeightType::e4m3) return static_cast<std::byte>(encode(DType::e4m3, normal()));
    return integer((row.least + row.greatest) / 2.0, (row.greatest - row.least) / 4.0, row.least,
                   row.greatest);
  };
  const int64_t groups = packed_groups(form, k);
  const auto words = static_cast<size_t>(packed_bytes(form, n, k)) / sizeof(uint32_t);
  PackedDraw draw;
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    std::vector<std::byte> weights, scales, zeros;
    for (int64_t i = 0; i < n * k; ++i) weights.push_back(weight());
    if (form.has_scales()) scales.resize(static_cast<size_t>(n * groups * size_of(form.scales)));
    for (size_t at = 0; at < scales.size(); at += static_cast<size_t>(size_of(form.scales)))
      write_element(&scales[at], form.scales, normal());
    for (int64_t i = 0; form.has_zeros() && i < n * groups; ++i)
      zeros.push_back(integer(row.greatest / 2.0, row.greatest / 4.0, 0, row.greatest));
    const PlainWeights<const std::byte> plain = {weights, scales, zeros};
    draw.packed.resize(draw.packed.size() + words);
    pack_weights(form, n, k, plain, std::as_writable_bytes(std::span(draw.packed).last(words)));
    for (int64_t column = 0; numbers && column < n; ++column)
      for (int64_t at = 0; at < k; ++at)
        draw.numbers.push_back(static_cast<float>(number_at(form, k, plain, column, at)));
  }
  return draw;
}

}  // namespace ptxbuilder::kernels
