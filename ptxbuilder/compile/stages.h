// Writes every stage of a kernel to a folder, to show what LLVM and ptxas make of the kernel.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// Writes files into a folder, which it creates if necessary.
class FolderWriter {
 public:
  // Throws Error if the folder cannot be created; write() throws Error if the file cannot be written.
  explicit FolderWriter(const std::string& folder);

  // Does nothing if the content is empty.
  void write(const std::string& name, std::string_view content);
  void remove(const std::string& name) const;  // removes a file that an earlier run may have left

  std::vector<std::string> written;

 private:
  std::filesystem::path folder_;
};

// Paths of the stages: NAME.ll is the kernel's LLVM IR. NAME.lowered.ll is the IR after LLVM's passes, from
// which instructions are selected. NAME.ptx, NAME.cubin, NAME.sass and NAME.log, the output of ptxas, follow.
struct KeptStages {
  std::vector<std::string> files;
  std::vector<std::string> missing;  // missing stages and the reasons: "gemm.sass: no nvdisasm, ..."
};

}  // namespace ptxbuilder
