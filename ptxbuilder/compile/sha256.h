// Implements SHA-256 (FIPS 180-4). The names of cache entries are SHA-256 hashes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ptxbuilder {

// The SHA-256 hash of bytes that are passed in parts (FIPS 180-4).
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  // Appends bytes to the hash's input.
  void update(std::string_view bytes);
  Digest finish();  // must be called once, after the last update()

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_;
  uint64_t length_ = 0;  // number of bytes passed to update()
};

std::string to_hex(const Sha256::Digest& digest);  // returns 64 lower-case digits

}  // namespace ptxbuilder
