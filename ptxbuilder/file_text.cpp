#include "ptxbuilder/file_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

std::string file_text(const std::string& path, uint64_t most) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw Error(path + ": cannot be read: it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path + ": cannot be read");
  // The pieces are joined only at the end. A growing string would be copied repeatedly before an overlong
  // file is rejected.
  std::vector<std::string> pieces;
  uint64_t size = 0;
  for (size_t room = 1 << 14; file; room = std::min<size_t>(2 * room, 1 << 20)) {
    std::string& piece = pieces.emplace_back(room, '\0');
    file.read(piece.data(), static_cast<std::streamsize>(room));
    piece.resize(static_cast<size_t>(file.gcount()));
    size += piece.size();
    if (size > most)
      throw Error(
          fmt::format("{}: cannot be read: it does not end within {} MiB, the maximum for files here: use a "
                      "smaller file, and not a device",
                      path, most >> 20));
  }
  if (file.bad() || !file.eof()) throw Error(path + ": cannot be read");
  if (pieces.size() == 1) return std::move(pieces[0]);
  std::string text;
  text.reserve(size);
  for (const std::string& piece : pieces) text += piece;
  return text;
}

}  // namespace ptxbuilder
