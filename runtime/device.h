// A device that runs kernels: the CUDA driver's or the CPU emulator's, with one interface.
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

using Address = uint64_t;  // of device global memory, in bytes

// Extents along x, y and z, as of a grid.
struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
};

// A kernel did not finish in time. This process cannot use a GPU again, and should end.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// A queue of launches and copies, which run one after the other; those of two streams may run at once. One
// that is not named is the device's own. Every CUstream of the caller's will do: nullptr is CUDA's default
// stream, and 2 that of the calling thread (cuda.h, CU_STREAM_PER_THREAD). A device without streams, such as
// the emulator, has one queue for all of them.
class Stream {
 public:
  Stream() = default;
  Stream(void* handle) : handle_(handle), is_own_(false) {}  // NOLINT: a CUstream is a stream

  bool is_own() const { return is_own_; }
  void* handle() const { return handle_; }  // of one that is not the device's own

 private:
  void* handle_ = nullptr;
  bool is_own_ = true;
};

// A stream that somebody made by Device::create_stream(). It must not outlive its device.
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

// A point in a stream, that other streams and the host can wait for. It must not outlive its device.
class Event {
 public:
  virtual ~Event() = default;

  virtual void record(Stream stream = {}) = 0;  // after what is queued there so far
  virtual void hold(Stream stream) = 0;         // what is queued there from now on waits for the event
  virtual bool is_done() = 0;
  // Throws Error when a kernel failed, and TimeoutError after `limit`.
  virtual void wait(std::chrono::milliseconds limit = std::chrono::seconds(30)) = 0;
};

// Launches and copies that were recorded once and are queued again as a whole. It must not outlive its
// device, nor what it launches, reads and writes.
class Graph {
 public:
  virtual ~Graph() = default;
  // This queues everything that was recorded.
  virtual void launch(Stream stream = {}) = 0;
};

// The shape of one launch (CUDA driver API, cuLaunchKernelEx).
struct Launch {
  Dim3 grid = {0, 0, 0};  // required: a launch without a grid is refused
  Dim3 block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool programmatic_dependent_launch = false;  // may start before the launch ahead of it has finished
  // Starts when all its CTAs run at once, as they must that wait for each other: a launch that does not fit
  // fails.
  bool cooperative = false;
  Stream stream = {};
  bool is_checked = false;  // all of it but the stream, by check() against the kernel's signature
};

// An encoded tensor map, as the kernel's `__grid_constant__` parameter holds it.
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes = {};
};

// The pixels that copies of a map in the mode im2col walk over, of a tensor whose innermost dimension are the
// channels of a pixel, and whose outermost are images. Lists are of the dimensions between, innermost first.
struct Im2col {
  std::vector<int> lower, upper;     // corners of the box of pixels, from the first and from the last pixel
  std::vector<uint32_t> steps = {};  // from a pixel to the next; empty for the recipe's element strides
};

// The tensor that cuTensorMapEncodeTiled takes, or with pixels cuTensorMapEncodeIm2col, and its address.
// Lists run from the innermost dimension outwards.
struct TensorMapView {
  const TensorMapRecipe& recipe;
  Address address;
  std::span<const uint64_t> shape;    // elements
  std::span<const uint64_t> strides;  // bytes; of dimensions 1 to rank - 1, since dimension 0 is contiguous
  const Im2col* im2col = nullptr;     // of a recipe with pixels

  // From an element, or a pixel, that a copy takes to the next.
  uint32_t element_stride(size_t d) const;
};

// The same with lists of its own.
struct TensorMapArguments {
  TensorMapRecipe recipe;
  Address address = 0;
  std::vector<uint64_t> shape, strides;
  std::optional<Im2col> im2col = {};

  // NOLINTNEXTLINE: meant to be implicit
  operator TensorMapView() const { return {recipe, address, shape, strides, im2col ? &*im2col : nullptr}; }
};

// The properties of a device.
struct DeviceProperties {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  int compute_capability;  // 90
  int multiprocessors;
  size_t memory_bytes;
  uint32_t shared_bytes_per_cta;  // the opt-in limit: 232448 on Hopper
  std::string driver;             // "CUDA 13.0" for the driver, "emulator" for the emulator
  int ordinal = -1;               // the GPU's number; none for what is no GPU
};

// A kernel that was loaded onto a device. Whoever loaded it owns it, and it must not outlive its device. The
// driver keeps its code to the end of the process: unloading it would break graphs, and captures under way.
class Program {
 public:
  virtual ~Program() = default;

  // The driver's compiler reported this for PTX text: registers, spills, advisories. Empty for a cubin.
  virtual std::string log() const { return ""; }
};

// Memory of the host that kernels of the device reach too, and that the host can read while they run and when
// they have failed. It must not outlive its device.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  Address address() const { return address_; }  // of the first byte, in a kernel
  std::span<std::byte> bytes() const { return bytes_; }

 protected:
  Address address_ = 0;
  std::span<std::byte> bytes_;
};

// A reporter knows what kernels report to the host besides their results. Any thread may ask, also several at
// once.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // Lines for the error of a launch that failed or did not end, each after a line's end; empty for none.
  virtual std::string about_failure() = 0;
  // The device is done with what was queued somewhere. Throws Error where a kernel has reported one.
  virtual void work_done() = 0;
};

// Any thread may use it at any time, also several at once. What a thread has as its current CUDA context is
// the same after every call as before.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Expires with the device, so that objects that outlive the device can notice.
  std::weak_ptr<const void> lifetime() const { return alive_; }

  virtual DeviceProperties properties() const = 0;

  // This says whether load() wants PTX text even where there is a cubin.
  virtual bool wants_ptx() const { return false; }

  // Memory. Sizes are bytes; an allocation is aligned to 256 bytes. Copies wait until the device's own stream
  // has done what was queued there; fill() is queued there, like a launch.
  virtual Address allocate(size_t bytes) = 0;
  virtual void release(Address address) noexcept = 0;
  virtual void copy_in(Address to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, Address from, size_t bytes) = 0;
  virtual void fill(Address to, uint8_t value, size_t bytes) = 0;

  // The same on a stream. They return at once, and the host's memory must stay as it is until they are done.
  virtual void queue_copy_in(Address to, const void* from, size_t bytes, Stream) { copy_in(to, from, bytes); }
  virtual void queue_copy_out(void* to, Address from, size_t bytes, Stream) { copy_out(to, from, bytes); }
  virtual void queue_fill(Address to, uint8_t value, size_t bytes, Stream) { fill(to, value, bytes); }

  // Loads the entry `signature.kernel` of a cubin or of PTX text (which the driver compiles, and the emulator
  // reads). Throws Error with the driver's log when the image is refused.
  virtual std::unique_ptr<Program> load(const std::string& image, const Signature& signature) = 0;

  // Checks every rule of the tensor map and encodes it; Error names the rule and the numbers.
  TensorMap encode(const TensorMapView& map);

  // Queues one launch; `parameters[i]` points at the value of the i-th kernel parameter, which is copied. It
  // neither waits, nor asks the driver for memory, so it may stand in a capture of the caller's.
  void launch(Program& program, const Launch& launch, std::span<const void* const> parameters);

  // The CUstream of the device's own stream, for libraries that queue work of their own there; null on a
  // device without streams.
  virtual void* stream() const { return nullptr; }
  // Makes the device's CUDA context the calling thread's, for libraries that ask for one.
  virtual void make_current() {}

  // Kernels of this device may read and write the peer's memory from now on, at the addresses that it has
  // there. Throws Error where the two are not devices of one host that reach each other.
  virtual void reach(Device& peer);

  // This says whether what is queued there is recorded, and not run.
  virtual bool is_capturing(Stream) { return false; }

  // A stream or an event that the caller owns.
  virtual std::unique_ptr<OwnedStream> create_stream() { return std::make_unique<OwnedStream>(); }
  virtual std::unique_ptr<Event> create_event();
  // Records what `work` queues on the stream that it is given; nothing runs yet. Throws Error on a device
  // that cannot, and passes on what `work` throws.
  virtual std::unique_ptr<Graph> capture(const std::function<void(Stream)>& work);

  // Waits for all work that was queued on the device's own stream, or on another. Throws Error when a kernel
  // failed, and TimeoutError when the work was not done after `limit`. After either, this process cannot use
  // the device again.
  virtual void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(30)) = 0;
  virtual void synchronize(Stream, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    synchronize(limit);
  }

  // The memory is zero. Throws Error on a device that has none.
  virtual std::unique_ptr<MappedMemory> map_memory(size_t bytes);
  // The reporter, as long as it lives, is asked when work is done, and when a launch has failed.
  void add_reporter(std::weak_ptr<Reporter> reporter);

  // Calls `queue` `warm_up` times uncounted, then `count` times, and returns the device time of each of
  // these in microseconds. Throws Error on a device whose clock says nothing about speed.
  virtual std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) = 0;

 protected:
  friend class LoadedKernel;  // which encodes several maps and launches, all in one scope

  // While it lives, the device's CUDA context is the calling thread's; only the library's own code runs.
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

  // encode() and launch() do this in a scope, with a map that check(map) has passed.
  virtual TensorMap encode_in_scope(const TensorMapView& map) = 0;
  virtual void launch_in_scope(Program& program, const Launch& launch,
                               std::span<const void* const> parameters) = 0;

  // A scope calls these: enter() gives the thread's context of before if it was another, to which leave()
  // goes back.
  virtual std::optional<void*> enter() { return std::nullopt; }
  virtual void leave(void* /*before*/) noexcept {}

  // It gives what all reporters say of a failure.
  std::string about_failure() const;
  void tell_work_done() const;

 private:
  std::vector<std::shared_ptr<Reporter>> reporters() const;

  std::shared_ptr<const void> alive_ = std::make_shared<char>();
  mutable std::mutex reporters_mutex_;
  std::vector<std::weak_ptr<Reporter>> reporters_;
};

}  // namespace ptxbuilder::runtime
