// The emulator's global memory, and the windows of the generic address space.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/isa/hopper.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime::emulator {

// Windows of the generic address space. Addresses of global memory are used as they are; each other space has
// a window of 2^32 bytes.
inline constexpr uint64_t shared_window = 0x7f00'0000'0000, local_window = 0x7e00'0000'0000,
                          param_window = 0x7d00'0000'0000, window_bytes = uint64_t{1} << 32;

inline bool in_window(uint64_t address, uint64_t window) { return address - window < window_bytes; }

// The first kilobyte of shared memory is reserved for the system, as on the hardware. A shared::cluster
// address of a byte in CTA `rank` has rank + 1 in bits 24 to 31; 0 in these bits means the executing CTA.
inline constexpr uint32_t shared_reserved = hopper::reserved_shared_bytes;
inline constexpr uint32_t shared_offset_mask = (1u << 24) - 1;
inline constexpr uint32_t shared_limit = hopper::shared_bytes;

struct Allocation {
  Address address = 0;
  size_t size = 0;
  std::string name;  // name of a module's variable; empty if the host allocated the memory
  bool read_only = false;
  uint32_t device = 0;  // number of the device that holds the memory
  std::unique_ptr<std::byte[], decltype(&std::free)>
      bytes;  // initially zeros, which take host memory only once they are touched
  // A bit for each word that the host or a kernel has written, because newly allocated memory is undefined.
  std::unique_ptr<uint64_t[], decltype(&std::free)> written;

  // The range [offset, offset + count) must be inside the allocation.
  void note_written(uint64_t offset, uint64_t count) const;
  std::optional<uint64_t> first_unwritten(uint64_t offset, uint64_t count) const;
  std::byte* at(Address inside) const { return bytes.get() + (inside - address); }
  std::string name_of(uint64_t offset) const;  // for example "flags+8", for reports
};

// Addresses are used only once, have gaps between allocations, and are the same in every run.
class GlobalMemory {
 public:
  Address allocate(size_t bytes, std::string name = {}, size_t align = 256, bool read_only = false,
                   uint32_t device = 0);
  void release(Address address) noexcept;

  // Returns the allocation that contains all of [address, address + bytes), or null.
  const Allocation* find(Address address, size_t bytes) const;

  // Returns the host memory of a range that the host copies. Throws an Error that explains what is wrong with
  // the range. If `writes` is true, the range counts as initialised.
  std::byte* host(Address address, size_t bytes, const char* operation, bool writes = false) const;

  // Describes an address that is in no allocation, for example "256 B past the end of allocation 0x700000100
  // of 1024 B".
  std::string describe(Address address) const;

 private:
  Address next_ = 0x7'0000'0000;
  std::map<Address, Allocation> live_;
  std::map<Address, size_t> released_;
};

}  // namespace ptxbuilder::runtime::emulator
