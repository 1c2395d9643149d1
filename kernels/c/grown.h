// Reads structs from programs that were built with an older header.
#pragma once

#include <cstddef>
#include <cstring>

namespace ptxbuilder::c {

// Throws Error with the given size and the sizes that are accepted.
[[noreturn]] void refuse_size(const char* name, size_t given, size_t ours, size_t first,
                              const char* init_name);

// Returns the struct as this library declares it: the caller's fields, followed by the values that `init`,
// from the INIT macro, has for fields that the caller's header lacks. In the first header, the last field
// ended after `first` bytes.
template <class Struct>
Struct grown(const Struct& given, const Struct& init, size_t first, const char* name, const char* init_name) {
  first = (first + alignof(Struct) - 1) / alignof(Struct) * alignof(Struct);
  if (given.size < first || given.size > sizeof given || given.size % alignof(Struct) != 0)
    refuse_size(name, given.size, sizeof given, first, init_name);
  Struct grown = init;
  std::memcpy(&grown, &given, given.size);
  grown.size = sizeof grown;
  return grown;
}

}  // namespace ptxbuilder::c
