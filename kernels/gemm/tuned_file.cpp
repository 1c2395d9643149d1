#include "kernels/gemm/tuned_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/call/words_hash.h"
#include "ptxbuilder/compile/cache.h"
#include "ptxbuilder/version.h"

namespace ptxbuilder::kernels {
namespace {

// Of what the model holds: another one offers other tiles.
uint64_t model_hash() {
  const ModelConstants constants;
  std::array<uint64_t, sizeof constants / sizeof(double)> words;
  std::memcpy(words.data(), &constants, sizeof constants);
  return WordsHash{}(words);
}

std::string printable(std::string text) {
  for (char& c : text)
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  return text;
}

// Of an open file, whose last line somebody may have left without its end.
bool ends_within_a_line(int file) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

std::string product_text(const GemmOperation& o, const GemmSize& size) {
  std::string epilogue;
  auto add = [&](bool has, std::string_view word) {
    if (has) epilogue += fmt::format("{}{}", epilogue.empty() ? "" : "+", word);
  };
  add(o.alpha, "alpha");
  add(o.activation != Activation::none, activation_words[static_cast<size_t>(o.activation)]);
  add(o.gates(), "gate");
  add(o.has_slope(), "slope");
  for (const ProductOperandRow& row : product_operands)
    if (!row.is_matrix() || row.role == OperandRole::residual) add(o.has(row.operand), row.name);
  add(o.batched, "batched");
  return fmt::format("{} {} {} {}{} {} {} {} {} {} {}", name(o.a), name(o.b), name(o.d),
                     o.b_k_major ? "T" : "N", o.a_k_major ? "N" : "T",
                     o.fast_accumulation ? "fast" : "promoted", epilogue.empty() ? "plain" : epilogue, size.m,
                     size.n, size.k, size.batches);
}

std::string default_tuned_file(const runtime::DeviceProperties& device, int multiprocessors) {
  const std::string folder = default_cache_directory();
  if (folder.empty()) return "";
  std::string gpu = device.name;
  for (char& c : gpu)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  return fmt::format("{}/matmul/{}-{}-{}.{}.{}-{:08x}.txt", folder, gpu, multiprocessors,
                     PTXBUILDER_VERSION_MAJOR, PTXBUILDER_VERSION_MINOR, PTXBUILDER_VERSION_PATCH,
                     model_hash() >> 32);
}

void TunedFile::warn(const std::string& what) {
  if (has_warned_) return;
  has_warned_ = true;
  const std::string text = fmt::format("tuned tiles: {}: {}", path_, what);
  if (warn_)
    warn_(text);
  else
    fmt::print(stderr, "warning: {}\n", text);
}

void TunedFile::read() {
  if (is_read_) return;
  is_read_ = true;
  std::error_code none;
  if (path_.empty() || !std::filesystem::exists(path_, none)) return;
  if (!std::filesystem::is_regular_file(path_, none)) {  // to open a pipe would wait for who writes into it
    warn("it is no regular file: what is measured is kept for this process alone");
    path_.clear();
    return;
  }
  std::ifstream file(path_);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const size_t space = line.rfind(' ');
    try {
      if (space == std::string::npos || std::count(line.begin(), line.end(), ' ') != 10)
        throw Error("no product");
      if (text(parse_tile(line.substr(space + 1))) != line.substr(space + 1)) throw Error("no tile");
      tiles_[line.substr(0, space)] = line.substr(space + 1);
    } catch (const Error&) {
      warn(fmt::format("line {} is not understood and passed over: '{}'; remove the file, or that line",
                       number, printable(line.substr(0, 100))));
    }
  }
  if (file.bad() || !file.eof()) warn("it cannot be read: products are measured anew");
}

std::optional<GemmTile> TunedFile::find(const GemmOperation& operation, const GemmSize& size) {
  const std::lock_guard lock(mutex_);
  read();
  const auto known = tiles_.find(product_text(operation, size));
  if (known == tiles_.end()) return std::nullopt;
  try {
    return checked(operation, parse_tile(known->second));
  } catch (const Error& e) {
    warn(fmt::format("the tile {} does not suit {} and is passed over ({})", known->second, known->first,
                     e.what()));
    tiles_.erase(known);
    return std::nullopt;
  }
}

void TunedFile::keep(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile) {
  const std::lock_guard lock(mutex_);
  read();
  const std::string product = product_text(operation, size);
  tiles_[product] = text(tile);
  if (path_.empty()) return;
  std::error_code none;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), none);
  // One write at the end of the file: lines of several processes do not mix.
  std::string line = fmt::format("{} {}\n", product, text(tile));
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0 && ends_within_a_line(file)) line.insert(line.begin(), '\n');
  const bool written =
      file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!written)
    warn(fmt::format("it cannot be written ({}): what was measured is kept for this process alone",
                     std::strerror(errno)));
  if (file >= 0) ::close(file);
}

}  // namespace ptxbuilder::kernels
