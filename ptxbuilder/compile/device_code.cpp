#include "ptxbuilder/compile/device_code.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zstd.h>

#include <algorithm>
#include <set>

#include "ptxbuilder/compile/bytes.h"
#include "ptxbuilder/compile/elf.h"
#include "ptxbuilder/compile/lz4.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr uint16_t kMachineCuda = 190;  // EM_CUDA
constexpr std::string_view kMagic = "\x50\xed\x55\xba";

// The headers of a fatbin and of each entry. Fields without a meaningful name are not used here.
struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // total size of the entries after the header
};
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;         // size after the header, including padding to a multiple of 8
  uint32_t packed_bytes;  // 0 if the entry is not packed
  uint32_t unnamed_0;
  uint16_t minor, major;
  uint32_t architecture;
  uint64_t unnamed_1;
  uint64_t flags;
  uint64_t unnamed_2;
  uint64_t unpacked_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(EntryHeader) == 64);

constexpr uint16_t kPtx = 1, kCubin = 2;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;

std::string unpack_zstd(std::string_view frame, size_t size) {
  std::string text(size, '\0');
  const size_t got = ZSTD_decompress(text.data(), size, frame.data(), frame.size());
  if (ZSTD_isError(got)) throw Error(fmt::format("zstd: {}", ZSTD_getErrorName(got)));
  if (got != size) throw Error(fmt::format("zstd: it ends after {} B of {}", got, size));
  return text;
}

class Fatbins {
 public:
  explicit Fatbins(std::string_view file) : file_(file) {}

  // Reads consecutive fatbins, which may be separated by zeros, from `offset` up to `end`.
  void read_all(size_t offset, size_t end) {
    while (offset < end) {
      const size_t next = file_.find_first_not_of('\0', offset);
      if (next >= end) return;
      offset = fatbin(next, end);
    }
  }

  std::vector<DeviceCode> all;

 private:
  size_t fatbin(size_t offset, size_t end) {
    const auto header = read_at<Header>(file_, offset, "a fatbin's header");
    if (!file_.substr(offset).starts_with(kMagic))
      fail_at(offset, fmt::format("{:#010x} is not a fatbin's magic number", header.magic));
    if (header.version != 1)
      fail_at(offset,
              fmt::format("the fatbin has version {}, but only version 1 is supported", header.version));
    if (header.header_bytes < sizeof(Header))
      fail_at(offset, fmt::format("the header of a fatbin has {} B, but must have at least {}",
                                  header.header_bytes, sizeof(Header)));
    size_t at = offset + header.header_bytes;
    if (at > end || header.bytes > end - at)
      fail_at(offset, fmt::format("a fatbin of {} B ends beyond {:#x}", header.bytes, end));
    const size_t behind = at + header.bytes;
    while (at < behind) at = entry(at, behind);
    return behind;
  }

  size_t entry(size_t offset, size_t end) {
    const auto header = read_at<EntryHeader>(file_, offset, "an entry's header");
    if (header.header_bytes < sizeof header || header.header_bytes > end - offset)
      fail_at(offset,
              fmt::format(
                  "the header of an entry has {} B, but must have at least {} and not extend beyond {:#x}",
                  header.header_bytes, sizeof header, end));
    const size_t at = offset + header.header_bytes;
    if (header.bytes > end - at)
      fail_at(offset, fmt::format("an entry of {} B extends beyond the end of its fatbin at {:#x}",
                                  header.bytes, end));
    if (header.kind == kPtx || header.kind == kCubin)
      all.push_back(code_of(offset, header, file_.substr(at, header.bytes)));
    return at + header.bytes;
  }

  static DeviceCode code_of(size_t offset, const EntryHeader& header, std::string_view content) {
    DeviceCode code;
    code.kind = header.kind == kPtx ? DeviceCode::Kind::ptx : DeviceCode::Kind::cubin;
    code.architecture = header.architecture;
    code.offset = offset;
    code.content = content;
    if (!(header.flags & (kLz4 | kZstd))) return code;
    code.packing = header.flags & kZstd ? DeviceCode::Packing::zstd : DeviceCode::Packing::lz4;
    if (header.packed_bytes > content.size())
      fail_at(offset, fmt::format("the packed data has {} B, but the entry has {}", header.packed_bytes,
                                  content.size()));
    code.content = content.substr(0, header.packed_bytes);
    code.unpacked_bytes = header.unpacked_bytes;
    return code;
  }

  std::string_view file_;
};

bool is_elf(std::string_view file) { return file.starts_with(ELFMAG); }

bool is_cubin(std::string_view file) {
  return is_elf(file) && read_at<Elf64_Ehdr>(file, 0, "the ELF header").e_machine == kMachineCuda;
}

uint32_t architecture_of_cubin(std::string_view file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0, "the ELF header");
  // The number of the architecture is in the second byte of the flags as of ABI version 8, and in the first
  // byte in earlier versions.
  return (header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff;
}

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Returns the words that follow `.entry`.
std::vector<std::string> kernels_of_ptx(std::string_view text) {
  constexpr std::string_view directive = ".entry";
  std::vector<std::string> names;
  for (size_t at = text.find(directive); at != std::string_view::npos; at = text.find(directive, at)) {
    at += directive.size();
    const size_t begin = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
    size_t end = begin;
    while (end < text.size() && is_name(text[end])) ++end;
    if (begin > at && end > begin) names.emplace_back(text.substr(begin, end - begin));
  }
  return names;
}

const char* name(DeviceCode::Kind kind) { return kind == DeviceCode::Kind::ptx ? "PTX" : "cubin"; }

std::string listed(const std::set<std::string>& names) {
  constexpr size_t most = 20;
  const auto end = names.size() > most ? std::next(names.begin(), most) : names.end();
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

bool has_kernel(const DeviceCode& code, std::string_view kernel) {
  const std::vector<std::string> names = code.kernels();
  return std::find(names.begin(), names.end(), kernel) != names.end();
}

// The result of searching for a kernel in all code of one kind.
struct Found {
  // Null if the kernel was not found, or if it has no name and there are several pieces of code.
  const DeviceCode* best = nullptr;
  size_t count = 0;             // number of pieces of code of this kind
  std::set<std::string> names;  // names of all kernels, if there are several pieces of code

  Found(const std::vector<DeviceCode>& all, std::string_view kernel, DeviceCode::Kind kind) {
    const DeviceCode* only = nullptr;
    for (const DeviceCode& code : all)
      if (code.kind == kind) ++count, only = &code;
    if (count == 1) best = only;
    for (const DeviceCode& code : all) {
      if (count < 2 || code.kind != kind) continue;
      bool has = kernel.empty();
      for (std::string& name : code.kernels()) {
        has |= name == kernel;
        names.insert(std::move(name));
      }
      if (has && (!best || code.architecture > best->architecture)) best = &code;
    }
    if (kernel.empty() && names.size() > 1) best = nullptr;
  }
};

}  // namespace

bool is_code_binary(std::string_view file) { return is_elf(file) || file.starts_with(kMagic); }

std::vector<DeviceCode> device_code(std::string_view file) {
  const size_t most = is_code_binary(file) ? kMostFile : kMostCode;
  if (file.size() > most) throw Error(fmt::format("it has more than {} B, the maximum for such files", most));
  DeviceCode whole;
  whole.content = file;
  if (is_cubin(file)) {
    whole.kind = DeviceCode::Kind::cubin;
    whole.architecture = architecture_of_cubin(file);
    return {whole};
  }
  if (file.starts_with("!<arch>"))
    throw Error("it is an archive: extract its objects with `ar x`; each of them can be read");
  if (!is_code_binary(file)) return {whole};
  Fatbins fatbins(file);
  if (!is_elf(file)) fatbins.read_all(0, file.size());
  if (is_elf(file))
    for (const ElfSection& s : sections_of_elf(file))
      if (s.name == ".nv_fatbin" || s.name == "__nv_relfatbin") {
        const auto offset = static_cast<size_t>(s.content.data() - file.data());
        fatbins.read_all(offset, offset + s.content.size());
      }
  return std::move(fatbins.all);
}

std::string DeviceCode::code() const try {
  const uint64_t bytes = packing == Packing::none ? content.size() : unpacked_bytes;
  if (bytes > kMostCode)
    throw Error(fmt::format("it has {} B, but at most {} are allowed", bytes, kMostCode));
  std::string text = packing == Packing::none   ? std::string(content)
                     : packing == Packing::zstd ? unpack_zstd(content, bytes)
                                                : unpack_lz4(content, bytes);
  if (kind == Kind::ptx) text.erase(text.find_last_not_of('\0') + 1);
  return text;
} catch (const Error& e) {
  fail_at(offset, fmt::format("an entry cannot be unpacked: {}", e.what()));
}

std::vector<std::string> DeviceCode::kernels() const {
  const std::string text = code();
  if (kind == Kind::ptx) return kernels_of_ptx(text);
  constexpr std::string_view prefix = ".text.";
  std::vector<std::string> names;
  for (const ElfSection& s : sections_of_elf(text))
    if (s.name.starts_with(prefix)) names.emplace_back(s.name.substr(prefix.size()));
  return names;
}

const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind) {
  Found found(all, kernel, kind.value_or(DeviceCode::Kind::ptx));
  if (!found.best && !kind) {
    Found cubins(all, kernel, DeviceCode::Kind::cubin);
    if (found.count == 0 || (cubins.best && has_kernel(*cubins.best, kernel))) found = std::move(cubins);
  }
  if (found.best) return *found.best;
  if (found.count == 0)
    throw Error(fmt::format("it holds no {}",
                            all.empty() ? "device code" : name(kind.value_or(DeviceCode::Kind::ptx))));
  if (kernel.empty())
    throw Error(
        fmt::format("it holds {} kernels; choose one by name: {}", found.names.size(), listed(found.names)));
  throw Error(fmt::format("it holds no kernel '{}', but {}", kernel, listed(found.names)));
}

}  // namespace ptxbuilder
