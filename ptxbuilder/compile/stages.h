// Writes every stage of a kernel to a folder, to show the results of LLVM and ptxas.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// Writes files into a folder, which it creates if necessary.
class FolderWriter {
 public:
  // Throws Error if the folder cannot be created.
  explicit FolderWriter(const std::string& folder);

  // Writes a file, unless the content is empty. Throws Error if the file cannot be written.
  void write(const std::string& name, std::string_view content);
  void remove(const std::string& name) const;  // removes a file that an earlier run may have left

  std::vector<std::string> written;

 private:
  std::filesystem::path folder_;
};

// The files of the stages. NAME.ll is the kernel's LLVM IR, and NAME.lowered.ll the IR after LLVM's passes,
// just before instruction selection. The other files are NAME.ptx, NAME.cubin, NAME.sass, and NAME.log with
// the output of ptxas.
struct KeptStages {
  std::vector<std::string> files;
  std::vector<std::string> missing;  // missing stages with reasons, such as "gemm.sass: no nvdisasm, ..."
};

}  // namespace ptxbuilder
