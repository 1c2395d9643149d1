// A file of the user's that says which tile was the fastest for a product, as measured on this machine.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/gemm/model.h"
#include "runtime/device.h"

namespace ptxbuilder::kernels {

// A product in words: "bf16 bf16 bf16 TN fast plain 4096 8192 1024 1".
std::string product_text(const GemmOperation& operation, const GemmSize& size);

// matmul/GPU-SMs-VERSION-MODEL.txt in the folder of the cache of kernels; "" where there is no such folder.
// What a GPU of another name, another version or another model kept is in another file.
std::string default_tuned_file(const runtime::DeviceProperties& device, int multiprocessors);

// Lines "PRODUCT TILE", of which the last one of a product counts. Processes may share a file: each adds
// whole lines at its end. What cannot be read or written is told once, and nothing else fails by it. Any
// thread may call it at any time.
class TunedFile {
 public:
  using Warn = std::function<void(const std::string&)>;

  // "" keeps what is found for this object alone. The file is first read when it is asked.
  TunedFile(std::string path, Warn warn) : path_(std::move(path)), warn_(std::move(warn)) {}

  std::optional<GemmTile> find(const GemmOperation& operation, const GemmSize& size);
  void keep(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile);

 private:
  void read();
  void warn(const std::string& what);

  std::string path_;
  Warn warn_;
  std::mutex mutex_;
  bool is_read_ = false, has_warned_ = false;
  std::map<std::string, std::string> tiles_;  // by product
};

}  // namespace ptxbuilder::kernels
