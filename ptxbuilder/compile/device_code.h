// Finds device code inside other files: fatbins, and host objects, libraries and programs that nvcc made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// The maximum number of bytes that are read: kMostCode of a text or of one unpacked entry of a fatbin, and
// kMostFile of a binary file.
inline constexpr size_t kMostCode = size_t{256} << 20, kMostFile = size_t{1} << 30;

// One PTX text or cubin in a file. It refers to the file's bytes.
struct DeviceCode {
  enum class Kind : uint8_t { ptx, cubin };
  enum class Packing : uint8_t { none, lz4, zstd };

  Kind kind = Kind::ptx;
  uint32_t architecture = 0;      // 90 for sm_90a; 0 if the file does not state it
  std::string_view content = {};  // as stored in the file
  size_t offset = 0;              // of its entry in the file
  Packing packing = Packing::none;
  uint64_t unpacked_bytes = 0;

  // Returns PTX text or an ELF file. Throws Error if the content cannot be unpacked.
  std::string code() const;
  // Returns the names of its kernels in their order; for a cubin, of functions that may be kernels. Throws
  // Error also for a broken cubin.
  std::vector<std::string> kernels() const;
};

// Returns whether `file` is an ELF file or a fatbin, not text.
bool is_code_binary(std::string_view file);

// Returns all code in `file` in its order: the entries of a fatbin; the entries in the sections .nv_fatbin
// and __nv_relfatbin of a host ELF file, if it has such sections; a cubin as it is; and anything else as PTX.
// Throws Error that names the offset and the rule if the file breaks a rule.
std::vector<DeviceCode> device_code(std::string_view file);

// Returns the code of `all` that has the kernel or, if the name is empty, the only kernel: for the highest
// architecture, and of `kind` if it is given, else PTX before cubins. Unpacks them one after the other to
// find the kernel if there are several. Throws Error that lists the kernels if no code has it, or if the name
// is empty and there are several kernels.
const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind = std::nullopt);

}  // namespace ptxbuilder
