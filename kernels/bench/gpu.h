// The GPU of a benchmark: a device of the runtime, with the driver's graphs, events and copies that only
// timing takes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/driver.h"

namespace ptxbuilder::bench {

using GraphHandle = struct GraphHandleTag*;
using GraphExecHandle = struct GraphExecHandleTag*;

// Entry points of libcuda beyond those of the runtime, under their names in the manual.
struct TimingDriver {
  explicit TimingDriver(const std::string& path) : loaded(path) {}
  TimingDriver(const TimingDriver&) = delete;
  TimingDriver& operator=(const TimingDriver&) = delete;

  template <class... Args>
  using Entry = runtime::cu::Entry<Args...>;
  using Stream = runtime::cu::Stream;

  runtime::cu::Library loaded;

  Entry<runtime::cu::Ordinal*> ctx_get_device{loaded, "cuCtxGetDevice"};
  Entry<int*, int /*attribute*/, runtime::cu::Ordinal> device_get_attribute{loaded, "cuDeviceGetAttribute"};
  Entry<char*, int, runtime::cu::Ordinal> device_get_pci_bus_id{loaded, "cuDeviceGetPCIBusId"};
  Entry<runtime::cu::DevicePtr, runtime::cu::DevicePtr, size_t, Stream> memcpy_dtod_async{
      loaded, "cuMemcpyDtoDAsync_v2"};
  Entry<Stream, int /*mode*/> stream_begin_capture{loaded, "cuStreamBeginCapture_v2"};
  Entry<Stream, GraphHandle*> stream_end_capture{loaded, "cuStreamEndCapture"};
  Entry<GraphExecHandle*, GraphHandle, unsigned long long /*flags*/> graph_instantiate{
      loaded, "cuGraphInstantiateWithFlags"};
  Entry<GraphExecHandle, Stream> graph_upload{loaded, "cuGraphUpload"};
  Entry<GraphExecHandle, Stream> graph_launch{loaded, "cuGraphLaunch"};
  Entry<GraphExecHandle> graph_exec_destroy{loaded, "cuGraphExecDestroy"};
  Entry<GraphHandle> graph_destroy{loaded, "cuGraphDestroy"};
  Entry<runtime::cu::Event*, unsigned> event_create{loaded, "cuEventCreate"};
  Entry<runtime::cu::Event, Stream> event_record{loaded, "cuEventRecord"};
  Entry<float*, runtime::cu::Event, runtime::cu::Event> event_elapsed_time{loaded, "cuEventElapsedTime"};
  Entry<runtime::cu::Event> event_destroy{loaded, "cuEventDestroy_v2"};
};

constexpr int kAttributeL2CacheSize = 38;  // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
constexpr int kCaptureRelaxed = 2;         // CU_STREAM_CAPTURE_MODE_RELAXED

class Gpu {
 public:
  // Throws Error that says that a GPU is needed, and why there is none.
  explicit Gpu(const std::string& library = "libcuda.so.1");

  runtime::Device& device() const { return *device_; }
  const TimingDriver& driver() const { return driver_; }
  runtime::cu::Stream stream() const { return static_cast<runtime::cu::Stream>(device_->stream()); }
  size_t l2_bytes() const { return l2_bytes_; }
  const std::string& pci_bus_id() const { return pci_bus_id_; }

  // Queued, like a launch.
  void copy(runtime::Address to, runtime::Address from, size_t bytes) const;

  // The time in milliseconds between two events around what `queue` queues. `meanwhile` runs on the host once
  // all is queued, and is not timed. Throws TimeoutError when the GPU is not done after a minute.
  double milliseconds(
      const std::function<void()>& queue, const std::function<void()>& meanwhile = [] {}) const;

 private:
  std::unique_ptr<runtime::Device> device_;
  TimingDriver driver_;
  size_t l2_bytes_ = 0;
  std::string pci_bus_id_;
};

// Launches recorded once and replayed: the host's part of them, and every check and tensor map, stays out of
// what is timed.
class Graph {
 public:
  // `record` launches on the device of `gpu`; nothing runs yet.
  Graph(const Gpu& gpu, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() const;  // queued

 private:
  const Gpu& gpu_;
  GraphExecHandle exec_ = nullptr;
};

}  // namespace ptxbuilder::bench
