// Provides the GPU of a benchmark, which adds to a device of the runtime the driver's events and asynchronous
// copies, which the runtime does not use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/driver.h"

namespace ptxbuilder::bench {

// The driver functions that timing needs in addition to those of the runtime, under the names that the manual
// uses.
struct TimingDriver : runtime::cu::Driver {
  using Driver::Driver;

  runtime::cu::Entry<char*, int, runtime::cu::Ordinal> device_get_pci_bus_id{loaded, "cuDeviceGetPCIBusId"};
  runtime::cu::Entry<runtime::cu::DevicePtr, runtime::cu::DevicePtr, size_t, runtime::cu::Stream>
      memcpy_dtod_async{loaded, "cuMemcpyDtoDAsync_v2"};
};

class Gpu {
 public:
  // If no GPU is available, throws an Error that states the reason.
  explicit Gpu(const std::string& library = "libcuda.so.1");

  runtime::Device& device() const { return *device_; }
  const TimingDriver& driver() const { return driver_; }
  runtime::cu::Stream stream() const { return static_cast<runtime::cu::Stream>(device_->stream()); }
  size_t l2_bytes() const { return l2_bytes_; }
  const std::string& pci_bus_id() const { return pci_bus_id_; }

  // These functions queue their work, like launches.
  void copy(runtime::Address to, runtime::Address from, size_t bytes) const;

  // Measures the work that `queue` queues, with an event before and an event after the work, and returns the
  // time in milliseconds. `meanwhile` runs on the host after everything has been queued, and is not timed.
  // Throws TimeoutError if the GPU is not done after a minute.
  double milliseconds(
      const std::function<void()>& queue, const std::function<void()>& meanwhile = [] {}) const;

 private:
  std::unique_ptr<runtime::Device> device_;
  TimingDriver driver_;
  size_t l2_bytes_ = 0;
  std::string pci_bus_id_;
};

// Launches that are recorded once and then replayed, so that the work on the host, such as checking arguments
// and encoding tensor maps, is not timed.
class Graph {
 public:
  // Records what `record` launches on the device of `gpu`; nothing runs yet.
  Graph(const Gpu& gpu, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() const;  // queues the graph

 private:
  const Gpu& gpu_;
  runtime::cu::GraphExec exec_ = nullptr;
};

}  // namespace ptxbuilder::bench
