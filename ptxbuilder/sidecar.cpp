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
#include "ptxbuilder/json_nesting.h"

namespace ptxbuilder {
namespace {

namespace fs = std::filesystem;

Signature read_signature(const std::string& path) { return signature_from_json(file_text(path), path); }

// The kernels that have a sidecar NAME.KERNEL.json beside an image.
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
  return name + (kernel.empty() ? "" : "." + kernel) + ".json";
}

bool is_sidecar(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  try {
    check_json_nesting(text, path);
  } catch (const Error&) {
    return false;
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.contains("format") && json.contains("kernel");
}

std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel) {
  const std::string only = sidecar_path(name), named = sidecar_path(name, kernel);
  if (is_sidecar(only))
    if (Signature signature = read_signature(only); signature.kernel == kernel) return signature;
  if (fs::exists(named)) return read_signature(named);
  return std::nullopt;
}

Signature read_sidecar(const std::string& name, const std::string& kernel) {
  if (!kernel.empty()) {
    if (auto found = find_sidecar(name, kernel)) return *found;
  } else if (fs::exists(sidecar_path(name))) {
    return read_signature(sidecar_path(name));
  }
  const std::vector<std::string> others = named_beside(name);
  throw Error(fmt::format(
      "{}: cannot be read{}", sidecar_path(name, kernel),
      others.empty() ? ""
                     : fmt::format("; {} has sidecars of the kernels {}", name, fmt::join(others, ", "))));
}

}  // namespace ptxbuilder
