#include "kernels/bench/peers/cublaslt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace ptxbuilder::bench::lt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

void add_folder(std::vector<std::string>& all, const fs::path& folder) {
  std::error_code none;
  for (const char* name : kNames)
    if (fs::exists(folder / name, none)) all.push_back((folder / name).string());
}

// Adds the libraries in the folders of NVIDIA's Python wheels, which are nvidia/cu13/lib for CUDA 13, and
// nvidia/cublas/lib for CUDA 12.
void add_wheels(std::vector<std::string>& all, const fs::path& prefix) {
  std::error_code none;
  for (const char* lib : {"lib", "local/lib"})
    for (const auto& entry : fs::directory_iterator(prefix / lib, none)) {
      if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cublas/lib"})
          add_folder(all, entry.path() / packages / wheel);
    }
}

}  // namespace

Library::Library(const std::string& path)
    : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* reason = dlerror();
  throw Error(fmt::format("{} cannot be loaded: {}", path, reason ? reason : "unknown"));
}

void* Library::symbol(const char* symbol) const {
  if (void* address = dlsym(handle_, symbol)) return address;
  throw Error(fmt::format("{} has no {}: it is not cuBLASLt 12 or 13", path_, symbol));
}

std::string Library::describe(Status status) const {
  using Name = const char* (*)(Status);
  auto name = reinterpret_cast<Name>(dlsym(handle_, "cublasLtGetStatusName"));
  const char* text = name ? name(status) : nullptr;
  return fmt::format("{} ({})", text ? text : "status", static_cast<int>(status));
}

void Library::fail(std::string_view call, Status status) const {
  throw Error(fmt::format("{} failed: {}", call, describe(status)));
}

size_t Api::version() const { return reinterpret_cast<size_t (*)()>(loaded.symbol("cublasLtGetVersion"))(); }

std::vector<std::string> library_candidates(const std::string& given) {
  if (!given.empty()) return {given};
  std::vector<std::string> all(std::begin(kNames), std::end(kNames));
  if (std::string toolkit = environment("CUDA_PATH"); !toolkit.empty()) {
    add_folder(all, fs::path(toolkit) / "lib64");
    add_folder(all, fs::path(toolkit) / "lib");
  }
  add_folder(all, "/usr/local/cuda/lib64");
  std::istringstream path(environment("PATH"));
  std::error_code none;
  for (std::string folder; std::getline(path, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || !fs::exists(python, none)) continue;
    add_wheels(all, fs::path(folder).parent_path());  // the prefix of a virtual environment
    add_wheels(all, fs::canonical(python, none).parent_path().parent_path());
  }
  if (std::string home = environment("HOME"); !home.empty()) add_wheels(all, fs::path(home) / ".local");
  return all;
}

std::string find_library(const std::string& given) {
  const std::vector<std::string> candidates = library_candidates(given);
  std::string reason;
  for (const std::string& path : candidates) {
    try {
      return Library(path).path();
    } catch (const Error& e) {
      reason = e.what();
    }
  }
  throw Error(
      fmt::format("no cuBLASLt: tried {}; install a CUDA toolkit or the wheel nvidia-cublas, or give "
                  "--cublaslt FILE ({})",
                  fmt::join(candidates, ", "), reason));
}

}  // namespace ptxbuilder::bench::lt
