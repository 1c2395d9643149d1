#include "kernels/inspect/ptx_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "kernels/family/command_line.h"
#include "kernels/inspect/kernel_ptx.h"

namespace ptxbuilder::command {
namespace {

namespace fs = std::filesystem;

// Returns the contents of a stream of unknown size. It reads at most one byte more than the size limit for
// files; this byte shows that the limit is exceeded.
std::string content(std::istream& in) {
  std::string text;
  std::string piece(1 << 20, '\0');
  do {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<size_t>(in.gcount()));
  } while (in && text.size() <= (is_code_binary(text) ? kMostFile : kMostCode));
  return text;
}

std::string read_code(const std::string& path) {
  if (path == "-") return content(std::cin);
  if (fs::is_directory(path)) throw Error("it cannot be read, because it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("it cannot be read");
  return content(file);
}

}  // namespace

const char* const ptx_source_help =
    "PTX, a fatbin, a program or library that holds PTX, - for standard input, or a kernel of this program: "
    "\"kernel:gemm bm=128 bn=64\"";

CodeSource code_source(const std::string& from) try {
  CodeSource source;
  source.file = std::make_shared<const std::string>(names_kernel(from) ? kernel_ptx(from) : read_code(from));
  source.all = device_code(*source.file);
  return source;
} catch (const Error& e) {
  throw Error(fmt::format("{}: {}", from, without_place(e)));
}

std::string ptx_source(const std::string& from, const std::string& kernel) {
  const CodeSource source = code_source(from);
  try {
    return choose_code(source.all, kernel, DeviceCode::Kind::ptx).code();
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", from, e.what()));
  }
}

}  // namespace ptxbuilder::command
