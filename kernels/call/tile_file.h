// A file in the user's cache with the fastest tile for each call, as measured on this machine.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "ptxbuilder/error.h"
#include "runtime/device.h"

namespace ptxbuilder::kernels {

// Returns OPERATION/GPU-SMs-VERSION-HASH.txt in the kernel cache's folder; "" if there is no such folder.
// `hash` identifies the set of tiles to choose from, so that each set has its own file.
std::string default_tile_file(const std::string& operation, const runtime::DeviceProperties& device,
                              int multiprocessors, uint64_t hash);

// A file with lines of the form "CALL TILE"; if a call has several lines, the last one counts. All calls have
// the same number of words, with a space between them, and a tile is one word. Processes may share a file,
// since each appends whole lines. A failure to read or write is reported once, with log() of
// ptxbuilder/log.h, and has no other effect. Any thread may call the functions at any time.
class TileFile {
 public:
  // If `path` is "", results are stored only in memory. The file is read at the first lookup. If `is_tile`
  // throws Error, the word is not a tile.
  TileFile(std::string path, size_t words, std::function<bool(const std::string& tile)> is_tile)
      : path_(std::move(path)), words_(words), is_tile_(std::move(is_tile)) {}

  // Returns the result of `parse` for the call's tile; nullopt if the file has no tile for the call. `parse`
  // throws Error if the tile does not suit the call, and the result is then nullopt.
  template <class Parse>
  auto find(const std::string& call, const Parse& parse) -> std::optional<decltype(parse(call))> {
    const std::lock_guard lock(mutex_);
    read();
    const auto known = tiles_.find(call);
    if (known == tiles_.end()) return std::nullopt;
    try {
      return parse(known->second);
    } catch (const Error& e) {
      pass_over(call, e.what());
      return std::nullopt;
    }
  }
  void keep(const std::string& call, const std::string& tile);

 private:
  void read();
  bool is_line(const std::string& line) const;
  void pass_over(const std::string& call, const std::string& why);
  void warn(const std::string& what);

  std::string path_;
  size_t words_;
  std::function<bool(const std::string&)> is_tile_;
  std::mutex mutex_;
  bool is_read_ = false, has_warned_ = false;
  std::map<std::string, std::string> tiles_;  // indexed by call
};

}  // namespace ptxbuilder::kernels
