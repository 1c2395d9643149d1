#include "ptxbuilder/compile/elf.h"

#include <elf.h>
#include <fmt/format.h>

#include <array>

#include "ptxbuilder/compile/bytes.h"

namespace ptxbuilder {

std::vector<ElfSection> sections_of_elf(std::string_view file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0, "the ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    fail_at(EI_CLASS, "an ELF file must be 64-bit and little-endian to hold device code");
  if (header.e_shnum == 0) return {};
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    fail_at(offsetof(Elf64_Ehdr, e_shentsize), fmt::format("a section header has {} B, but must have {}",
                                                           header.e_shentsize, sizeof(Elf64_Shdr)));
  auto section = [&](size_t i) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr), "a section header");
  };
  part_of(file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), "the table of sections");
  if (header.e_shstrndx >= header.e_shnum)
    fail_at(offsetof(Elf64_Ehdr, e_shstrndx),
            fmt::format("section {} holds the names, but there are only {} sections", header.e_shstrndx,
                        header.e_shnum));
  const Elf64_Shdr names = section(header.e_shstrndx);
  const std::string_view text = part_of(file, names.sh_offset, names.sh_size, "the section of names");
  std::vector<ElfSection> all;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL) continue;
    if (s.sh_name >= text.size())
      fail_at(header.e_shoff + i * sizeof s, "a section's name is outside of the section of names");
    const std::string_view name = text.substr(s.sh_name);
    all.push_back(
        {name.substr(0, name.find('\0')), part_of(file, s.sh_offset, s.sh_size, "a section"), s.sh_info});
  }
  return all;
}

CubinResources cubin_resources(std::string_view cubin, std::string_view kernel) {
  constexpr uint8_t kSized = 4, kRegisters = 0x2f, kFrameBytes = 0x11;
  const std::vector<ElfSection> sections = sections_of_elf(cubin);
  CubinResources resources;
  uint32_t symbol = 0;
  for (const ElfSection& s : sections)
    if (s.name.starts_with(".text.") && s.name.substr(6) == kernel) symbol = s.info & 0xffffff;
  for (const ElfSection& s : sections) {
    if (s.name != ".nv.info") continue;
    // An item consists of a format, an attribute, and two bytes. The two bytes are the value, or the number
    // of bytes in the value that follows.
    const std::string_view info = s.content;
    for (size_t at = 0; at < info.size();) {
      const auto head = read_at<std::array<uint8_t, 4>>(info, at, "an attribute");
      const size_t bytes = head[0] == kSized ? head[2] + 256 * size_t{head[3]} : 0;
      at += sizeof head;
      if (bytes == 8 && (head[1] == kRegisters || head[1] == kFrameBytes)) {
        const auto [of, value] = read_at<std::array<uint32_t, 2>>(info, at, "an attribute's value");
        if (of == symbol) (head[1] == kRegisters ? resources.registers : resources.stack_bytes) = value;
      }
      at += bytes;
    }
  }
  return resources;
}

}  // namespace ptxbuilder
