#include "kernels/call/tile_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ptxbuilder/compile/cache.h"
#include "ptxbuilder/log.h"
#include "ptxbuilder/version.h"

namespace ptxbuilder::kernels {
namespace {

std::string printable(std::string text) {
  for (char& c : text)
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  return text;
}

// Returns whether the file's last line is incomplete, which happens if a process ended while it was writing
// the line.
bool ends_within_a_line(int file) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

std::string default_tile_file(const std::string& operation, const runtime::DeviceProperties& device,
                              int multiprocessors, uint64_t hash) {
  const std::string folder = default_cache_directory();
  if (folder.empty()) return "";
  std::string gpu = device.name;
  for (char& c : gpu)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return fmt::format("{}/{}/{}-{}-{}.{}.{}-{:08x}.txt", folder, operation, gpu, multiprocessors,
                     PTXBUILDER_VERSION_MAJOR, PTXBUILDER_VERSION_MINOR, PTXBUILDER_VERSION_PATCH,
                     hash >> 32);
}

void TileFile::warn(const std::string& what) {
  if (has_warned_) return;
  has_warned_ = true;
  log(LogLevel::warning, fmt::format("tuned tiles: {}: {}", path_, what));
}

bool TileFile::is_line(const std::string& line) const {
  if (std::count(line.begin(), line.end(), ' ') != static_cast<std::ptrdiff_t>(words_)) return false;
  try {
    return is_tile_(line.substr(line.rfind(' ') + 1));
  } catch (const Error&) {
    return false;
  }
}

void TileFile::read() {
  if (is_read_) return;
  is_read_ = true;
  std::error_code none;
  if (path_.empty() || !std::filesystem::exists(path_, none)) return;
  if (!std::filesystem::is_regular_file(path_, none)) {  // opening a pipe would wait for its writer
    warn("it is not a regular file, so measured tiles are kept only in this process");
    path_.clear();
    return;
  }
  std::ifstream file(path_);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (is_line(line))
      tiles_[line.substr(0, line.rfind(' '))] = line.substr(line.rfind(' ') + 1);
    else
      warn(fmt::format("line {} cannot be parsed and is skipped: '{}'; remove the file or that line", number,
                       printable(line.substr(0, 100))));
  }
  if (file.bad() || !file.eof()) warn("it cannot be read, so calls are measured again");
}

void TileFile::pass_over(const std::string& call, const std::string& why) {
  warn(fmt::format("the tile {} does not suit {} and is skipped ({})", tiles_[call], call, why));
  tiles_.erase(call);
}

void TileFile::keep(const std::string& call, const std::string& tile) {
  const std::lock_guard lock(mutex_);
  read();
  tiles_[call] = tile;
  if (path_.empty()) return;
  std::error_code none;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), none);
  // A single write appends the line, so that lines of several processes do not mix.
  std::string line = fmt::format("{} {}\n", call, tile);
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0 && ends_within_a_line(file)) line.insert(line.begin(), '\n');
  const bool written =
      file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!written)
    warn(fmt::format("it cannot be written ({}), so measured tiles are kept only in this process",
                     std::strerror(errno)));
  if (file >= 0) ::close(file);
}

}  // namespace ptxbuilder::kernels
