// `ptxb cache` shows the size of the cubin cache, verifies its entries, and clears it.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/compile/cache.h"

namespace ptxbuilder::command::cache_command {

using Json = nlohmann::ordered_json;

struct Options {
  Cache::Options cache;
  bool clear = false, verify = false, json = false;
};

// Throws Error if `path` exists but is not a folder. A folder that does not exist yet is an empty cache.
void check_folder(const std::string& path) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_directory(path, none))
    throw Error(fmt::format(
        "{}: it is not a folder, so it cannot be a cache of PTX and cubins: name a folder with --cache-dir",
        path));
}

int run(const Options& o) {
  check_folder(o.cache.directory);
  Cache cache(o.cache);
  std::vector<std::string> removed;
  if (o.verify) removed = cache.verify().removed;
  if (o.clear) cache.clear();
  Cache::Statistics s = cache.statistics();
  if (o.json) {
    fmt::print("{}\n", Json({{"directory", s.directory},
                             {"entries", s.entries},
                             {"bytes", s.bytes},
                             {"limit_bytes", s.limit_bytes},
                             {"removed", removed}})
                           .dump());
    return 0;
  }
  fmt::print("{}: {} entries, {:.1f} of {} MiB\n", s.directory, s.entries,
             static_cast<double>(s.bytes) * 0x1p-20, s.limit_bytes >> 20);
  for (const std::string& r : removed) fmt::print("removed {}\n", r);
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("cache", "show where PTX and cubins are cached, and how many there are");
  auto o = std::make_shared<Options>();
  app.flag("--clear", o->clear, "remove them all");
  app.flag("--verify", o->verify, "check each entry, and remove damaged ones");
  app.option("--cache-dir", o->cache.directory, "another folder").shown_as("DIR");
  app.flag("--json", o->json, "as JSON");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::cache_command
