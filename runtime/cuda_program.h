// A kernel that the CUDA driver has loaded, and that was checked against its sidecar.
#pragma once

#include "runtime/cuda_queue.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime {

class CudaProgram final : public Program {
 public:
  // Throws an Error if the driver rejects the image, if image and sidecar do not match, or if the GPU cannot
  // hold the kernel's threads, shared memory or cluster.
  CudaProgram(CudaQueue& queue, const std::string& image, const Signature& signature);

  std::string log() const override { return log_; }
  const Signature& signature() const { return signature_; }
  // Returns the kernel as a function. Launches accept a kernel in place of a function, in every context of
  // the GPU.
  cu::Function function() const { return reinterpret_cast<cu::Function>(kernel_); }
  const std::string* name() const { return name_; }  // valid as long as the queue exists

 private:
  void load(const std::string& image);
  void check_parameters() const;
  void check_threads() const;
  void reserve_shared_memory() const;
  void check_cluster() const;
  int attribute(cu::FunctionAttribute attribute) const;
  [[noreturn]] void mismatch(const std::string& what) const;

  CudaQueue& queue_;
  const cu::Driver& driver_;
  Signature signature_;
  const std::string* name_;
  std::string log_;
  cu::Kernel kernel_ = nullptr;
};

}  // namespace ptxbuilder::runtime
