// Finds the PTX of images that a program loads. An image is PTX text, a fatbin, or a cubin whose PTX is
// known.
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

// Returns the image to which `data` points. Like cuModuleLoadData(), accepts a cubin, a fatbin, a wrapper
// around a fatbin, or PTX text that ends with a zero. The length of the image is determined from its
// contents.
Image image_at(const void* data);

class PtxSources {
 public:
  // `folders` are folders such as Triton's cache, in which the PTX of a .cubin file is stored in a .ptx file
  // with the same name.
  explicit PtxSources(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // Records that a linker created this cubin from this PTX.
  void linked(std::string cubin, std::string ptx) { linked_[std::move(cubin)] = std::move(ptx); }

  // Returns the PTX text that contains the kernel. Throws an Error that states what was found instead.
  std::string find(const Image& image, const std::string& kernel) const;

 private:
  std::optional<std::string> beside(std::string_view cubin) const;

  std::vector<std::filesystem::path> folders_;
  std::map<std::string, std::string> linked_;  // indexed by cubin
};

}  // namespace ptxbuilder::runtime::record
