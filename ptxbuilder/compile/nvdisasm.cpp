#include "ptxbuilder/compile/nvdisasm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ptxbuilder/compile/process.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

namespace fs = std::filesystem;

// Returns the package folders of the Python installation whose programs are in `bin`.
std::vector<fs::path> package_folders(const fs::path& bin) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (fs::directory_iterator it(bin.parent_path() / "lib", none), end; !none && it != end;
       it.increment(none))
    if (it->path().filename().string().starts_with("python"))
      for (const char* packages : {"site-packages", "dist-packages"})
        folders.push_back(it->path() / packages);
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

}  // namespace

std::vector<std::string> nvdisasm_candidates(const PtxasSearch& search) {
  std::vector<std::string> files = search.candidates("nvdisasm");
  if (!search.file.empty()) return files;
  std::string_view folders = search.path;
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const fs::path bin = fs::path(folders.substr(0, end));
    folders.remove_prefix(std::min(end + 1, folders.size()));
    if (bin.filename() != "bin") continue;
    for (const fs::path& packages : package_folders(bin))
      for (const char* wheel : {"nvidia/cu13/bin", "triton/backends/nvidia/bin"})
        files.push_back((packages / wheel / "nvdisasm").string());
  }
  return files;
}

Nvdisasm::Nvdisasm(const PtxasSearch& search) {
  const std::vector<std::string> candidates = nvdisasm_candidates(search);
  for (const std::string& file : candidates)
    if (access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) {
      path_ = file;
      return;
    }
  throw Error(fmt::format(
      "nvdisasm, which reads cubins, was not found. Put it on PATH, set CUDA_PATH to a CUDA toolkit, or "
      "`pip install nvidia-cuda-nvdisasm`. Looked at:\n  {}",
      fmt::join(candidates, "\n  ")));
}

std::string Nvdisasm::run(std::vector<std::string> options, std::string_view cubin) const {
  options.insert(options.begin(), path_);
  options.insert(options.end(), {"-c", "/dev/stdin"});
  ProcessResult result = run_process(options, cubin, std::chrono::seconds(120));
  if (result.exit_status != 0)
    throw Error(
        fmt::format("nvdisasm: exit status {}: {}{}", result.exit_status, result.messages, result.output));
  return std::move(result.output);
}

std::string Nvdisasm::disassemble(std::string_view cubin, bool ptx_lines) const {
  return run(ptx_lines ? std::vector<std::string>{"-gp"} : std::vector<std::string>{}, cubin);
}

std::string Nvdisasm::life_ranges(std::string_view cubin) const { return run({"-lrm", "narrow"}, cubin); }

}  // namespace ptxbuilder
