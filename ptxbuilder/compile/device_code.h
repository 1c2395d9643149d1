// Device code inside of other files: fatbins, and the host's objects, libraries and programs that nvcc made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// These are counted in bytes: more is read neither of a text or one entry of a fatbin, unpacked, nor of a
// binary file.
inline constexpr size_t kMostCode = size_t{256} << 20, kMostFile = size_t{1} << 30;

// One PTX text or cubin in a file, to which it refers.
struct DeviceCode {
  enum class Kind : uint8_t { ptx, cubin };
  enum class Packing : uint8_t { none, lz4, zstd };

  Kind kind = Kind::ptx;
  uint32_t architecture = 0;      // 90 of sm_90a; 0 where the file does not say
  std::string_view content = {};  // as it is in the file
  size_t offset = 0;              // of its entry there
  Packing packing = Packing::none;
  uint64_t unpacked_bytes = 0;

  // PTX text, or an ELF file. Throws Error where it cannot be unpacked.
  std::string code() const;
  // The names of the functions in it that are kernels, or in a cubin may be, in its order. Throws Error also
  // for a broken cubin.
  std::vector<std::string> kernels() const;
};

// This says whether `file` is an ELF file or a fatbin, and no text.
bool is_code_binary(std::string_view file);

// All code that `file` holds, in its order: of a fatbin its entries; of an ELF file of the host those of its
// sections .nv_fatbin and __nv_relfatbin, none where it has no such section; a cubin as it is; and anything
// else as PTX. Throws Error that names the offset and the rule where the file breaks one.
std::vector<DeviceCode> device_code(std::string_view file);

// The code of `all` that has the kernel, or with an empty name the only one that there is: for the highest
// architecture, and of a kind if one is given, else PTX before cubins. Unpacks one after the other to look
// for it, where there are several. Throws Error that lists the kernels where there is no such code, or no
// name though there are several kernels.
const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind = std::nullopt);

}  // namespace ptxbuilder
