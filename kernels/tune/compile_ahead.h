// Compiles kernels of our own contenders before they are needed, each once, on all of the host's threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/tune/our_kernel.h"

namespace ptxbuilder::bench {

// Kernels that wait to be compiled, and compiled kernels. Unlike Compiler::compile_all(), this class
// continues while other kernels are measured, and if one kernel cannot be compiled, the others do not fail.
class CompileAhead {
 public:
  CompileAhead(const Gpu& gpu, const OurOptions& options);
  ~CompileAhead();
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;

  class Job {
    friend CompileAhead;
    std::function<Kernel()> make_;
    std::optional<Compiled> compiled_;
    std::string failure_;
    bool done_ = false;  // it was compiled, or failed
  };
  // Starts compiling the kernel that `make` builds, on another thread, after earlier requests. As in the
  // calls of operations, a lack of registers is not a failure, since the measured times show its cost.
  Job& begin(std::function<Kernel()> make);
  // Waits for the job, and loads its kernel. Throws Error like the compiler and the device.
  std::unique_ptr<runtime::LoadedKernel> load(Job& job);

 private:
  void work();

  const Gpu& gpu_;
  Compiler compiler_;
  std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Job*> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

// The kernels of an operation's tiles. Any thread may call it.
template <class Operation, class Tile>
class OurKernels {
 public:
  using Make = std::function<Kernel(const Operation&, const Tile&)>;
  OurKernels(const Gpu& gpu, const OurOptions& options, Make make)
      : compiler_(load_options(options)), make_(std::move(make)), ahead_(gpu, options) {}

  const LoadOptions& compiler() const { return compiler_; }

  // Starts compiling the tile's kernel.
  void want(const Operation& operation, const Tile& tile) { known(operation, tile); }
  // Waits for the kernel, loads it and returns it. Throws Error like the compiler and the device.
  std::shared_ptr<runtime::LoadedKernel> get(const Operation& operation, const Tile& tile) {
    Known& k = known(operation, tile);
    const std::lock_guard lock(mutex_);
    if (!k.loaded) k.loaded = ahead_.load(*k.job);
    return k.loaded;
  }
  // Returns a kernel that is not shared with other callers.
  std::unique_ptr<runtime::LoadedKernel> load(const Operation& operation, const Tile& tile) {
    return ahead_.load(*known(operation, tile).job);
  }

 private:
  struct Known {
    Operation operation;
    CompileAhead::Job* job;
    std::shared_ptr<runtime::LoadedKernel> loaded = nullptr;
  };
  Known& known(const Operation& operation, const Tile& tile) {
    const std::lock_guard lock(mutex_);
    std::deque<Known>& same_name = known_[text(tile)];
    for (Known& k : same_name)
      if (k.operation == operation) return k;
    return same_name.emplace_back(
        Known{operation, &ahead_.begin([=, this] { return make_(operation, tile); })});
  }

  LoadOptions compiler_;
  Make make_;
  std::mutex mutex_;                                // protects known_
  std::map<std::string, std::deque<Known>> known_;  // indexed with the tile's name
  CompileAhead ahead_;                              // the last member, since its threads make kernels
};

}  // namespace ptxbuilder::bench
