// ELF files, and what a cubin, which is one, says of its kernels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ptxbuilder {

struct ElfSection {
  std::string_view name, content;  // in the file
  uint32_t info = 0;
};

// The sections that have content in the file, which is of 64 bits and little-endian. Throws Error that names
// the offset and the rule where the file breaks one.
std::vector<ElfSection> sections_of_elf(std::string_view file);

// The resources that a thread of a kernel takes.
struct CubinResources {
  uint32_t registers = 0, stack_bytes = 0;
};

// This reads a kernel in a cubin, as its section .nv.info says; zeros where it says nothing. Throws Error for
// a broken cubin.
CubinResources cubin_resources(std::string_view cubin, std::string_view kernel);

}  // namespace ptxbuilder
