// Reads ELF files, and the resources of kernels in cubins, which are ELF files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ptxbuilder {

struct ElfSection {
  std::string_view name, content;  // point into the file
  uint32_t info = 0;
};

// Returns the sections that have content in the file. The file must be 64-bit and little-endian. If the file
// is invalid, throws an Error that names the offset and the broken rule.
std::vector<ElfSection> sections_of_elf(std::string_view file);

// The resources that a thread of a kernel uses.
struct CubinResources {
  uint32_t registers = 0, stack_bytes = 0;
};

// Reads the resources of a kernel from the section .nv.info of a cubin. A resource that the section does not
// contain is 0. Throws Error for a broken cubin.
CubinResources cubin_resources(std::string_view cubin, std::string_view kernel);

}  // namespace ptxbuilder
