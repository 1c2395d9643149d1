// A compiled kernel on a device, launched with arguments that are checked against its sidecar.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/argument.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime {

// What a launch may choose; block, cluster and shared memory are the kernel's own.
struct LaunchOptions {
  Dim3 grid = {0, 0, 0};  // CTAs; required: a launch without a grid is refused
  bool programmatic_dependent_launch = false;
};

// It must not outlive its device, and two threads must not launch it at once.
class LoadedKernel {
 public:
  // `image` is a cubin or PTX text. Throws Error when the signature is not a kernel's, or when the
  // device refuses the image.
  LoadedKernel(Device& device, const std::string& image, Signature signature);

  // Reads an image, NAME.cubin or NAME.ptx, and the NAME.json beside it.
  static LoadedKernel from_file(Device& device, const std::string& path);

  const Signature& signature() const { return signature_; }

  // What the driver's compiler said of PTX text; empty for a cubin.
  std::string log() const { return program_->log(); }

  // Queues one launch. Tensor maps are encoded once for each address, shape and strides. Throws Error that
  // names the parameter when the arguments do not match the parameters in number, kind, type, rank or (if
  // given) name, and when a tensor breaks a rule of its tensor map or leaves its memory. Throws Error also
  // when the grid is missing or is not a multiple of the cluster.
  void launch(const LaunchOptions& options, std::span<const Argument> arguments);
  void launch(const LaunchOptions& options, std::initializer_list<Argument> arguments) {
    launch(options, std::span(arguments.begin(), arguments.size()));
  }

 private:
  struct EncodedTensor {
    Argument tensor;
    TensorMap map;
  };
  // The latest tensors of one parameter. The oldest is the next to be replaced.
  struct Cache {
    std::vector<std::unique_ptr<EncodedTensor>> tensors;
    size_t oldest = 0;
  };

  void check_count(std::span<const Argument> arguments) const;
  void check_type(size_t i, const Argument& argument) const;
  const std::vector<std::byte>& laid_out(size_t i, const Argument& structure);
  const TensorMap& encoded(size_t i, const Argument& tensor);
  TensorMap encode(size_t i, const Argument& tensor);
  [[noreturn]] void refuse(size_t i, const std::string& what) const;

  Device* device_;
  Signature signature_;
  std::unique_ptr<Program> program_;
  std::vector<Cache> caches_;                       // one for each parameter
  std::vector<std::vector<std::byte>> structures_;  // of the launch under way, as the values
  std::vector<const void*> values_;
};

}  // namespace ptxbuilder::runtime
