// Finds the PTX of images that a program loads: texts, fatbins, and cubins whose PTX is known.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::runtime::record {

// The image of a module or a library, as the program loaded it.
struct Image {
  std::string_view bytes;                             // PTX text, a fatbin or a cubin
  std::shared_ptr<const std::string> kept = nullptr;  // owns `bytes`, unless they are part of the program

  static Image of(std::string bytes) {
    auto kept = std::make_shared<const std::string>(std::move(bytes));
    return {*kept, kept};
  }
};

// Returns the image that `data` points to, as cuModuleLoadData() takes it: a text that ends with a zero, a
// cubin, a fatbin, or a wrapper around a fatbin, whose lengths all follow from their contents.
Image image_at(const void* data);

class PtxSources {
 public:
  // In these folders, the PTX next to a .cubin file is the PTX of that cubin, as in Triton's cache.
  explicit PtxSources(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // Notes that a linker made this cubin from this PTX.
  void linked(std::string cubin, std::string ptx) { linked_[std::move(cubin)] = std::move(ptx); }

  // Returns the PTX text that has the kernel. Throws Error that says what was found instead.
  std::string find(const Image& image, const std::string& kernel) const;

 private:
  std::optional<std::string> beside(std::string_view cubin) const;

  std::vector<std::filesystem::path> folders_;
  std::map<std::string, std::string> linked_;  // by cubin
};

}  // namespace ptxbuilder::runtime::record
