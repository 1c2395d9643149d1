// A file of the user's that says which tile was the fastest for a call, as measured on this machine.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "ptxbuilder/error.h"
#include "runtime/device.h"

namespace ptxbuilder::kernels {

// OPERATION/GPU-SMs-VERSION-HASH.txt in the folder of the cache of kernels; "" where there is no such folder.
// `hash` tells files apart by what tiles are offered.
std::string default_tile_file(const std::string& operation, const runtime::DeviceProperties& device,
                              int multiprocessors, uint64_t hash);

// Lines "CALL TILE": the last one of a call counts; a call has always as many words, with a space
// between, and a tile is one. Processes may share a file: each adds whole lines at its end. What cannot be
// read or written is said once, by log() of ptxbuilder/log.h, and nothing else fails by it. Any thread may
// call it at any time.
class TileFile {
 public:
  // "" keeps what is found for this object alone. The file is first read when it is asked. `is_tile` may
  // throw Error, which counts as no.
  TileFile(std::string path, size_t words, std::function<bool(const std::string& tile)> is_tile)
      : path_(std::move(path)), words_(words), is_tile_(std::move(is_tile)) {}

  // Gives what `parse` makes of the call's tile. It throws Error for a tile that does not suit the call,
  // which is then passed over.
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
  std::map<std::string, std::string> tiles_;  // by call
};

}  // namespace ptxbuilder::kernels
