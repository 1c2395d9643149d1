#include "ptxbuilder/compile/ptxas.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "ptxbuilder/compile/notes.h"
#include "ptxbuilder/compile/process.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

namespace fs = std::filesystem;

// A ptxas of CUDA 12.4 or newer is accepted for text that does not need a newer .version. Measurements
// require version 13.0 or newer.
constexpr PtxasVersion oldest = {12, 4, 0}, preferred = {13, 0, 0};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Parses a version such as "13.0.88" or "13.0".
PtxasVersion parse_version(std::string_view text) {
  PtxasVersion version;
  const char *at = text.data(), *end = at + text.size();
  for (int* number : {&version.major, &version.minor, &version.build}) {
    at = std::from_chars(at, end, *number).ptr;
    if (at == end || *at != '.') break;
    ++at;
  }
  return version;
}

// Returns the part of `text` after `before`, up to the first character of `stop`, or "" if `before` does not
// occur.
std::string_view after(std::string_view text, std::string_view before, std::string_view stop = "\n") {
  size_t at = text.find(before);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(stop));
}

// Returns the version that `ptxas --version` prints. The cache stores the version, with the file's identity
// as the key, so that no process is started if all kernels of a program are in the cache.
std::string version_text(const std::string& path, const struct stat& status, Cache* cache) {
  const std::string identity = fmt::format("{} {} {} {}.{}", path, status.st_size, status.st_ino,
                                           status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  const std::string_view parts[] = {"ptxas --version", identity};
  const Cache::Key key = Cache::key(parts);
  if (cache) {
    if (std::optional<Cache::Entry> entry = cache->load(key)) return entry->log;
  }
  ProcessResult result = run_process({path, "--version"}, "", std::chrono::seconds(20));
  if (result.exit_status != 0)
    throw Error(fmt::format("{} --version: exit status {}", path, result.exit_status));
  if (cache && !after(result.output, " V").empty()) {
    try {
      cache->store(key, {"", result.output});
    } catch (const Error&) {  // assemble() reports the problem; without the cache, reading the version only
                              // takes longer
    }
  }
  return result.output;
}

}  // namespace

PtxasSearch PtxasSearch::from_environment(std::string file) {
  PtxasSearch search;
  search.file = std::move(file);
  search.path = variable("PATH");
  search.cuda_path = variable("CUDA_PATH");
  if (search.cuda_path.empty()) search.cuda_path = variable("CUDA_HOME");
  return search;
}

std::vector<std::string> PtxasSearch::candidates(const std::string& tool) const {
  if (!file.empty()) return {file};
  std::vector<std::string> files;
  std::string_view folders = path;
  while (!folders.empty()) {
    size_t end = std::min(folders.find(':'), folders.size());
    if (end > 0) files.push_back(std::string(folders.substr(0, end)) + "/" + tool);
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  if (!cuda_path.empty()) files.push_back(cuda_path + "/bin/" + tool);
  if (!install_folder.empty()) {
    files.push_back(install_folder + "/cuda/bin/" + tool);
    std::vector<std::pair<PtxasVersion, std::string>> versioned;
    std::error_code error;
    for (fs::directory_iterator it(install_folder, error), end; !error && it != end; it.increment(error)) {
      std::string name = it->path().filename();
      if (name.starts_with("cuda-"))
        versioned.emplace_back(parse_version(name.substr(5)), it->path().string());
    }
    std::sort(versioned.rbegin(), versioned.rend());
    for (const auto& [version, folder] : versioned) files.push_back(folder + "/bin/" + tool);
  }
  return files;
}

Ptxas::Ptxas(const PtxasSearch& search, Cache* cache) {
  std::string tried;
  for (const std::string& file : search.candidates()) {
    struct stat status;
    std::string reason;
    if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      reason = "no such file";
    } else if (access(file.c_str(), X_OK) != 0) {
      reason = "not executable";
    } else {
      try {
        const std::string text = version_text(file, status, cache);
        const PtxasVersion version = parse_version(after(text, ", V"));
        if (version < oldest)
          reason =
              version == PtxasVersion{} ? "does not print its version" : "is version " + to_string(version);
        else if (path_.empty() || version_ < version) {
          version_ = version;
          build_ = fmt::format("{} {}", to_string(version_), after(text, "Build "));
          path_ = file;
        }
        if (version_ >= preferred) return;
      } catch (const Error& error) {
        reason = error.what();
      }
    }
    tried += fmt::format("\n  {}: {}", file, reason);
  }
  if (!path_.empty()) return;
  if (tried.empty()) tried = "\n  (PATH and CUDA_PATH are empty)";
  throw Error(fmt::format(
      "no ptxas of version {}.{} or newer was found. Put one on PATH, or set CUDA_PATH to a CUDA toolkit; "
      "PyPI's wheel nvidia-cuda-nvcc has one too, as nvidia/cu13/bin/ptxas. Looked at:{}",
      oldest.major, oldest.minor, tried));
}

std::string_view Ptxas::target_of(std::string_view ptx) {
  std::string_view target;
  for (std::string_view rest = ptx; target.empty() && !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with(".target")) target = line.substr(7);
  }
  target.remove_prefix(std::min(target.find_first_not_of(" \t"), target.size()));
  target = target.substr(0, target.find_first_of(" \t\r,/;"));
  if (!target.starts_with("sm_")) {
    throw Error(fmt::format("ptxas: the PTX text has no `.target sm_...` line (found '{}')", target));
  }
  return target;
}

std::vector<std::string> Ptxas::arguments(std::string_view ptx, const PtxasOptions& options) {
  if (options.optimization < 0 || options.optimization > 3) {
    throw Error(fmt::format("ptxas: the optimization level is {}, but must be 0 to 3", options.optimization));
  }
  std::vector<std::string> arguments = {"-v", fmt::format("-arch={}", target_of(ptx)),
                                        fmt::format("-O{}", options.optimization)};
  if (options.line_info) arguments.push_back("-lineinfo");
  return arguments;
}

PtxasOutput Ptxas::assemble(std::string_view ptx, const PtxasOptions& options) const {
  std::vector<std::string> command = arguments(ptx, options);
  command.insert(command.begin(), path_);
  command.insert(command.end(), {"/dev/stdin", "-o", "/dev/stdout"});
  ProcessResult result = run_process(command, ptx, options.time_limit);
  if (result.exit_status == 0 && result.output.starts_with("\x7f"
                                                           "ELF")) {
    return {std::move(result.output), std::move(result.messages)};
  }

  std::string text;
  const Notes notes = parse_notes(result.messages, ptx);
  for (const Note& note : notes.messages) {
    if (note.severity >= Severity::error && note.text != "Ptx assembly aborted due to errors") {
      text += "\n  " + to_string(note);
    }
  }
  if (text.empty()) text = fmt::format(" exit status {}.\n{}", result.exit_status, result.messages);
  throw Error(fmt::format("ptxas {} cannot assemble kernel '{}':{}", to_string(version_),
                          LineMap(ptx).first_entry(), text));
}

}  // namespace ptxbuilder
