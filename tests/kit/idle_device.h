// A device that accepts everything and does nothing, so that only the host's part of a call remains.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::test {

class IdleDevice final : public runtime::Device {
 public:
  struct IdleProgram : runtime::Program {};
  runtime::DeviceProperties properties() const override { return {"idle", 90, 132, 1 << 30, 232448, "none"}; }
  bool wants_ptx() const override { return reads_ptx; }
  runtime::Address allocate(size_t bytes) override {
    ++allocations;
    return next_.fetch_add((bytes + 255) / 256 * 256);
  }
  void release(runtime::Address) noexcept override {}
  void copy_in(runtime::Address, const void*, size_t) override {}
  void copy_out(void*, runtime::Address, size_t) override {}
  void fill(runtime::Address, uint8_t, size_t) override {}
  std::unique_ptr<runtime::Program> load(const std::string&, const Signature&) override {
    ++loads;
    return std::make_unique<IdleProgram>();
  }
  runtime::TensorMap encode_in_scope(const runtime::TensorMapView&) override {
    ++encoded;
    return {};
  }
  void launch_in_scope(runtime::Program& program, const runtime::Launch& launch,
                       std::span<const void* const>) override {
    ++launches;
    last_stream = launch.stream.handle();
    {
      const std::lock_guard lock(mutex_);
      if (streams.size() < 10) streams.push_back(last_stream);
    }
    last_grid = launch.grid.x;
    last_program = &program;
    if (meanwhile) std::exchange(meanwhile, nullptr)();
  }
  void synchronize(std::chrono::milliseconds) override {}
  std::vector<double> time(int, int, const std::function<void()>&) override { return {}; }

  bool reads_ptx = true;
  std::vector<void*> streams;  // streams of the first launches; null for the device's own stream
  std::atomic<int> loads = 0, encoded = 0, launches = 0, allocations = 0;
  std::atomic<void*> last_stream = nullptr;  // null for the device's own
  std::atomic<uint32_t> last_grid = 0;
  std::atomic<const runtime::Program*> last_program = nullptr;
  std::function<void()> meanwhile;  // work of another thread, done during the next launch

 private:
  std::mutex mutex_;
  std::atomic<runtime::Address> next_ = runtime::Address{1} << 32;  // far from 0, like addresses of a GPU
};

}  // namespace ptxbuilder::test
