// The interface of devices that run kernels: GPUs with the CUDA driver, and the emulator on the CPU.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/error.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder::runtime {

class LoadedKernel;

using Address = uint64_t;  // byte address in the device's global memory

// Extents along x, y and z, such as those of a grid.
struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
};

// Thrown if a kernel did not finish in time. This process cannot use a GPU any more and should end.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// A queue of launches and copies, which run one after the other. Work in different streams may run at once.
// Stream{} is the device's own stream. Any CUstream of the caller is accepted: nullptr is CUDA's default
// stream, and 2 is the default stream of the calling thread (cuda.h, CU_STREAM_PER_THREAD). A device without
// streams, such as the emulator, has one queue for all streams.
class Stream {
 public:
  Stream() = default;
  Stream(void* handle) : handle_(handle), is_own_(false) {}  // NOLINT: a CUstream is a stream

  bool is_own() const { return is_own_; }
  void* handle() const { return handle_; }  // null for the device's own stream

 private:
  void* handle_ = nullptr;
  bool is_own_ = true;
};

// A stream that Device::create_stream() has created. It must not outlive its device.
class OwnedStream {
 public:
  OwnedStream() = default;
  virtual ~OwnedStream() = default;
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  operator Stream() const { return stream_; }  // NOLINT: meant to be implicit

 protected:
  Stream stream_;
};

// A point in a stream, for which other streams and the host can wait. It must not outlive its device.
class Event {
 public:
  virtual ~Event() = default;

  virtual void record(Stream stream = {}) = 0;  // the event occurs after all work that is already queued
  virtual void hold(Stream stream) = 0;         // makes work that is queued later wait for the event
  virtual bool is_done() = 0;
  // Waits for the event. Throws an Error if a kernel failed, and a TimeoutError after `limit`.
  virtual void wait(std::chrono::milliseconds limit = std::chrono::seconds(30)) = 0;
};

// Launches and copies that were recorded once and can be queued again as a whole. The graph must not outlive
// its device, its kernels, or the memory that it reads and writes.
class Graph {
 public:
  virtual ~Graph() = default;
  // Queues everything that was recorded.
  virtual void launch(Stream stream = {}) = 0;
};

// The shape of one launch (CUDA driver API, cuLaunchKernelEx).
struct Launch {
  Dim3 grid = {0, 0, 0};  // required; a launch without a grid is rejected
  Dim3 block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool programmatic_dependent_launch = false;  // whether it may start before the previous launch has finished
  // Makes all CTAs run at once, which is necessary if CTAs wait for each other. The launch fails if
  // its CTAs do not fit on the device.
  bool cooperative = false;
  Stream stream = {};
  bool is_checked = false;  // whether everything except the stream has passed check()
};

// An encoded tensor map. It has the form of a kernel's `__grid_constant__` parameter.
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes = {};
};

// The pixels over which copies with an im2col map walk. The tensor's innermost dimension contains the
// channels of a pixel, and its outermost dimension the images. The lists are for the dimensions in between,
// innermost first.
struct Im2col {
  std::vector<int> lower, upper;  // corners of the box of pixels, relative to the first and to the last pixel
  std::vector<uint32_t> steps = {};  // distance between pixels; if empty, the recipe's element strides apply
};

// The arguments of cuTensorMapEncodeTiled or, for pixels, of cuTensorMapEncodeIm2col. The innermost dimension
// comes first in all lists.
struct TensorMapView {
  const TensorMapRecipe& recipe;
  Address address;
  std::span<const uint64_t> shape;    // in elements
  std::span<const uint64_t> strides;  // in bytes, for dimensions 1 to rank - 1; dimension 0 is contiguous
  const Im2col* im2col = nullptr;     // set if the recipe is for pixels
  bool overlaps = false;              // whether a row may extend beyond the start of the next one

  // Returns the distance between consecutive elements or pixels that a copy transfers.
  uint32_t element_stride(size_t d) const;
};

// Like TensorMapView, but owns its lists.
struct TensorMapArguments {
  TensorMapRecipe recipe;
  Address address = 0;
  std::vector<uint64_t> shape, strides;
  std::optional<Im2col> im2col = {};
  bool overlaps = false;

  // NOLINTNEXTLINE: meant to be implicit
  operator TensorMapView() const {
    return {recipe, address, shape, strides, im2col ? &*im2col : nullptr, overlaps};
  }
};

// The properties of a device.
struct DeviceProperties {
  std::string name;        // for example "NVIDIA H100 80GB HBM3"
  int compute_capability;  // for example 90
  int multiprocessors;
  size_t memory_bytes;
  uint32_t shared_bytes_per_cta;  // opt-in limit: 232448 on Hopper
  std::string driver;             // "CUDA 13.0" for the driver, or "emulator"
  int ordinal = -1;               // number of the GPU; -1 if the device is not a GPU
};

// A kernel that was loaded onto a device. The caller of load() owns it, and it must not outlive its device.
// The code stays loaded until the process ends, because unloading it would break graphs and
// captures in progress.
class Program {
 public:
  virtual ~Program() = default;

  // Returns the messages of the driver's compiler about PTX text, such as registers, spills and advisories.
  // Returns an empty string for a cubin.
  virtual std::string log() const { return ""; }
};

// Host memory that kernels on the device can access too. The host can read it while kernels run, and after
// they have failed. It must not outlive its device.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  Address address() const { return address_; }  // address of the first byte, for use in a kernel
  std::span<std::byte> bytes() const { return bytes_; }

 protected:
  Address address_ = 0;
  std::span<std::byte> bytes_;
};

// Receives what kernels report to the host in addition to their results. Several threads may call it at once.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // Returns lines for the error of a launch that failed or did not end. Each line is preceded by a newline.
  // The text may be empty.
  virtual std::string about_failure() = 0;
  // Called by the device when queued work is done. Throws an Error if a kernel has reported an error.
  virtual void work_done() = 0;
};

// A device that runs kernels. Several threads may use it at once. No call changes a thread's current CUDA
// context.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns a pointer that expires with the device, so that objects that outlive the device can detect this.
  std::weak_ptr<const void> lifetime() const { return alive_; }

  virtual DeviceProperties properties() const = 0;

  // Returns whether load() needs PTX text even if there is a cubin.
  virtual bool wants_ptx() const { return false; }

  // Manage memory. Sizes are in bytes, and allocations are aligned to 256 bytes. Copies wait until the
  // device's own stream has done all its queued work; fill() is queued on that stream, like a launch.
  virtual Address allocate(size_t bytes) = 0;
  virtual void release(Address address) noexcept = 0;
  virtual void copy_in(Address to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, Address from, size_t bytes) = 0;
  virtual void fill(Address to, uint8_t value, size_t bytes) = 0;

  // Like the functions above, but queued on a given stream. These functions return at once. Host memory must
  // not be changed or freed until the copies are done.
  virtual void queue_copy_in(Address to, const void* from, size_t bytes, Stream) { copy_in(to, from, bytes); }
  virtual void queue_copy_out(void* to, Address from, size_t bytes, Stream) { copy_out(to, from, bytes); }
  virtual void queue_fill(Address to, uint8_t value, size_t bytes, Stream) { fill(to, value, bytes); }

  // Loads the entry `signature.kernel` from a cubin or from PTX text, which the driver compiles or the
  // emulator reads. Throws an Error that contains the driver's log if the image is rejected.
  virtual std::unique_ptr<Program> load(const std::string& image, const Signature& signature) = 0;

  // Checks all rules for the tensor map and encodes it. Throws an Error that names the violated rule and the
  // numbers.
  TensorMap encode(const TensorMapView& map);

  // Queues one launch. `parameters[i]` points to the value of the i-th kernel parameter, which is copied. The
  // call neither waits nor allocates memory through the driver, so the caller may capture it.
  void launch(Program& program, const Launch& launch, std::span<const void* const> parameters);

  // Returns the CUstream of the device's own stream, for libraries that queue their own work on it. Returns
  // null on a device without streams.
  virtual void* stream() const { return nullptr; }
  // Makes the device's CUDA context current in the calling thread, for libraries that need a context.
  virtual void make_current() {}

  // Lets kernels on this device access the peer's memory from now on, at the addresses that the peer uses.
  // Throws an Error unless both are devices of one host that can access each other.
  virtual void reach(Device& peer);

  // Returns whether work queued on the stream is recorded instead of executed.
  virtual bool is_capturing(Stream) { return false; }

  // Create a stream or an event that the caller owns.
  virtual std::unique_ptr<OwnedStream> create_stream() { return std::make_unique<OwnedStream>(); }
  virtual std::unique_ptr<Event> create_event();
  // Records the work that `work` queues on the stream that is passed to it, without executing it. Throws an
  // Error on a device that cannot record, and rethrows what `work` throws.
  virtual std::unique_ptr<Graph> capture(const std::function<void(Stream)>& work);

  // Waits for all work that was queued on the device's own stream, or on the given stream. Throws an Error if
  // a kernel failed, and a TimeoutError if the work was not done after `limit`. After either error, this
  // process cannot use the device again.
  virtual void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(30)) = 0;
  virtual void synchronize(Stream, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    synchronize(limit);
  }

  // Returns memory that initially contains zeros. Throws an Error on a device without such memory.
  virtual std::unique_ptr<MappedMemory> map_memory(size_t bytes);
  // Makes the device call the reporter, as long as it exists, when work is done and when a launch has failed.
  void add_reporter(std::weak_ptr<Reporter> reporter);

  // Calls `queue` `warm_up` times, then `count` times. Returns the device time of each of the last `count`
  // calls in microseconds. Throws an Error on a device whose clock does not measure speed.
  virtual std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) = 0;

 protected:
  friend class LoadedKernel;  // it encodes several maps and launches in one scope

  // Makes the device's CUDA context current while it exists. Only the library's own code may run during that
  // time.
  class Scope {
   public:
    explicit Scope(Device& device) : device_(device), before_(device.enter()) {}
    ~Scope() {
      if (before_) device_.leave(*before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Device& device_;
    std::optional<void*> before_;
  };

  // Implement encode() and launch() while a Scope exists. check(map) has already accepted the map.
  virtual TensorMap encode_in_scope(const TensorMapView& map) = 0;
  virtual void launch_in_scope(Program& program, const Launch& launch,
                               std::span<const void* const> parameters) = 0;

  // Called by a Scope: enter() returns the thread's previous context if it was a different one, and leave()
  // restores it.
  virtual std::optional<void*> enter() { return std::nullopt; }
  virtual void leave(void* /*before*/) noexcept {}

  // Returns the messages of all reporters about a failure.
  std::string about_failure() const;
  void tell_work_done() const;

 private:
  std::vector<std::shared_ptr<Reporter>> reporters() const;

  std::shared_ptr<const void> alive_ = std::make_shared<char>();
  mutable std::mutex reporters_mutex_;
  std::vector<std::weak_ptr<Reporter>> reporters_;
};

}  // namespace ptxbuilder::runtime
