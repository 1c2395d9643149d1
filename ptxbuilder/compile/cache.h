// A directory of PTX and cubins that many processes share. An entry is named by
// the hash of all its inputs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/sha256.h"

namespace ptxbuilder {

// $XDG_CACHE_HOME/ptxbuilder, else $HOME/.cache/ptxbuilder (XDG Base Directory Specification); ""
// when neither variable is set.
std::string default_cache_directory();

// A cache of cubins on disk, which many processes and threads share.
class Cache {
 public:
  // The folder and the limit of a cache.
  struct Options {
    std::string directory = default_cache_directory();
    uint64_t limit_bytes = uint64_t{1}
                           << 30;  // of all entries together; the least recently used are removed first
  };
  // An entry: the cubin of one PTX text, and the messages of ptxas.
  struct Entry {
    std::string cubin;
    std::string log;
    bool operator==(const Entry&) const = default;
  };
  // The number of entries on disk, and of loads that found an entry.
  struct Statistics {
    std::string directory;
    uint64_t entries = 0, bytes = 0;  // on disk now
    uint64_t limit_bytes = 0;
    uint64_t hits = 0, misses = 0, corrupt = 0;  // loads through this object; a corrupt entry is also a miss
  };
  // The result of verify().
  struct Verification {
    uint64_t entries = 0;              // entries that were read
    std::vector<std::string> removed;  // "NAME: what was wrong with it"
  };
  using Key = Sha256::Digest;

  // Does not touch any file: the first store() reports a directory that cannot be used.
  Cache();
  explicit Cache(Options options);

  // Returns the key of the entry made from `parts`, in that order, in this version of the format.
  static Key key(std::span<const std::string_view> parts);

  // Returns nullopt when the entry does not exist or is damaged; the caller then makes it anew and stores
  // it.
  std::optional<Entry> load(const Key& key);

  // Writes the entry atomically, then removes the least recently used entries while the directory exceeds its
  // limit. Throws Error when the directory cannot be written.
  void store(const Key& key, const Entry& entry);

  // Returns the entry, or stores and returns the result of `make`. An unwritable directory is not an error.
  struct Made {
    Entry entry;
    bool from_cache = false;
    std::string problem = {};  // why it could not be stored
  };
  Made load_or_make(const Key& key, const std::function<Entry()>& make);

  Statistics statistics() const;
  void clear();  // removes every entry
  Verification
  verify();  // reads every entry; removes the damaged ones and files that an interrupted store left

  std::string path(const Key& key) const;  // of the entry's file, which may not exist

 private:
  void count_stored(uint64_t bytes, const std::string& keep);
  void evict(const std::string& keep);

  Options options_;
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, corrupt_ = 0;
};

}  // namespace ptxbuilder
