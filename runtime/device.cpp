// Defines streams and events for a device without streams. Such a device has a single queue, in which
// everything runs in order.
#include "runtime/device.h"

#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

// An event in the single queue. Work that is queued later always runs after the event.
class InOrderEvent final : public Event {
 public:
  explicit InOrderEvent(Device& device) : device_(device) {}

  void record(Stream) override {}
  void hold(Stream) override {}
  bool is_done() override {
    wait(std::chrono::hours(24));
    return true;
  }
  void wait(std::chrono::milliseconds limit) override { device_.synchronize(limit); }

 private:
  Device& device_;
};

}  // namespace

uint32_t TensorMapView::element_stride(size_t d) const {
  const bool steps = im2col && d > 0 && d <= im2col->steps.size();
  return steps ? im2col->steps[d - 1] : recipe.element_strides[d];
}

TensorMap Device::encode(const TensorMapView& map) {
  check(map);
  const Scope scope(*this);
  return encode_in_scope(map);
}

void Device::launch(Program& program, const Launch& launch, std::span<const void* const> parameters) {
  const Scope scope(*this);
  launch_in_scope(program, launch, parameters);
}

std::unique_ptr<MappedMemory> Device::map_memory(size_t) {
  throw Error("map_memory: this device has no host memory that kernels can access");
}

void Device::reach(Device&) { throw Error("reach: this device cannot access the memory of other devices"); }

void Device::add_reporter(std::weak_ptr<Reporter> reporter) {
  const std::lock_guard lock(reporters_mutex_);
  std::erase_if(reporters_, [](const auto& known) { return known.expired(); });
  reporters_.push_back(std::move(reporter));
}

std::vector<std::shared_ptr<Reporter>> Device::reporters() const {
  const std::lock_guard lock(reporters_mutex_);
  std::vector<std::shared_ptr<Reporter>> all;
  for (const auto& reporter : reporters_)
    if (auto lives = reporter.lock()) all.push_back(std::move(lives));
  return all;
}

std::string Device::about_failure() const {
  std::string text;
  for (const auto& reporter : reporters()) text += reporter->about_failure();
  return text;
}

void Device::tell_work_done() const {
  for (const auto& reporter : reporters()) reporter->work_done();
}

std::unique_ptr<Event> Device::create_event() { return std::make_unique<InOrderEvent>(*this); }

std::unique_ptr<Graph> Device::capture(const std::function<void(Stream)>&) {
  throw Error("capture: this device cannot record graphs");
}

}  // namespace ptxbuilder::runtime
