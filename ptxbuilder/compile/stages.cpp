#include "ptxbuilder/compile/stages.h"

#include <fmt/format.h>

#include <fstream>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

FolderWriter::FolderWriter(const std::string& folder) : folder_(folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  if (problem) throw Error(fmt::format("{}: the folder cannot be created: {}", folder, problem.message()));
}

void FolderWriter::write(const std::string& name, std::string_view content) {
  if (content.empty()) return;
  const std::string path = (folder_ / name).string();
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) throw Error(fmt::format("{}: cannot be written", path));
  written.push_back(path);
}

void FolderWriter::remove(const std::string& name) const {
  std::error_code none;
  std::filesystem::remove(folder_ / name, none);
}

}  // namespace ptxbuilder
