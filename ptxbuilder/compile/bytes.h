// Reads parts of a binary file, and checks that the file is long enough.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Throws an Error such as "offset 0x10: what".
[[noreturn]] void fail_at(size_t offset, const std::string& what);

// Returns `bytes` bytes of the file, starting at `offset`. Throws Error if the file is too short. The error
// calls the bytes `what`.
std::string_view part_of(std::string_view file, size_t offset, uint64_t bytes, const char* what);

// Reads a structure at an offset of the file. Throws Error if the file is too short.
template <class T>
T read_at(std::string_view file, size_t offset, const char* what) {
  T value;
  std::memcpy(&value, part_of(file, offset, sizeof value, what).data(), sizeof value);
  return value;
}

}  // namespace ptxbuilder
