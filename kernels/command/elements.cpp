#include "kernels/command/elements.h"

#include <cstdint>
#include <cstring>

namespace ptxbuilder::command {

void put(std::byte* to, DType type, double value) {
  const uint64_t bits = is_float(type) ? encode(type, value)
                        : value < 0    ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                       : static_cast<uint64_t>(value);
  std::memcpy(to, &bits, static_cast<size_t>(size_of(type)));
}

double value_of(const std::byte* from, DType type) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(size_of(type)));
  return decode(type, bits);
}

}  // namespace ptxbuilder::command
