// Sinks and dropout, which tests of attention and of its gradient share.
#pragma once

#include <random>

#include "kernels/attention/dropout.h"
#include "runtime/buffer.h"

namespace ptxbuilder::test {

// Holds sinks and a seed, on the host and on a device.
class SinksAndDropout {
 public:
  SinksAndDropout(runtime::Device& device, bool has_sinks, float dropout, int64_t heads, uint64_t data)
      : dropout_(dropout) {
    std::mt19937_64 random(data);
    std::normal_distribution<float> normal;
    for (int64_t h = 0; has_sinks && h < heads; ++h) sinks_.push_back(2 * normal(random));
    for (uint32_t& word : seed_) word = static_cast<uint32_t>(random());
    if (!sinks_.empty()) sinks_on_device_ = runtime::Buffer::of(device, sinks_);
    if (dropout > 0) seed_on_device_ = runtime::Buffer::of(device, seed_);
  }

  template <class Arguments>
  void give(Arguments& p) const {
    if (!sinks_.empty()) p.sinks = sinks_on_device_;
    if (dropout_ > 0) p.dropout_seed = seed_on_device_, p.dropout = dropout_;
  }
  // Returns the sink of a head, or -inf if there are no sinks.
  double sink(int64_t head) const {
    return sinks_.empty() ? -INFINITY : static_cast<double>(sinks_[static_cast<size_t>(head)]);
  }
  // Returns the factor by which dropout multiplies a weight.
  double factor(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    if (dropout_ == 0) return 1;
    const auto word = [](int64_t x) { return static_cast<uint32_t>(x); };
    const bool keeps =
        kernels::dropout_keeps(seed_, dropout_, word(batch), word(head), word(query), word(key));
    return keeps ? 65536. / (65536 - kernels::dropped_of_65536(dropout_)) : 0;
  }

 private:
  float dropout_;
  std::vector<float> sinks_;
  std::array<uint32_t, 4> seed_ = {};
  runtime::Buffer sinks_on_device_, seed_on_device_;
};

}  // namespace ptxbuilder::test
