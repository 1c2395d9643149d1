// Device code inside of other files: fatbins, and the host's objects, libraries and programs that nvcc made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// More is read of no file, nor unpacked from one, in bytes.
inline constexpr size_t kMostCode = size_t{256} << 20;

struct DeviceCode {
  enum class Kind : uint8_t { ptx, cubin };

  Kind kind = Kind::ptx;
  uint32_t architecture = 0;  // 90 of sm_90a; 0 where the file does not say
  std::string code;           // PTX text, or an ELF file

  // The names of the functions in it that are kernels, or in a cubin may be, in its order. Throws Error for
  // a broken cubin.
  std::vector<std::string> kernels() const;
};

// Whether `file` is an ELF file or a fatbin, and no text.
bool is_code_binary(std::string_view file);

// All code that `file` holds, in its order: of a fatbin its entries, unpacked; of an ELF file of the host
// those of its sections .nv_fatbin and __nv_relfatbin, none where it has no such section; a cubin as it is;
// and anything else as PTX. Throws Error that names the offset and the rule where the file breaks one.
std::vector<DeviceCode> device_code(std::string_view file);

// What of `all` has the kernel, or with an empty name the only one that there is: for the highest
// architecture, and of a kind if one is given, else PTX before cubins. Throws Error that lists the kernels
// where there is no such code, or no name though there are several kernels.
const DeviceCode& choose_code(const std::vector<DeviceCode>& all, std::string_view kernel,
                              std::optional<DeviceCode::Kind> kind = std::nullopt);

}  // namespace ptxbuilder
