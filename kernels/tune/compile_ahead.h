// Compiles the kernels of our own contenders before they are needed, on all host threads. Each kernel is
// compiled once.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/tune/our_kernel.h"

namespace ptxbuilder::bench {

// A queue of kernels to compile, and their results. Unlike Compiler::compile_all(), this class works in the
// background while other kernels are measured, and a kernel that cannot be compiled does not affect the
// others.
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
    bool done_ = false;  // whether the compilation has ended, possibly with an error
  };
  // Starts compiling the kernel that `make` builds on another thread, after the kernels that were requested
  // earlier. As in the calls of operations, a lack of registers is not an error, because the measured times
  // show its cost.
  Job& begin(std::function<Kernel()> make);
  // Waits for the job, and loads its kernel. Throws Error if compiling or loading fails.
  std::unique_ptr<runtime::LoadedKernel> load(Job& job);

 private:
  void work();

  const Gpu& gpu_;
  Compiler compiler_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Job*> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

// The kernels for the tiles of an operation. Any thread may call the functions.
template <class Operation, class Tile>
class OurKernels {
 public:
  using Make = std::function<Kernel(const Operation&, const Tile&)>;
  OurKernels(const Gpu& gpu, const OurOptions& options, Make make)
      : compiler_(load_options(options)), make_(std::move(make)), ahead_(gpu, options) {}

  const LoadOptions& compiler() const { return compiler_; }

  // Starts compiling the tile's kernel.
  void want(const Operation& operation, const Tile& tile) { known(operation, tile); }
  // Waits for the tile's kernel, loads it and returns it. Throws Error if compiling or loading fails.
  std::shared_ptr<runtime::LoadedKernel> get(const Operation& operation, const Tile& tile) {
    Known& k = known(operation, tile);
    const std::lock_guard lock(mutex_);
    if (!k.loaded) k.loaded = ahead_.load(*k.job);
    return k.loaded;
  }
  // Works like get(), but returns a kernel that is not shared with other callers.
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
  std::mutex mutex_;                                // guards known_
  std::map<std::string, std::deque<Known>> known_;  // indexed by the tile's name
  CompileAhead ahead_;  // must be the last member, because its threads use the other members
};

}  // namespace ptxbuilder::bench
