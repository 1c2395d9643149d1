#include "kernels/measure/files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "ptxbuilder/error.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::bench {

namespace fs = std::filesystem;

std::string read_file_if_any(const std::string& path) {
  if (std::error_code error; !fs::exists(path, error)) return "";
  return file_text(path);
}

void write_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  std::ofstream file(fresh, std::ios::binary);
  file << text;
  file.close();
  if (file) fs::rename(fresh, path, error);
  if (!file || error) throw Error(fmt::format("{} cannot be written", path));
}

}  // namespace ptxbuilder::bench
