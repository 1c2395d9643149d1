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

// Generic addresses: global memory is not translated, the other spaces each have a window of 2^32 bytes.
inline constexpr uint64_t shared_window = 0x7f00'0000'0000, local_window = 0x7e00'0000'0000,
                          param_window = 0x7d00'0000'0000, window_bytes = uint64_t{1} << 32;

inline bool in_window(uint64_t address, uint64_t window) { return address - window < window_bytes; }

// Shared addresses: the first kilobyte is reserved for the system, as on the hardware. The address of a byte
// in CTA `rank` of the cluster has rank + 1 in bits 24 to 31; 0 there means the executing CTA itself.
inline constexpr uint32_t shared_reserved = hopper::reserved_shared_bytes;
inline constexpr uint32_t shared_offset_mask = (1u << 24) - 1;
inline constexpr uint32_t shared_limit = hopper::shared_bytes;

struct Allocation {
  Address address = 0;
  size_t size = 0;
  std::string name;  // of a module's variable; empty for an allocation of the host
  bool read_only = false;
  uint32_t device = 0;  // the device that holds it
  std::unique_ptr<std::byte[], decltype(&std::free)>
      bytes;  // zeros, which take no room until they are touched
  // A bit for each word that the host or a kernel has written: newly allocated memory is undefined.
  std::unique_ptr<uint64_t[], decltype(&std::free)> written;

  // Both take the range [offset, offset + count), which must be inside the allocation.
  void note_written(uint64_t offset, uint64_t count) const;
  std::optional<uint64_t> first_unwritten(uint64_t offset, uint64_t count) const;
  std::byte* at(Address inside) const { return bytes.get() + (inside - address); }
  std::string name_of(uint64_t offset) const;  // "flags+8", for reports
};

// Addresses are handed out only once, with a gap between allocations, and are the same in every
// run.
class GlobalMemory {
 public:
  Address allocate(size_t bytes, std::string name = {}, size_t align = 256, bool read_only = false,
                   uint32_t device = 0);
  void release(Address address) noexcept;

  // Returns the allocation that contains all of [address, address + bytes), or null.
  const Allocation* find(Address address, size_t bytes) const;

  // Returns host memory for the host's copies. Throws Error that says what is wrong with the range. A range
  // that is written counts as initialised.
  std::byte* host(Address address, size_t bytes, const char* operation, bool writes = false) const;

  // "256 B past the end of allocation 0x700000100 of 1024 B", for an address that is in none.
  std::string describe(Address address) const;

 private:
  Address next_ = 0x7'0000'0000;
  std::map<Address, Allocation> live_;
  std::map<Address, size_t> released_;
};

}  // namespace ptxbuilder::runtime::emulator
