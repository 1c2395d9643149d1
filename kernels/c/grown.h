// Reads structs from programs that were built with an older header.
#pragma once

#include <cstddef>
#include <cstring>

namespace ptxbuilder::c {

// Throws an Error that names the given size and the sizes that are accepted.
[[noreturn]] void refuse_size(const char* name, size_t given, size_t ours, size_t first,
                              const char* init_name);

// Returns the struct as this library declares it. The fields that the caller's header has are copied from
// `given`. The later fields are copied from `init`, which holds the values of the INIT macro. `first` is the
// size of the fields that the first version of the header had.
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
