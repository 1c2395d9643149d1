// Stores PTX and cubins in a directory that many processes share. The name of an entry is the hash of all
// inputs that determine its content.
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

// Returns $XDG_CACHE_HOME/ptxbuilder or, if that variable is not set, $HOME/.cache/ptxbuilder (XDG Base
// Directory Specification). Returns "" if neither variable is set.
std::string default_cache_directory();

// A cache on disk. Many processes and threads may use one directory.
class Cache {
 public:
  // The directory and the size limit of a cache.
  struct Options {
    std::string directory = default_cache_directory();
    // The limit on the total size of all entries. The least recently used entries are removed first.
    uint64_t limit_bytes = uint64_t{1} << 30;
  };
  // An entry, which contains the cubin for some PTX text, and the messages of ptxas.
  struct Entry {
    std::string cubin;
    std::string log;
    bool operator==(const Entry&) const = default;
  };
  // The number of entries on disk, and the number of loads that found an entry.
  struct Statistics {
    std::string directory;
    uint64_t entries = 0, bytes = 0;  // currently on disk
    uint64_t limit_bytes = 0;
    uint64_t hits = 0, misses = 0, corrupt = 0;  // loads through this object; a corrupt entry also counts as
                                                 // a miss
  };
  // The result of verify().
  struct Verification {
    uint64_t entries = 0;              // number of entries that were read
    std::vector<std::string> removed;  // strings of the form "NAME: REASON"
  };
  using Key = Sha256::Digest;

  // Constructs a cache in the default directory, without accessing files. If the directory cannot be used,
  // the first store() throws Error.
  Cache();
  explicit Cache(Options options);

  // Returns the key of the entry for `parts`. The key depends on the order of the parts and on the version of
  // the cache's format.
  static Key key(std::span<const std::string_view> parts);

  // Returns the entry, or nothing if it does not exist or is damaged. The caller should then create the entry
  // and store it.
  std::optional<Entry> load(const Key& key);

  // Writes the entry atomically, and then removes the least recently used entries until the directory is
  // within its limit. Throws Error if the directory cannot be written.
  void store(const Key& key, const Entry& entry);

  // The result of load_or_make(), which returns the stored entry or, if there is none, stores and returns the
  // result of `make`. If the directory cannot be written, no Error is thrown.
  struct Made {
    Entry entry;
    bool from_cache = false;
    std::string problem = {};  // reason why the result could not be stored
  };
  Made load_or_make(const Key& key, const std::function<Entry()>& make);

  Statistics statistics() const;
  void clear();           // removes all entries
  Verification verify();  // reads all entries; removes damaged entries, and files that an interrupted store
                          // has left

  std::string path(const Key& key) const;  // returns the path of the entry's file, which may not exist

 private:
  void count_stored(uint64_t bytes, const std::string& keep);
  void evict(const std::string& keep);

  Options options_;
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, corrupt_ = 0;
};

}  // namespace ptxbuilder
