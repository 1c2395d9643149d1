#include "ptxbuilder/sidecar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ptxbuilder/error.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/json_text.h"

namespace ptxbuilder {
namespace {

namespace fs = std::filesystem;

// Returns the text of a file. Rejects pipes, which may never end.
std::string sidecar_text(const std::string& path) {
  std::error_code none;
  if (const fs::file_status status = fs::status(path, none);
      fs::exists(status) && !fs::is_regular_file(status))
    throw Error(path + ": cannot be read: a sidecar must be a regular file");
  constexpr uint64_t kMost = uint64_t{64} << 20;
  return file_text(path, kMost);
}

Signature read_signature(const std::string& path) { return signature_from_json(sidecar_text(path), path); }

bool exists(const std::string& path) {
  std::error_code none;  // ignores errors such as a name that is too long
  return fs::exists(path, none);
}

// Returns a kernel's name for use in a file name, which may have at most 255 bytes. A long name is truncated,
// and a hash of the full name is appended.
std::string in_file_name(const std::string& kernel) {
  constexpr size_t kMost = 150, kKept = 120;
  if (kernel.size() <= kMost) return kernel;
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a hash
  for (const char c : kernel) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}-{:016x}", kernel.substr(0, kKept), hash);
}

// Returns the kernels that have a sidecar NAME.KERNEL.json for an image.
std::vector<std::string> named_beside(const fs::path& name) {
  const std::string begin = name.filename().string() + ".", end = ".json";
  std::vector<std::string> kernels;
  std::error_code problem;
  for (const auto& file :
       fs::directory_iterator(name.has_parent_path() ? name.parent_path() : ".", problem)) {
    const std::string found = file.path().filename().string();
    if (found.size() > begin.size() + end.size() && found.starts_with(begin) && found.ends_with(end))
      kernels.push_back(found.substr(begin.size(), found.size() - begin.size() - end.size()));
  }
  std::sort(kernels.begin(), kernels.end());
  return kernels;
}

}  // namespace

std::string sidecar_path(const std::string& name, const std::string& kernel) {
  return name + (kernel.empty() ? "" : "." + in_file_name(kernel)) + ".json";
}

bool is_sidecar(const std::string& path) {
  try {
    const auto json = parse_json(sidecar_text(path), path);
    return json.is_object() && json.contains("format") && json.contains("kernel");
  } catch (const Error&) {
    return false;
  }
}

std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel) {
  const std::string only = sidecar_path(name), named = sidecar_path(name, kernel);
  if (is_sidecar(only))
    if (Signature signature = read_signature(only); signature.kernel == kernel) return signature;
  if (exists(named)) return read_signature(named);
  return std::nullopt;
}

Signature read_sidecar(const std::string& name, const std::string& kernel) {
  if (!kernel.empty()) {
    if (auto found = find_sidecar(name, kernel)) return *found;
  } else if (exists(sidecar_path(name))) {
    return read_signature(sidecar_path(name));
  }
  const std::vector<std::string> others = named_beside(name);
  throw Error(fmt::format(
      "{}: cannot be read{}", sidecar_path(name, kernel),
      others.empty() ? ""
                     : fmt::format("; {} has sidecars for the kernels {}", name, fmt::join(others, ", "))));
}

}  // namespace ptxbuilder
