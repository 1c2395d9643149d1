// The PTX of what a program gives to the driver: texts, fatbins, and cubins whose PTX is known otherwise.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::runtime::record {

// A module or a library, as it was loaded.
struct Image {
  std::string_view bytes;                             // PTX text, a fatbin or a cubin
  std::shared_ptr<const std::string> kept = nullptr;  // these, unless they are a part of the program

  static Image of(std::string bytes) {
    auto kept = std::make_shared<const std::string>(std::move(bytes));
    return {*kept, kept};
  }
};

// It finds what cuModuleLoadData() and the like are given: a text that ends with a zero, a cubin, a fatbin,
// or a wrapper around one, which all say how long they are.
Image image_at(const void* data);

class PtxSources {
 public:
  // Folders in which the PTX next to a .cubin file is that cubin's, as in Triton's cache.
  explicit PtxSources(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // A linker has made this cubin of that PTX.
  void linked(std::string cubin, std::string ptx) { linked_[std::move(cubin)] = std::move(ptx); }

  // The PTX text in which the kernel is. Throws Error that says what there is in its place, and what to do.
  std::string find(const Image& image, const std::string& kernel) const;

 private:
  std::optional<std::string> beside(std::string_view cubin) const;

  std::vector<std::filesystem::path> folders_;
  std::map<std::string, std::string> linked_;  // by cubin
};

}  // namespace ptxbuilder::runtime::record
