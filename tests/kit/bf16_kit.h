// Small integers for products in bf16, whose sums are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::test {

// Returns numbers from -3 to 3. `factor` makes those of different operands differ.
inline std::vector<float> numbers(size_t count, uint32_t factor) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * factor >> 9) % 7) - 3;
  return x;
}

inline std::vector<std::byte> as_bf16(const std::vector<float>& x) {
  std::vector<std::byte> bytes(2 * x.size());
  for (size_t i = 0; i < x.size(); ++i) write_element(&bytes[2 * i], DType::bf16, x[i]);
  return bytes;
}

}  // namespace ptxbuilder::test
