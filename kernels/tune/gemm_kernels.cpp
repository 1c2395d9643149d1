#include "kernels/tune/gemm_kernels.h"

#include "kernels/gemm/kernel.h"

namespace ptxbuilder::bench {

GemmKernels::GemmKernels(const Gpu& gpu, const OurOptions& options)
    : gpu_(gpu), compiler_(compiler_for(gpu.device(), load_options(options))) {}

GemmKernels::~GemmKernels() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// With the mutex locked.
GemmKernels::Known& GemmKernels::known(const kernels::GemmOperation& operation,
                                       const kernels::GemmTile& tile) {
  auto& same_name = known_[text(tile)];
  for (const auto& k : same_name)
    if (k->operation == operation) return *k;
  Known& fresh = *same_name.emplace_back(std::make_unique<Known>());
  fresh.operation = operation;
  fresh.tile = tile;
  waiting_.push_back(&fresh);
  if (threads_.size() < std::thread::hardware_concurrency()) threads_.emplace_back([this] { work(); });
  changed_.notify_all();
  return fresh;
}

void GemmKernels::want(const kernels::GemmOperation& operation, const kernels::GemmTile& tile) {
  const std::lock_guard lock(mutex_);
  known(operation, tile);
}

GemmKernels::Known& GemmKernels::compiled(const kernels::GemmOperation& operation,
                                          const kernels::GemmTile& tile) {
  std::unique_lock lock(mutex_);
  Known& k = known(operation, tile);
  changed_.wait(lock, [&] { return k.done; });
  if (!k.compiled) throw Error(k.failure);
  return k;
}

runtime::LoadedKernel& GemmKernels::get(const kernels::GemmOperation& operation,
                                        const kernels::GemmTile& tile) {
  Known& k = compiled(operation, tile);
  if (!k.loaded) k.loaded = load(operation, tile);
  return *k.loaded;
}

std::unique_ptr<runtime::LoadedKernel> GemmKernels::load(const kernels::GemmOperation& operation,
                                                         const kernels::GemmTile& tile) {
  return std::make_unique<runtime::LoadedKernel>(
      ptxbuilder::load(gpu_.device(), *compiled(operation, tile).compiled));
}

void GemmKernels::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Known& k = *waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::optional<Compiled> compiled;
    std::string failure;
    try {
      Kernel made = kernels::gemm(k.operation, k.tile);
      kernels::waive_lack_of_registers(made);  // as Matmul does: times tell what it costs
      compiled = compiler_.compile(std::move(made));
    } catch (const std::exception& e) {
      failure = e.what();
    }
    lock.lock();
    k.compiled = std::move(compiled);
    k.failure = std::move(failure);
    k.done = true;
    changed_.notify_all();
  }
}

}  // namespace ptxbuilder::bench
