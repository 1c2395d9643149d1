#include "kernels/measure/gpu.h"

#include <fmt/format.h>

#include "runtime/cuda_device.h"

namespace ptxbuilder::bench {
namespace {

using runtime::cu::Event;

std::unique_ptr<runtime::Device> open(const std::string& library) {
  try {
    return runtime::open_cuda_device("sm_90a", library);
  } catch (const Error& e) {
    throw Error(
        fmt::format("a benchmark needs a Hopper GPU, since the speed of an emulator says nothing about a "
                    "GPU; run it on a machine that has one ({})",
                    e.what()));
  }
}

class EventPair {
 public:
  explicit EventPair(const TimingDriver& driver) : driver_(driver) {
    driver_.event_create(&start, runtime::cu::kEventDefault);
    driver_.event_create(&end, runtime::cu::kEventDefault);
  }
  // Destroying an event fails if the device has been lost; this failure does not matter.
  ~EventPair() {
    (void)driver_.event_destroy.status(start);
    (void)driver_.event_destroy.status(end);
  }
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;

  Event start = nullptr, end = nullptr;

 private:
  const TimingDriver& driver_;
};

}  // namespace

Gpu::Gpu(const std::string& library) : device_(open(library)), driver_(library) {
  device_->make_current();
  runtime::cu::Ordinal ordinal = 0;
  driver_.ctx_get_device(&ordinal);
  int bytes = 0;
  driver_.device_get_attribute(&bytes, runtime::cu::DeviceAttribute::l2_cache_size, ordinal);
  l2_bytes_ = static_cast<size_t>(bytes);
  char text[32] = {};
  driver_.device_get_pci_bus_id(text, sizeof text, ordinal);
  pci_bus_id_ = text;
}

void Gpu::copy(runtime::Address to, runtime::Address from, size_t bytes) const {
  driver_.memcpy_dtod_async(to, from, bytes, stream());
}

double Gpu::milliseconds(const std::function<void()>& queue, const std::function<void()>& meanwhile) const {
  EventPair events(driver_);
  driver_.event_record(events.start, stream());
  queue();
  driver_.event_record(events.end, stream());
  meanwhile();
  device_->synchronize(std::chrono::minutes(1));
  float time = 0;
  driver_.event_elapsed_time(&time, events.start, events.end);
  return static_cast<double>(time);
}

Graph::Graph(const Gpu& gpu, const std::function<void()>& record) : gpu_(gpu) {
  const TimingDriver& driver = gpu.driver();
  runtime::cu::Graph graph = nullptr;
  driver.stream_begin_capture(gpu.stream(), runtime::cu::CaptureMode::relaxed);
  try {
    record();
  } catch (...) {  // the capture must be ended, but its graph is not needed
    if (driver.stream_end_capture.status(gpu.stream(), &graph) == runtime::cu::Status::success)
      (void)driver.graph_destroy.status(graph);
    throw;
  }
  driver.stream_end_capture(gpu.stream(), &graph);
  const runtime::cu::Status status = driver.graph_instantiate.status(&exec_, graph, 0);
  (void)driver.graph_destroy.status(graph);
  if (status != runtime::cu::Status::success) driver.loaded.fail("cuGraphInstantiateWithFlags", status);
  driver.graph_upload(exec_, gpu.stream());
}

Graph::~Graph() {
  if (exec_) (void)gpu_.driver().graph_exec_destroy.status(exec_);
}

void Graph::launch() const { gpu_.driver().graph_launch(exec_, gpu_.stream()); }

}  // namespace ptxbuilder::bench
