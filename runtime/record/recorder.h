// Tracks the modules, memory and tensor maps of a program by intercepting its driver calls. For each
// wanted launch, it writes a folder that `ptxb sim` can run: NAME.ptx, launch.json, and the contents of
// buffers before and after the launch.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/driver.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/entry.h"
#include "runtime/record/images.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime::record {

// A driver handle of a module, a library, a function or a kernel.
using Handle = const void*;

struct Wanted {
  std::filesystem::path folder = "ptxb-record";
  std::string kernel = {};     // part of the kernel's name, demangled or as in the PTX; "" for all kernels
  uint64_t launches = 10;      // largest number of launches to record
  uint64_t bytes = 256 << 20;  // largest part of an allocation to record, starting at a pointer
  std::vector<std::filesystem::path> ptx = {};
  // Returns the options that `ptxb record` has set in the environment.
  static Wanted from_environment();
};

// The driver functions that the recorder needs. A function is null if the driver lacks it.
struct DriverCalls {
  cu::Status (*synchronize)() = nullptr;
  cu::Status (*copy_out)(void*, cu::DevicePtr, size_t) = nullptr;
  cu::Status (*address_range)(cu::DevicePtr*, size_t*, cu::DevicePtr) = nullptr;
  cu::Status (*is_capturing)(cu::Stream, int*) = nullptr;
  cu::Status (*module_global)(cu::DevicePtr*, size_t*, Handle, const char*) = nullptr;
  cu::Status (*library_global)(cu::DevicePtr*, size_t*, Handle, const char*) = nullptr;
  cu::Status (*function_name)(const char**, Handle) = nullptr;
  cu::Status (*function_module)(Handle*, Handle) = nullptr;
  cu::Status (*library_module)(Handle*, Handle) = nullptr;
};

struct LaunchShape {
  Dim3 grid, block;
  std::optional<Dim3> cluster;
  uint32_t shared_bytes = 0;
  bool cooperative = false;
  cu::Stream stream = nullptr;
};

// Returns the bytes of all parameters if the launch passes them through `extra`, or null if it passes a list.
const std::byte* packed(void** parameters, void** extra);

struct RecordedMap {
  TensorMapArguments arguments;
};

class Recorder {
 public:
  Recorder(Wanted wanted, DriverCalls driver);

  void loaded(Handle module, Image image, bool is_library);
  void linked(std::string cubin, std::string ptx) { sources_.linked(std::move(cubin), std::move(ptx)); }
  void module_of(Handle library, Handle module);
  void found(Handle module, Handle function, const std::string& name);
  void is_function_of(Handle kernel, Handle function);
  void allocated(Address address, size_t bytes) { allocations_[address] = bytes; }
  void released(Address address) { allocations_.erase(address); }
  void encoded(const void* map, RecordedMap recorded);

  // begin() is called before a launch, and its result is passed to end() after the launch. `parameters`
  // contains a pointer to each parameter, or is null if `packed` contains all parameters.
  struct Launch;
  std::shared_ptr<Launch> begin(Handle function, const LaunchShape& shape, void** parameters,
                                const std::byte* packed);
  void end(Launch& launch);

  // Returns whether begin() would record the kernel.
  bool wants(Handle function);
  bool is_capturing(cu::Stream stream) const;
  void passed(size_t launches) { seen_ += launches; }  // counts launches that are not wanted
  // Reports why something is not recorded, only once for each reason.
  void note(const std::string& kernel, const std::string& why);

  // Returns the report that is printed when the program ends.
  std::string summary() const;

 private:
  struct Module {
    Image image;
    Handle handle;
    bool is_library;
  };
  struct Function {
    std::shared_ptr<const Module> module;
    std::string name;
  };
  struct Place {
    size_t buffer;
    uint64_t offset;
  };

  const Function* function_of(Handle handle);
  bool is_wanted(const std::string& kernel) const;
  std::optional<std::pair<Address, size_t>> allocation_of(Address address) const;
  std::optional<Place> place_of(Launch& launch, Address address);
  void add_variables(Launch& launch, const Module& module, const std::string& ptx);
  std::string value(Launch& launch, const std::byte* bytes, size_t count, const std::string& at);
  std::string map_value(Launch& launch, const RecordedMap& map, const std::string& at);
  void scan(Launch& launch, size_t buffer);

  Wanted wanted_;
  DriverCalls driver_;
  PtxSources sources_;
  std::map<Handle, std::shared_ptr<const Module>> modules_;
  std::map<Handle, Function> functions_;
  std::map<Address, size_t> allocations_;
  std::map<std::array<std::byte, 128>, RecordedMap> maps_;
  std::set<std::string> noted_;
  uint64_t recorded_ = 0, seen_ = 0;
};

}  // namespace ptxbuilder::runtime::record
