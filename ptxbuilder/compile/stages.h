// Every stage of a kernel is a file in one folder, for who looks at what LLVM and ptxas made of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// Files that are written into a folder, which is made if need be.
class FolderWriter {
 public:
  // Throws Error where the folder cannot be made, as write() does where the file cannot be written.
  explicit FolderWriter(const std::string& folder);

  // Writes nothing where there is no content.
  void write(const std::string& name, std::string_view content);
  void remove(const std::string& name) const;  // what an earlier run left there, if anything

  std::vector<std::string> written;

 private:
  std::filesystem::path folder_;
};

// NAME.ll is the kernel's LLVM IR, NAME.lowered.ll the same after LLVM's passes, from which code generation
// selects instructions; NAME.ptx, NAME.cubin, NAME.sass and NAME.log, which has ptxas' words, follow.
struct KeptStages {
  std::vector<std::string> files;
  std::vector<std::string> missing;  // "gemm.sass: no nvdisasm, ...": which stage is not there, and why
};

}  // namespace ptxbuilder
