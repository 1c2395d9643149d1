#include "ptxbuilder/file_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

std::string file_text(const std::string& path, uint64_t most) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw Error(path + ": cannot be read: it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path + ": cannot be read");
  std::string text, piece(1 << 20, '\0');
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<size_t>(file.gcount()));
    if (text.size() > most)
      throw Error(
          fmt::format("{}: cannot be read: it does not end within {} MiB, which is the most that a file "
                      "here may have: name a smaller one, and no device",
                      path, most >> 20));
  }
  if (file.bad() || !file.eof()) throw Error(path + ": cannot be read");
  return text;
}

}  // namespace ptxbuilder
