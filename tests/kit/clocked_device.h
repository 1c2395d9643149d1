// A device with a clock that determines which measured kernel is the fastest, so that tuning can be tested
// without real times.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::test {

// Forwards everything to another device, and counts the measurements of kernels::fastest(). fastest() runs
// the contenders one by one, then in bursts over all sets of operands, and then in rounds.
class ClockedDevice final : public runtime::Device {
 public:
  explicit ClockedDevice(runtime::Device& device) : device_(device) {}

  size_t take = 1;  // number of the fastest contender, modulo the number of contenders
  size_t calls = 0, contenders = 0,
         sets = 0;  // `calls` counts measurements; `contenders` and `sets` belong to the last measurement

  runtime::DeviceProperties properties() const override {
    runtime::DeviceProperties properties = device_.properties();
    properties.ordinal = 0;
    return properties;
  }
  bool wants_ptx() const override { return device_.wants_ptx(); }
  runtime::Address allocate(size_t bytes) override { return device_.allocate(bytes); }
  void release(runtime::Address address) noexcept override { device_.release(address); }
  void copy_in(runtime::Address to, const void* from, size_t bytes) override {
    device_.copy_in(to, from, bytes);
  }
  void copy_out(void* to, runtime::Address from, size_t bytes) override { device_.copy_out(to, from, bytes); }
  void fill(runtime::Address to, uint8_t value, size_t bytes) override { device_.fill(to, value, bytes); }
  std::unique_ptr<runtime::Program> load(const std::string& image, const Signature& signature) override {
    return device_.load(image, signature);
  }
  runtime::TensorMap encode_in_scope(const runtime::TensorMapView& map) override {
    return device_.encode(map);
  }
  void launch_in_scope(runtime::Program& program, const runtime::Launch& launch,
                       std::span<const void* const> parameters) override {
    last_ = &program;
    ++launches_[last_];
    device_.launch(program, launch, parameters);
  }
  bool is_capturing(runtime::Stream stream) override { return device_.is_capturing(stream); }
  std::unique_ptr<runtime::OwnedStream> create_stream() override { return device_.create_stream(); }
  void synchronize(std::chrono::milliseconds limit) override { device_.synchronize(limit); }
  void synchronize(runtime::Stream stream, std::chrono::milliseconds limit) override {
    device_.synchronize(stream, limit);
  }

  // A device that does not record runs the work at once.
  std::unique_ptr<runtime::Graph> capture(const std::function<void(runtime::Stream)>& work) override {
    launches_.clear();
    if (is_burst_) contenders_.clear(), is_burst_ = false;  // a new measurement begins
    std::unique_ptr<runtime::Graph> graph;
    if (records)
      graph = device_.capture(work);
    else
      work({});
    return std::make_unique<Recorded>(*this, std::move(graph), last_, launches_[last_]);
  }
  bool records = true;

  // Returns times that are so long that a burst has one launch for each set.
  std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) override {
    times_ = true;
    for (int i = 0; i < warm_up + count; ++i) queue();
    times_ = false;
    const auto at = static_cast<size_t>(std::ranges::find(contenders_, timed_) - contenders_.begin());
    return std::vector<double>(static_cast<size_t>(count), at == take % contenders_.size() ? 1e6 : 2e6);
  }

 private:
  class Recorded final : public runtime::Graph {
   public:
    Recorded(ClockedDevice& device, std::unique_ptr<runtime::Graph> graph, const runtime::Program* program,
             size_t launches)
        : device_(device), graph_(std::move(graph)), program_(program), launches_(launches) {}
    void launch(runtime::Stream stream) override {
      const bool is_needed = !device_.times_ || device_.met(program_, launches_);
      if (graph_ && is_needed) graph_->launch(stream);
    }

   private:
    ClockedDevice& device_;
    std::unique_ptr<runtime::Graph> graph_;
    const runtime::Program* program_;
    size_t launches_;
  };

  // Notes that a contender is timed. Returns true for launches that must really run, which are each
  // contender's first launch and the first contender's burst over all sets.
  bool met(const runtime::Program* program, size_t launches) {
    timed_ = program;
    const bool is_known = std::ranges::find(contenders_, program) != contenders_.end();
    if (!is_known) {
      if (contenders_.empty()) ++calls;
      contenders_.push_back(program);
      contenders = contenders_.size();
      return true;
    }
    const bool begins = program == contenders_.front() && contenders_.size() > 1 && !is_burst_;
    if (begins) is_burst_ = true, sets = launches;
    return begins;
  }

  runtime::Device& device_;
  bool times_ = false, is_burst_ = false;
  std::map<const runtime::Program*, size_t> launches_;
  const runtime::Program *last_ = nullptr, *timed_ = nullptr;
  std::vector<const runtime::Program*> contenders_;
};

}  // namespace ptxbuilder::test
