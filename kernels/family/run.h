// Runs a kernel. A run creates random inputs and poisoned outputs, launches the kernel, checks the results
// against a reference, and measures times.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "runtime/loaded_kernel.h"
#include "runtime/profile.h"

namespace ptxbuilder::command {

// A tensor on the device, with the bits of its elements on the host.
class Tensor {
 public:
  Tensor(runtime::Device& device, DType dtype, std::vector<uint64_t> shape);

  size_t count() const { return count_; }
  DType dtype() const { return dtype_; }
  const std::vector<uint64_t>& shape() const { return shape_; }  // innermost dimension first
  double operator[](size_t i) const { return decoded_.empty() ? decode(dtype_, bits(i)) : decoded_[bits(i)]; }
  void set(size_t i, double value);
  uint32_t bits(size_t i) const {
    switch (bytes_) {
      case 1:
        return at<uint8_t>(i);
      case 2:
        return at<uint16_t>(i);
      default:
        return at<uint32_t>(i);
    }
  }

  // These functions copy the elements to the device and back.
  void to_device() { buffer_->copy_in(host_); }
  void from_device() { buffer_->copy_out(host_); }
  void poison() { buffer_->fill(0xff); }  // writes a NaN in every floating-point type
  void zero() { buffer_->fill(0); }

  runtime::Argument tensor() const { return runtime::tensor(*buffer_, dtype_, shape_); }
  runtime::Argument pointer() const { return runtime::pointer(*buffer_, dtype_); }

 private:
  friend class Run;
  template <class Bits>
  Bits at(size_t i) const {
    Bits bits;
    std::memcpy(&bits, host_.data() + i * sizeof bits, sizeof bits);
    return bits;
  }

  DType dtype_;
  size_t bytes_;  // size of an element
  std::vector<uint64_t> shape_;
  size_t count_;
  std::vector<std::byte> host_;
  std::span<const double> decoded_;  // for types of 8 or 16 bits: the number for each bit pattern
  std::shared_ptr<runtime::Buffer> buffer_;
};

// The expected value of an element, and the error that a correct kernel may have.
struct Expected {
  double value;
  double tolerance;
};

// The result of a check.
struct Verdict {
  size_t count = 0, checked = 0, wrong = 0;
  double max_error = 0;   // the largest absolute difference
  double norm_error = 0;  // |d - reference| / |reference|, over the checked elements
  std::string first_wrong;
  uint64_t bits = 0;  // a hash of the bytes of all outputs
};

// The times of a run's launches.
struct Timing {
  std::vector<double> microseconds;  // one for each launch
  double median = 0, least = 0, greatest = 0;
  double flops = 0, bytes = 0;  // of one launch

  std::string rate() const;  // returns, for example, "612.4 TFLOP/s" or "2.91 TB/s"
};

// The options of a run.
struct RunOptions {
  bool verify = true, bench = false;
  uint64_t seed = 0;
  int schedules = 1;  // number of schedules that a check runs on the emulator
  std::function<void(uint64_t)> choose_schedule = nullptr;  // sets the seed of the next schedule; null on a
                                                            // GPU
  int warm_up = 10, launches = 50;
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

// A run of a kernel. The kernel's family uses it to create tensors, to launch the kernel and to check
// results.
class Run {
 public:
  Run(runtime::Device& device, runtime::LoadedKernel& kernel, RunOptions options)
      : device_(device), kernel_(kernel), options_(options) {}

  bool verifies() const { return options_.verify; }

  // normal() returns a tensor of random N(0,1) data; integers are 16 times such numbers, rounded. The n-th
  // tensor of a run uses the n-th stream of the seed. output() returns a tensor that has not been written.
  // Both throw Error if the tensors of the run need more than the machine's memory.
  Tensor normal(DType dtype, std::vector<uint64_t> shape, Where where = Where::here());
  Tensor output(DType dtype, std::vector<uint64_t> shape, Where where = Where::here());

  // Sets the arguments of the launches for checking and measuring. The kernel's rule determines the grid.
  // `ahead` queues work that must precede each launch, such as setting counters to 0; measured times include
  // this work.
  void launch(std::vector<runtime::Argument> arguments, std::function<void()> ahead = nullptr,
              Where where = Where::here());

  // Returns the profile that the kernel recorded in the last launch. Throws Error if the kernel does not
  // record a profile or was not launched.
  runtime::Profile profile() const;

  // Poisons `output`, launches the kernel, and compares each element i with `expected(i)`. A call of
  // `expected` takes about `cost` operations. All elements are checked if that takes no more than a few
  // seconds, otherwise a random sample. Each expected value is computed once and used for all schedules. If
  // `start` is set, it runs before each checked launch instead of the poisoning. For several outputs, call
  // check() for each; the verdict covers all of them.
  void check(Tensor& output, double cost, const std::function<Expected(size_t)>& expected,
             const std::function<void()>& start = nullptr);

  // Sets the operations and bytes of a launch, for computing rates. Must be called last.
  void measure(double flops, double bytes);

  // Measures the times of launches. May be called after the family's run() has returned, since this object
  // owns the tensors on the device. Throws Error if run() has not called measure().
  Timing time(int warm_up, int launches);

  int multiprocessors() const { return device_.properties().multiprocessors; }
  const std::optional<Verdict>& verdict() const { return verdict_; }
  const std::optional<Timing>& timing() const { return timing_; }
  // Returns the flops and bytes of a launch, as passed to measure().
  const std::optional<std::pair<double, double>>& work() const { return work_; }

 private:
  Tensor tensor(DType dtype, std::vector<uint64_t> shape);
  Verdict compare(const Tensor& output, double cost, const std::function<Expected(size_t)>& expected);

  runtime::Device& device_;
  runtime::LoadedKernel& kernel_;
  RunOptions options_;
  uint64_t streams_ = 0;
  double host_bytes_ = 0;  // bytes of the tensors created so far
  std::function<void()> queue_;
  std::optional<runtime::ProfileBuffer> profile_;         // for a kernel that records a profile
  std::vector<std::shared_ptr<runtime::Buffer>> memory_;  // memory of the run's tensors
  std::optional<std::pair<double, double>> work_;         // the arguments of measure()
  std::vector<Expected> references_;  // expected values of the checked elements; stored if there are several
                                      // schedules
  std::optional<Verdict> verdict_;
  std::optional<Timing> timing_;
};

}  // namespace ptxbuilder::command
