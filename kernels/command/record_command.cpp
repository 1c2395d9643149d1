// `ptxb record` records a program's launches as PTX and launch files, with libptxb_record.so.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kernels/family/commands.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command::record_command {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> program, ptx;
  std::string folder = "ptxb-record", kernel;
  uint64_t most = 10, megabytes = 256;
};

// Returns the path of libptxb_record.so. The library is in the library folder of the prefix if this program
// is installed, otherwise in the build folder.
fs::path library() {
  constexpr const char* name = "libptxb_record.so";
  std::error_code none;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", none).parent_path().parent_path();
  for (const fs::path& folder :
       {prefix / PTXBUILDER_LIBRARY_FOLDER / "ptxbuilder", prefix / "runtime/record"})
    if (fs::exists(folder / name, none)) return folder / name;
  throw Error(fmt::format("record: {} is neither in {} nor in {}", name,
                          (prefix / PTXBUILDER_LIBRARY_FOLDER / "ptxbuilder").string(),
                          (prefix / "runtime/record").string()));
}

// Returns the folders in which Triton and torch.compile store compiled kernels.
std::vector<std::string> caches() {
  std::vector<std::string> all;
  auto of = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value ? value : "");
  };
  if (const std::string cache = of("TRITON_CACHE_DIR"); !cache.empty()) all.push_back(cache);
  if (const std::string home = of("HOME"); !home.empty()) all.push_back(home + "/.triton/cache");
  if (const std::string user = of("USER"); !user.empty()) all.push_back("/tmp/torchinductor_" + user);
  return all;
}

void set(const char* variable, const std::string& value) { setenv(variable, value.c_str(), 1); }

// Replaces this process with the recorded program. Throws Error if that fails, and never returns.
int run(const Options& o) {
  std::string folders;
  for (const std::string& folder : o.ptx)
    if (!fs::is_directory(folder)) throw Error(fmt::format("--ptx {}: it is not a folder", folder));
  std::vector<std::string> all = o.ptx;
  for (const std::string& cache : caches()) all.push_back(cache);
  for (const std::string& folder : all)
    folders += (folders.empty() ? "" : ":") + fs::absolute(folder).string();
  const char* before = std::getenv("LD_PRELOAD");
  set("LD_PRELOAD", library().string() + (before && *before ? fmt::format(":{}", before) : ""));
  set("PTXB_RECORD_FOLDER", fs::absolute(o.folder).string());
  set("PTXB_RECORD_KERNEL", o.kernel);
  set("PTXB_RECORD_MAX", std::to_string(o.most));
  set("PTXB_RECORD_BYTES", std::to_string(o.megabytes << 20));
  set("PTXB_RECORD_PTX", folders);
  set("PTXB_RECORD_PROCESS", std::to_string(getpid()));
  std::vector<char*> words;
  for (const std::string& word : o.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(fmt::format("record: {} cannot be run: {}", o.program[0], std::strerror(errno)));
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command(
      "record", "record a running program's launches as PTX and JSON files, which `ptxb sim` runs");
  auto o = std::make_shared<Options>();
  app.option("program", o->program, "the program and its arguments, after --")
      .required()
      .shown_as("-- PROGRAM ...");
  app.option("-o,--output", o->folder, "the folder in which a folder is made for each launch")
      .with_default()
      .shown_as("DIR");
  app.option("--kernel", o->kernel, "record only kernels with this in their names").shown_as("NAME");
  app.option("--max", o->most, "the largest number of launches that are recorded")
      .with_default()
      .from(1, 1000000)
      .shown_as("N");
  app.option("--mb", o->megabytes,
             "the largest part of one allocation that is kept, from where a pointer points")
      .with_default()
      .from(1, 16384)
      .shown_as("MB");
  app.option("--ptx", o->ptx,
             "folders that have the PTX next to the .cubin that the program loads, as Triton's cache has")
      .by_comma()
      .shown_as("DIR,...");
  app.footer(
      "Each launch becomes a folder with kernel.ptx, launch.json, and the bytes of the buffers that its "
      "pointers and\ntensor maps reach, before and after: ptxb sim DIR/0-k/kernel.ptx --launch "
      "DIR/0-k/launch.json runs it, and\ncompares. If the program loaded only a cubin, the recording says "
      "for each kernel what to do.");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::record_command
