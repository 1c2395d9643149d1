// Reading of a binary file, which checks that it does not end before.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Throws Error "offset 0x10: what".
[[noreturn]] void fail_at(size_t offset, const std::string& what);

// `what` is what the bytes are. Throws Error where the file does not have them.
std::string_view part_of(std::string_view file, size_t offset, uint64_t bytes, const char* what);

// A structure of the file.
template <class T>
T read_at(std::string_view file, size_t offset, const char* what) {
  T value;
  std::memcpy(&value, part_of(file, offset, sizeof value, what).data(), sizeof value);
  return value;
}

}  // namespace ptxbuilder
