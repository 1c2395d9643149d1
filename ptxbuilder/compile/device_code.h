// Finds device code in fatbins, and in host objects, libraries and programs that nvcc has linked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// Limits in bytes. kMostCode applies to PTX text and to an unpacked entry of a fatbin, and kMostFile to a
// binary file.
inline constexpr size_t kMostCode = size_t{256} << 20, kMostFile = size_t{1} << 30;

// PTX text, or a cubin, in a file. `content` points into the bytes of the file.
struct DeviceCode {
  enum class Kind : uint8_t { ptx, cubin };
  enum class Packing : uint8_t { none, lz4, zstd };

  Kind kind = Kind::ptx;
  uint32_t architecture = 0;      // such as 90 for sm_90a; 0 if the file does not state it
  std::string_view content = {};  // content as stored in the file, possibly packed
  size_t offset = 0;              // offset of the entry in the file
  Packing packing = Packing::none;
  uint64_t unpacked_bytes = 0;

  // Returns the PTX text or the ELF file. Throws Error if the content cannot be unpacked.
  std::string code() const;
  // Returns the names of the kernels, in order. For a cubin, returns the names of functions that may be
  // kernels. Throws Error under the same conditions as code(), and for a broken cubin.
  std::vector<std::string> kernels() const;
};

// Returns whether `file` is an ELF file or a fatbin, rather than text.
bool is_code_binary(std::string_view file);

// Returns all code in `file`, in order. For a fatbin, returns its entries. For a host ELF file, returns the
// entries in its sections .nv_fatbin and __nv_relfatbin. Another ELF file is returned as a cubin, and
// anything else as PTX. If the file is invalid, throws an Error that names the offset and the broken rule.
std::vector<DeviceCode> device_code(std::string_view file);

// Returns the code in `all` that contains the kernel or, if `kernel` is empty, the only kernel. Among
// several, prefers the highest architecture, and then code of `kind`. If `kind` is empty, prefers PTX to
// cubins. If `all` has several elements, unpacks them one by one to find the kernel. If no code contains the
// kernel, or if `kernel` is empty and there are several kernels, throws an Error that lists the kernels.
const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind = std::nullopt);

}  // namespace ptxbuilder
