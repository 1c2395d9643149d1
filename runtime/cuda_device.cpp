#include "runtime/cuda_device.h"

#include <fmt/format.h>

#include <cstring>
#include <typeinfo>

#include "runtime/cuda_program.h"
#include "runtime/launch_check.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

using cu::Status;
using std::chrono::milliseconds;

class CudaDevice final : public Device {
 public:
  CudaDevice(const std::string& target, const std::string& library, std::optional<int> ordinal)
      : context_(target, library, ordinal),
        queue_(
            context_, [this] { return about_failure(); }, [this] { tell_work_done(); }),
        properties_(read_properties()) {}

  DeviceProperties properties() const override { return properties_; }

  Address allocate(size_t bytes) override;
  void release(Address address) noexcept override {
    if (address == 0) return;
    try {
      const RelaxedCapture any_capture(driver());
      if (!queue_.settle()) return;
      const CudaContext::Scope scope(context_);
      (void)driver().mem_free.status(address);
    } catch (const Error&) {  // the driver has shut down and has freed the memory
    }
  }
  void copy_in(Address to, const void* from, size_t bytes) override;
  void copy_out(void* to, Address from, size_t bytes) override;
  void fill(Address to, uint8_t value, size_t bytes) override { queue_fill(to, value, bytes, {}); }
  void queue_copy_in(Address to, const void* from, size_t bytes, Stream stream) override;
  void queue_copy_out(void* to, Address from, size_t bytes, Stream stream) override;
  void queue_fill(Address to, uint8_t value, size_t bytes, Stream stream) override;

  std::unique_ptr<Program> load(const std::string& image, const Signature& signature) override {
    queue_.check_usable();
    return std::make_unique<CudaProgram>(queue_, image, signature);
  }
  void* stream() const override { return queue_.stream(); }
  void make_current() override { context_.make_current(); }
  std::unique_ptr<MappedMemory> map_memory(size_t bytes) override;
  void reach(Device& peer) override {
    const auto* gpu = dynamic_cast<CudaDevice*>(&peer);
    if (!gpu) throw Error("reach: the other device is not a GPU");
    context_.reach(gpu->context_);
  }
  std::unique_ptr<OwnedStream> create_stream() override;
  std::unique_ptr<Event> create_event() override;
  std::unique_ptr<Graph> capture(const std::function<void(Stream)>& work) override;
  bool is_capturing(Stream stream) override;
  void synchronize(milliseconds limit) override { queue_.wait(limit); }
  void synchronize(Stream stream, milliseconds limit) override { queue_.wait(limit, stream); }
  std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) override;

 protected:
  TensorMap encode_in_scope(const TensorMapView& map) override;
  void launch_in_scope(Program& program, const Launch& launch,
                       std::span<const void* const> parameters) override;
  std::optional<void*> enter() override { return context_.enter(CudaContext::For::launch); }
  void leave(void* before) noexcept override { context_.leave(static_cast<cu::Context>(before)); }

 private:
  const cu::Driver& driver() const { return context_.driver(); }
  DeviceProperties read_properties() const;

  CudaContext context_;
  CudaQueue queue_;
  DeviceProperties properties_;
};

DeviceProperties CudaDevice::read_properties() const {
  char name[256] = {};
  driver().device_get_name(name, sizeof name - 1, context_.ordinal());
  size_t memory = 0;
  driver().device_total_mem(&memory, context_.ordinal());
  int version = 0;
  driver().driver_get_version(&version);
  return {.name = name,
          .compute_capability = context_.compute_capability(),
          .multiprocessors = context_.attribute(cu::DeviceAttribute::multiprocessor_count),
          .memory_bytes = memory,
          .shared_bytes_per_cta = static_cast<uint32_t>(
              context_.attribute(cu::DeviceAttribute::max_shared_memory_per_block_optin)),
          .driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10),
          .ordinal = context_.ordinal()};
}

Address CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) throw Error("allocate: 0 B of device memory were requested, but there must be at least 1");
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  const RelaxedCapture any_capture(driver());
  cu::DevicePtr address = 0;
  Status status = driver().mem_alloc.status(&address, bytes);
  if (status == Status::out_of_memory) {
    size_t free = 0, total = 0;
    driver().mem_get_info(&free, &total);
    throw Error(fmt::format("allocate: {} B of device memory were requested, but only {} B of {} B are free",
                            bytes, free, total),
                Error::Kind::out_of_memory);
  }
  queue_.expect(status, "cuMemAlloc");
  return address;
}

// Copies wait for the stream before and after the copy. They therefore do not read memory that a kernel is
// still writing, and do not hang if the kernel never ends.
void CudaDevice::copy_in(Address to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const RelaxedCapture any_capture(driver());
  queue_.wait();
  queue_copy_in(to, from, bytes, {});
  queue_.wait();
}

void CudaDevice::copy_out(void* to, Address from, size_t bytes) {
  if (bytes == 0) return;
  const RelaxedCapture any_capture(driver());
  queue_.wait();
  queue_copy_out(to, from, bytes, {});
  queue_.wait();
}

void CudaDevice::queue_copy_in(Address to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  queue_.expect(driver().memcpy_htod_async.status(to, from, bytes, queue_.handle(stream)),
                "cuMemcpyHtoDAsync");
}

void CudaDevice::queue_copy_out(void* to, Address from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  queue_.expect(driver().memcpy_dtoh_async.status(to, from, bytes, queue_.handle(stream)),
                "cuMemcpyDtoHAsync");
}

void CudaDevice::queue_fill(Address to, uint8_t value, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  queue_.expect(driver().memset_d8_async.status(to, value, bytes, queue_.handle(stream)), "cuMemsetD8Async");
}

TensorMap CudaDevice::encode_in_scope(const TensorMapView& a) {
  TensorMap map;
  const uint64_t no_stride = 0;  // for rank 1, because the driver requires a valid address
  const TensorMapRecipe& recipe = a.recipe;
  const uint64_t* const strides = a.strides.empty() ? &no_stride : a.strides.data();
  std::array<uint32_t, 5> element_strides = {};
  for (size_t d = 0; d < a.shape.size(); ++d) element_strides.at(d) = a.element_stride(d);
  const auto encode = [&](auto& entry, auto... box) {
    return entry.status(&map, cu::data_type(recipe.dtype), static_cast<uint32_t>(recipe.rank()),
                        reinterpret_cast<void*>(a.address), a.shape.data(), strides, box...,
                        element_strides.data(), static_cast<int>(recipe.interleave),
                        static_cast<int>(recipe.swizzle), static_cast<int>(recipe.l2_promotion),
                        static_cast<int>(recipe.oob_fill));
  };
  const char* const call = a.im2col ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled";
  const Status status = a.im2col ? encode(driver().tensor_map_encode_im2col, a.im2col->lower.data(),
                                          a.im2col->upper.data(), recipe.box[0], recipe.pixels)
                                 : encode(driver().tensor_map_encode_tiled, recipe.box.data());
  // If the map is for the next kernel, this call may be the first to report the failure of an earlier kernel.
  if (status != Status::invalid_value) queue_.expect(status, call);
  if (status != Status::success)
    throw Error(fmt::format(
        "{} failed: {}; the map complies with the manual's rules: {} at {:#x}, shape [{}], strides [{}] B, "
        "box [{}], "
        "element strides [{}], interleave {}, swizzle {}, L2 promotion {}, fill {}{}",
        call, driver().loaded.describe(status), name(recipe.dtype), a.address, fmt::join(a.shape, ", "),
        fmt::join(a.strides, ", "), fmt::join(recipe.box, ", "),
        fmt::join(std::span(element_strides).first(a.shape.size()), ", "), name(recipe.interleave),
        name(recipe.swizzle), name(recipe.l2_promotion), name(recipe.oob_fill),
        a.im2col ? fmt::format(", {} pixels, corners [{}] and [{}]", recipe.pixels,
                               fmt::join(a.im2col->lower, ", "), fmt::join(a.im2col->upper, ", "))
                 : ""));
  correct_small_map(map, a, context_.compute_capability());
  return map;
}

void CudaDevice::launch_in_scope(Program& program, const Launch& launch,
                                 std::span<const void* const> parameters) {
  queue_.check_usable();
  if (typeid(program) != typeid(CudaProgram))
    throw Error("launch: the program was loaded on another kind of device");
  const auto& cuda_program = static_cast<const CudaProgram&>(program);
  const Signature& signature = cuda_program.signature();
  if (!launch.is_checked) check(launch, signature, properties_.shared_bytes_per_cta);
  if (parameters.size() != signature.parameters.size())
    throw Error(fmt::format("launch of '{}': {} parameters were given, but the kernel takes {}",
                            signature.kernel, parameters.size(), signature.parameters.size()));

  cu::LaunchAttribute attributes[3];
  unsigned count = 0;
  auto add = [&](cu::LaunchAttributeId id) -> cu::LaunchAttributeValue& {
    attributes[count] = {id, {}, {}};
    return attributes[count++].value;
  };
  if (launch.cluster.x * launch.cluster.y * launch.cluster.z > 1)
    add(cu::LaunchAttributeId::cluster_dimension).cluster_dim = {launch.cluster.x, launch.cluster.y,
                                                                 launch.cluster.z};
  if (launch.programmatic_dependent_launch)
    add(cu::LaunchAttributeId::programmatic_stream_serialization).programmatic_stream_serialization_allowed =
        1;
  if (launch.cooperative) add(cu::LaunchAttributeId::cooperative).cooperative = 1;
  const cu::LaunchConfig config = {launch.grid.x,
                                   launch.grid.y,
                                   launch.grid.z,
                                   launch.block.x,
                                   launch.block.y,
                                   launch.block.z,
                                   launch.dynamic_shared_bytes,
                                   queue_.handle(launch.stream),
                                   attributes,
                                   count};
  Status status = driver().launch_kernel_ex.status(&config, cuda_program.function(),
                                                   const_cast<void**>(parameters.data()), nullptr);
  if (status != Status::success)
    queue_.expect(status, fmt::format("cuLaunchKernelEx of kernel '{}'", signature.kernel));
  queue_.note_launch(cuda_program.name());
}

class CudaMappedMemory final : public MappedMemory {
 public:
  CudaMappedMemory(CudaQueue& queue, size_t bytes) : queue_(queue) {
    queue.check_usable();
    const CudaContext::Scope scope(queue.context());
    const RelaxedCapture any_capture(queue.driver());
    const cu::Driver& driver = queue.driver();
    if (!driver.mem_host_alloc.available() || !driver.mem_host_get_device_pointer.available() ||
        !driver.mem_free_host.available())
      throw Error("map_memory: this driver has no host memory that kernels can access");
    driver.mem_host_alloc(&host_, bytes, cu::kHostAllocPortable | cu::kHostAllocDeviceMap);
    std::memset(host_, 0, bytes);
    cu::DevicePtr address = 0;
    driver.mem_host_get_device_pointer(&address, host_, 0);
    address_ = address;
    bytes_ = {static_cast<std::byte*>(host_), bytes};
  }
  // The memory of a device that has failed remains allocated until the process ends, like everything else
  // that the device holds.
  ~CudaMappedMemory() override {
    const RelaxedCapture any_capture(queue_.driver());
    if (!queue_.settle()) return;
    const CudaContext::Scope scope(queue_.context());
    (void)queue_.driver().mem_free_host.status(host_);
  }

 private:
  CudaQueue& queue_;
  void* host_ = nullptr;
};

std::unique_ptr<MappedMemory> CudaDevice::map_memory(size_t bytes) {
  return std::make_unique<CudaMappedMemory>(queue_, bytes);
}

class CudaStream final : public OwnedStream {
 public:
  explicit CudaStream(CudaQueue& queue) : queue_(queue) {
    queue.check_usable();
    const CudaContext::Scope scope(queue.context());
    const RelaxedCapture any_capture(queue.driver());
    cu::Stream stream = nullptr;
    queue.driver().stream_create(&stream, cu::kStreamNonBlocking);
    stream_ = Stream(stream);
  }
  // The driver destroys the stream once its work is done.
  ~CudaStream() override { (void)queue_.driver().stream_destroy.status(queue_.handle(stream_)); }

 private:
  CudaQueue& queue_;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaQueue& queue) : queue_(queue) {
    queue.check_usable();
    const CudaContext::Scope scope(queue.context());
    queue.driver().event_create(&event_, cu::kEventDisableTiming);
  }
  ~CudaEvent() override { (void)queue_.driver().event_destroy.status(event_); }

  void record(Stream stream) override {
    queue_.check_usable();
    // The scope is necessary because a null stream means the default stream of the current context.
    const CudaContext::Scope scope(queue_.context());
    queue_.expect(queue_.driver().event_record.status(event_, queue_.handle(stream)), "cuEventRecord");
  }
  void hold(Stream stream) override {
    queue_.check_usable();
    const CudaContext::Scope scope(queue_.context());
    queue_.expect(queue_.driver().stream_wait_event.status(queue_.handle(stream), event_, 0),
                  "cuStreamWaitEvent");
  }
  bool is_done() override {
    queue_.check_usable();
    const Status status = queue_.driver().event_query.status(event_);
    if (status == Status::not_ready) return false;
    queue_.expect(status, "cuEventQuery");
    return true;
  }
  void wait(milliseconds limit) override { queue_.wait(event_, limit); }

 private:
  CudaQueue& queue_;
  cu::Event event_ = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaQueue& queue, const std::function<void(Stream)>& work) : queue_(queue) {
    const CudaStream stream(queue);
    const CudaContext::Scope scope(queue.context());
    const cu::Stream handle = queue.handle(stream);
    cu::Graph graph = nullptr;
    // The capture is relaxed, so that a kernel can be loaded during the capture, whatever the driver version.
    driver().stream_begin_capture(handle, cu::CaptureMode::relaxed);
    try {
      work(stream);
    } catch (...) {  // the capture must be ended, and its graph is discarded
      if (driver().stream_end_capture.status(handle, &graph) == Status::success && graph)
        (void)driver().graph_destroy.status(graph);
      throw;
    }
    driver().stream_end_capture(handle, &graph);
    const Status status = driver().graph_instantiate.status(&exec_, graph, 0);
    (void)driver().graph_destroy.status(graph);
    if (status != Status::success) driver().loaded.fail("cuGraphInstantiateWithFlags", status);
    driver().graph_upload(exec_, queue.stream());
  }
  // The driver frees the graph once its launches are done.
  ~CudaGraph() override {
    if (exec_) (void)driver().graph_exec_destroy.status(exec_);
  }

  void launch(Stream stream) override {
    queue_.check_usable();
    const CudaContext::Scope scope(queue_.context(), CudaContext::For::launch);
    queue_.expect(driver().graph_launch.status(exec_, queue_.handle(stream)), "cuGraphLaunch");
  }

 private:
  const cu::Driver& driver() const { return queue_.driver(); }

  CudaQueue& queue_;
  cu::GraphExec exec_ = nullptr;
};

std::unique_ptr<OwnedStream> CudaDevice::create_stream() { return std::make_unique<CudaStream>(queue_); }
std::unique_ptr<Event> CudaDevice::create_event() { return std::make_unique<CudaEvent>(queue_); }
bool CudaDevice::is_capturing(Stream stream) {
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  int status = 0;
  driver().stream_is_capturing(queue_.handle(stream), &status);
  return status != 0;
}
std::unique_ptr<Graph> CudaDevice::capture(const std::function<void(Stream)>& work) {
  queue_.check_usable();
  return std::make_unique<CudaGraph>(queue_, work);
}

// Events that record times in the stream. If the device hangs, they are not destroyed before the process
// ends.
class Events {
 public:
  Events(CudaQueue& queue, size_t count) : queue_(queue), events_(count) {
    const CudaContext::Scope scope(queue.context());
    for (cu::Event& event : events_) queue_.driver().event_create(&event, cu::kEventDefault);
  }
  ~Events() {
    if (!queue_.settle()) return;
    for (cu::Event event : events_) (void)queue_.driver().event_destroy.status(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  cu::Event operator[](size_t i) const { return events_[i]; }

 private:
  CudaQueue& queue_;
  std::vector<cu::Event> events_;
};

std::vector<double> CudaDevice::time(int warm_up, int count, const std::function<void()>& queue) {
  if (warm_up < 0 || count < 1)
    throw Error(
        fmt::format("time: {} warm-up calls and {} calls were requested, but there must be at least 0 and 1",
                    warm_up, count));
  queue_.check_usable();
  const CudaContext::Scope scope(context_);
  // The driver's queue is finite, and the host blocks if it is full. A kernel that hangs must therefore be
  // noticed before the other launches are queued.
  if (warm_up > 0) {
    queue();
    queue_.wait();
  }
  Events start(queue_, static_cast<size_t>(count)), end(queue_, static_cast<size_t>(count));
  for (int i = 1; i < warm_up; ++i) queue();
  for (int i = 0; i < count; ++i) {
    queue_.expect(driver().event_record.status(start[i], queue_.stream()), "cuEventRecord");
    queue();
    queue_.expect(driver().event_record.status(end[i], queue_.stream()), "cuEventRecord");
  }
  for (int i = 0; i < count; ++i) queue_.wait(end[i]);
  std::vector<double> microseconds;
  for (int i = 0; i < count; ++i) {
    float milliseconds = 0;
    driver().event_elapsed_time(&milliseconds, start[i], end[i]);
    microseconds.push_back(1000.0 * milliseconds);
  }
  return microseconds;
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(const std::string& target, const std::string& library,
                                         std::optional<int> ordinal) {
  return std::make_unique<CudaDevice>(target, library, ordinal);
}

}  // namespace ptxbuilder::runtime
