// Kernels of the contenders of our own: each is compiled once, ahead of its turn, on all of the host's
// threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/tune/our_kernel.h"

namespace ptxbuilder::bench {

// Kernels that wait to be compiled, and those that are. Unlike Compiler::compile_all() it goes on while
// others of them are measured, and one that cannot be compiled is no failure of the others.
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
    bool done_ = false;  // compiled, or failed
  };
  // Begins to compile what `make` makes on another thread, after what was asked for before. A lack of
  // registers is no failure, as the calls of operations have it: times tell what it costs.
  Job& begin(std::function<Kernel()> make);
  // Waits for it, and loads it. Throws Error as the compiler and the device do.
  std::unique_ptr<runtime::LoadedKernel> load(Job& job);

 private:
  void work();

  const Gpu& gpu_;
  Compiler compiler_;
  std::mutex mutex_;  // of what follows
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

  // Begins to compile it.
  void want(const Operation& operation, const Tile& tile) { known(operation, tile); }
  // The kernel, loaded; waits for it. Throws Error as the compiler and the device do.
  std::shared_ptr<runtime::LoadedKernel> get(const Operation& operation, const Tile& tile) {
    Known& k = known(operation, tile);
    const std::lock_guard lock(mutex_);
    if (!k.loaded) k.loaded = ahead_.load(*k.job);
    return k.loaded;
  }
  // It gives the caller a kernel of its own.
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
  std::mutex mutex_;                                // of known_
  std::map<std::string, std::deque<Known>> known_;  // by the tile's name
  CompileAhead ahead_;                              // the last, since its threads make kernels
};

}  // namespace ptxbuilder::bench
