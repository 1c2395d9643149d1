#include "runtime/record/images.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "ptxbuilder/compile/device_code.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::runtime::record {
namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, fatbin_magic = 0xba55ed50;

// The structure that nvcc writes into a program for each fatbin.
struct Wrapper {
  uint32_t magic, version;
  const void* data;
  const void* more;
};
struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};

template <class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Returns the size of an ELF file, i.e. the end of its last part.
size_t bytes_of_elf(const char* file) {
  const auto header = read<Elf64_Ehdr>(file);
  size_t end = std::max<size_t>(sizeof header, header.e_shoff + size_t{header.e_shnum} * header.e_shentsize);
  end = std::max<size_t>(end, header.e_phoff + size_t{header.e_phnum} * header.e_phentsize);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(file + header.e_shoff + i * header.e_shentsize);
    if (section.sh_type != SHT_NOBITS) end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

size_t bytes_of_fatbin(const char* fatbin) {
  const auto header = read<FatbinHeader>(fatbin);
  return header.header_bytes + header.bytes;
}

bool has_kernel(const DeviceCode& code, const std::string& kernel) {
  const std::vector<std::string> all = code.kernels();
  return std::ranges::find(all, kernel) != all.end();
}

}  // namespace

Image image_at(const void* data) {
  const char* at = static_cast<const char*>(data);
  const auto magic = read<uint32_t>(at);
  if (magic == wrapper_magic) {
    const char* fatbin = static_cast<const char*>(read<Wrapper>(at).data);
    return {{fatbin, bytes_of_fatbin(fatbin)}};
  }
  if (magic == fatbin_magic) return Image::of({at, bytes_of_fatbin(at)});
  if (std::memcmp(at, ELFMAG, SELFMAG) == 0) return Image::of({at, bytes_of_elf(at)});
  return Image::of(at);
}

std::optional<std::string> PtxSources::beside(std::string_view cubin) const {
  for (const std::filesystem::path& folder : folders_) {
    std::error_code error;  // set for a folder that does not exist
    for (auto file = std::filesystem::recursive_directory_iterator(
             folder, std::filesystem::directory_options::skip_permission_denied, error);
         !error && file != std::filesystem::recursive_directory_iterator(); file.increment(error)) {
      if (file->path().extension() != ".cubin" || file->file_size(error) != cubin.size() || error) continue;
      std::filesystem::path ptx = file->path();
      ptx.replace_extension(".ptx");
      if (std::filesystem::exists(ptx, error) && file_text(file->path().string()) == cubin)
        return file_text(ptx.string());
    }
  }
  return std::nullopt;
}

std::string PtxSources::find(const Image& image, const std::string& kernel) const {
  std::vector<DeviceCode> all = device_code(image.bytes);
  // The highest architecture whose code runs on Hopper comes first.
  std::ranges::stable_sort(all, [](const DeviceCode& a, const DeviceCode& b) {
    auto rank = [](const DeviceCode& c) { return c.architecture > 90 ? 0 : c.architecture + 1; };
    return rank(a) > rank(b);
  });
  bool has_cubin = false;
  for (const DeviceCode& code : all)
    if (code.kind == DeviceCode::Kind::ptx && has_kernel(code, kernel)) return code.code();
  for (const DeviceCode& code : all) {
    if (code.kind != DeviceCode::Kind::cubin) continue;
    const std::string cubin = code.code();
    if (const auto of = linked_.find(cubin); of != linked_.end()) return of->second;
    if (auto text = beside(cubin)) return *std::move(text);
    has_cubin = true;
  }
  if (!has_cubin) throw Error("the images that the program has loaded do not contain its code");
  throw Error(
      fmt::format("the program has loaded a cubin of it, but no PTX. Compile it with PTX too (nvcc -gencode "
                  "arch=compute_90a,code=compute_90a), or pass the folder that has the PTX next to the same "
                  ".cubin with --ptx DIR; looked for in {}",
                  folders_.empty() ? "none"
                                   : fmt::format("{}", fmt::join(
                                                           [&] {
                                                             std::vector<std::string> names;
                                                             for (const auto& folder : folders_)
                                                               names.push_back(folder.string());
                                                             return names;
                                                           }(),
                                                           ", "))));
}

}  // namespace ptxbuilder::runtime::record
