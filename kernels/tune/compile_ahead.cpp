#include "kernels/tune/compile_ahead.h"

#include "kernels/gemm/kernel.h"

namespace ptxbuilder::bench {

CompileAhead::CompileAhead(const Gpu& gpu, const OurOptions& options)
    : gpu_(gpu), compiler_(compiler_for(gpu.device(), load_options(options))) {}

CompileAhead::~CompileAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

CompileAhead::Job& CompileAhead::begin(std::function<Kernel()> make) {
  const std::lock_guard lock(mutex_);
  Job& job = jobs_.emplace_back();
  job.make_ = std::move(make);
  waiting_.push_back(&job);
  if (threads_.size() < std::thread::hardware_concurrency()) threads_.emplace_back([this] { work(); });
  changed_.notify_all();
  return job;
}

std::unique_ptr<runtime::LoadedKernel> CompileAhead::load(Job& job) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return job.done_; });
  }
  if (!job.compiled_) throw Error(job.failure_);
  return std::make_unique<runtime::LoadedKernel>(ptxbuilder::load(gpu_.device(), *job.compiled_));
}

void CompileAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Job& job = *waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    std::optional<Compiled> compiled;
    std::string failure;
    try {
      Kernel made = job.make_();
      kernels::waive_lack_of_registers(made);
      compiled = compiler_.compile(std::move(made));
    } catch (const std::exception& e) {
      failure = e.what();
    }
    lock.lock();
    job.compiled_ = std::move(compiled);
    job.failure_ = std::move(failure);
    job.done_ = true;
    changed_.notify_all();
  }
}

}  // namespace ptxbuilder::bench
