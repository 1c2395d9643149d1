#include "runtime/cubin_check.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "ptxbuilder/error.h"

namespace ptxbuilder::runtime {
namespace {

constexpr uint16_t kMachineCuda = 190;  // EM_CUDA
constexpr std::string_view kKernelSection = ".text.";

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error("corrupt cubin: " + fmt::format(format, std::forward<Args>(args)...));
}

// Returns the sections of the file. Throws an Error unless all of them are inside the file.
std::vector<Elf64_Shdr> read_sections(const std::string& image, const Elf64_Ehdr& header) {
  const uint64_t table_bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) refuse("no table of sections");
  if (header.e_shoff > image.size() || table_bytes > image.size() - header.e_shoff)
    refuse("it has {} B, but its table of sections ends at byte {}", image.size(),
           header.e_shoff + table_bytes);
  const uint64_t segments_bytes = uint64_t{header.e_phnum} * header.e_phentsize;
  if (header.e_phoff > image.size() || segments_bytes > image.size() - header.e_phoff)
    refuse("it has {} B, but its table of segments ends at byte {}", image.size(),
           header.e_phoff + segments_bytes);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), image.data() + header.e_shoff, table_bytes);
  for (const Elf64_Shdr& s : sections)
    if (s.sh_type != SHT_NOBITS && (s.sh_offset > image.size() || s.sh_size > image.size() - s.sh_offset))
      refuse("it has {} B, but contains a section of {} B at byte {}", image.size(), s.sh_size, s.sh_offset);
  return sections;
}

std::string section_name(const std::string& image, const Elf64_Shdr& names, uint32_t offset) {
  if (offset >= names.sh_size) refuse("a section's name is outside the table of names");
  const char* begin = image.data() + names.sh_offset + offset;
  return std::string(begin, strnlen(begin, names.sh_size - offset));
}

}  // namespace

bool is_cubin(const std::string& image) { return image.starts_with(ELFMAG); }

void check_cubin(const std::string& image, const std::string& kernel) {
  Elf64_Ehdr header;
  if (!is_cubin(image) || image.size() < sizeof header)
    refuse("its {} B do not begin with an ELF header", image.size());
  std::memcpy(&header, image.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda)
    refuse("it is an ELF file of class {} for machine {}, not for CUDA ({})", header.e_ident[EI_CLASS],
           header.e_machine, kMachineCuda);
  const std::vector<Elf64_Shdr> sections = read_sections(image, header);
  if (header.e_shstrndx >= sections.size() || sections[header.e_shstrndx].sh_type != SHT_STRTAB)
    refuse("no section of names");
  std::string kernels;
  for (const Elf64_Shdr& section : sections) {
    std::string name = section_name(image, sections[header.e_shstrndx], section.sh_name);
    if (!name.starts_with(kKernelSection)) continue;
    if (name.substr(kKernelSection.size()) == kernel) return;
    kernels.append(" ").append(name, kKernelSection.size());
  }
  throw Error(fmt::format("the cubin has no kernel '{}' (it has:{}): the sidecar belongs to another cubin",
                          kernel, kernels.empty() ? " none" : kernels));
}

}  // namespace ptxbuilder::runtime
