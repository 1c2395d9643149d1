// Finds device code in other files: in fatbins, and in host objects, libraries and programs that nvcc made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// The greatest numbers of bytes that are read: kMostCode for a text or an unpacked entry of a fatbin, and
// kMostFile for a binary file.
inline constexpr size_t kMostCode = size_t{256} << 20, kMostFile = size_t{1} << 30;

// A PTX text or a cubin in a file. It points into the file's bytes.
struct DeviceCode {
  enum class Kind : uint8_t { ptx, cubin };
  enum class Packing : uint8_t { none, lz4, zstd };

  Kind kind = Kind::ptx;
  uint32_t architecture = 0;      // 90 for sm_90a; 0 if the file does not state it
  std::string_view content = {};  // as stored in the file
  size_t offset = 0;              // offset of the entry in the file
  Packing packing = Packing::none;
  uint64_t unpacked_bytes = 0;

  // Returns the PTX text or the ELF file. Throws Error if the content cannot be unpacked.
  std::string code() const;
  // Returns the names of the code's kernels in their order; for a cubin, the names of functions that may be
  // kernels. Also throws Error for a broken cubin.
  std::vector<std::string> kernels() const;
};

// Returns whether `file` is an ELF file or a fatbin rather than text.
bool is_code_binary(std::string_view file);

// Returns all code in `file`, in its order: the entries of a fatbin; the entries in the sections .nv_fatbin
// and __nv_relfatbin of a host ELF file that has these sections; a whole cubin; or anything else as PTX.
// Throws Error that names the offset and the rule if the file breaks a rule.
std::vector<DeviceCode> device_code(std::string_view file);

// Returns the code in `all` that contains the kernel or, if `kernel` is empty, the only kernel. Among
// several, prefers the highest architecture, and then code of `kind` or, without `kind`, PTX rather than
// cubins. If there are several, unpacks one after the other to find the kernel. Throws Error that lists the
// kernels if no code contains it, or if `kernel` is empty and there are several kernels.
const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind = std::nullopt);

}  // namespace ptxbuilder
