#include "ptxbuilder/compile/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view format_version = "ptxbuilder cache 1";  // a part of every key
constexpr std::string_view suffix = ".entry", temporary_prefix = ".tmp-", lock_name = ".lock";
constexpr auto temporary_lifetime = std::chrono::hours(1);  // any store() takes only milliseconds

// The format of an entry's file:
//   byte 0       8      40            48          56         64
//        magic   key    cubin bytes   log bytes   checksum   cubin, log
// Integers have the byte order of the machine. The checksum covers all other bytes of the file.
struct Header {
  std::array<char, 8> magic = {'p', 't', 'x', 'b', 'c', 'u', 'b', '1'};
  Cache::Key key = {};
  uint64_t cubin_bytes = 0, log_bytes = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 64);

// The contents of the lock file: the number of bytes stored since entries were last removed, and the limit of
// the cache.
struct Stored {
  std::array<char, 8> magic = {'p', 't', 'x', 'b', 's', 'u', 'm', '1'};
  uint64_t limit = 0, bytes = 0;
};
static_assert(sizeof(Stored) == 24);

// Computes a checksum that detects accidental damage, but not manipulation. It processes eight bytes in each
// step, so that it does not delay loads.
uint64_t checksum(std::string_view bytes, uint64_t hash) {
  auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    mix(word);
  }
  uint64_t last = bytes.size();
  for (char c : bytes) last = last << 8 | static_cast<uint8_t>(c);
  mix(last);
  return hash;
}

uint64_t checksum(Header header, std::string_view content) {
  header.checksum = 0;
  return checksum(content, checksum({reinterpret_cast<const char*>(&header), sizeof header}, 1));
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int number() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

[[noreturn]] void fail_in(const std::string& directory, const char* step) {
  throw Error(fmt::format("cache {}: {} failed: {}", directory, step, std::strerror(errno)));
}

// Returns the contents of the file. Returns nothing if the file cannot be read, or cannot be an entry, such
// as an endless file, or a pipe, which would block when opened. If `touch` is true, sets the time of the
// file's last use.
std::optional<std::string> read_file(const std::string& path, bool touch) {
  constexpr off_t kMost = off_t{1} << 30;
  File file(path, O_RDONLY | O_NONBLOCK);
  struct stat status;
  if (!file || fstat(file.number(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_size > kMost) return std::nullopt;
  std::string bytes(status.st_size, '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t n = read(file.number(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += n;
  }
  bytes.resize(at);
  if (touch) futimens(file.number(), nullptr);  // has no effect in a read-only cache
  return bytes;
}

// Returns the reason why `bytes` are not the contents of a valid entry with the file name `name` (64 hex
// digits and a suffix), or "" if the entry is valid.
std::string damage(const std::string& bytes, const std::string& name) {
  Header header;
  const Header expected;
  if (bytes.size() < sizeof header) return fmt::format("{} bytes are less than a header", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != expected.magic) return "it does not begin like an entry";
  const uint64_t content = bytes.size() - sizeof header;
  if (header.cubin_bytes > content || header.log_bytes != content - header.cubin_bytes) {
    return fmt::format("{} bytes of content, but the header states {} + {}", content, header.cubin_bytes,
                       header.log_bytes);
  }
  if (to_hex(header.key) + std::string(suffix) != name) return "it holds the entry of another key";
  if (checksum(header, std::string_view(bytes).substr(sizeof header)) != header.checksum)
    return "wrong checksum";
  return "";
}

struct Found {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

// Finds the entries of the directory, and abandoned temporary files. Skips files that another process removes
// in the meantime.
void scan(const std::string& directory, std::vector<Found>& entries, std::vector<fs::path>& abandoned) {
  std::error_code error;
  const auto stale = fs::file_time_type::clock::now() - temporary_lifetime;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    std::string name = it->path().filename();
    fs::file_time_type used = it->last_write_time(gone);
    uint64_t bytes = gone ? 0 : it->file_size(gone);
    if (gone) continue;
    if (name.ends_with(suffix)) entries.push_back({it->path(), bytes, used});
    if (name.starts_with(temporary_prefix) && used < stale) abandoned.push_back(it->path());
  }
}

std::string temporary_name() {
  static std::atomic<uint64_t> count = 0;
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}{}-{}-{:x}", temporary_prefix, getpid(), count++, now);
}

void write_synced(const std::string& directory, const std::string& path, std::string_view bytes) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) fail_in(directory, "creating a file");
  while (!bytes.empty()) {
    ssize_t n = write(file.number(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_in(directory, "writing a file");
    bytes.remove_prefix(n);
  }
  if (fsync(file.number()) != 0) fail_in(directory, "fsync of a file");
}

}  // namespace

std::string default_cache_directory() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/')
    return std::string(base) + "/ptxbuilder";  // according to the specification, relative paths are ignored
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.cache/ptxbuilder" : "";
}

Cache::Cache() : Cache(Options{}) {}
Cache::Cache(Options options) : options_(std::move(options)) {}

Cache::Key Cache::key(std::span<const std::string_view> parts) {
  Sha256 hash;
  auto add = [&](std::string_view part) {
    hash.update(fmt::format("{}:", part.size()));  // distinguishes lists with equal concatenations
    hash.update(part);
  };
  add(format_version);
  for (std::string_view part : parts) add(part);
  return hash.finish();
}

std::string Cache::path(const Key& key) const {
  return options_.directory + "/" + to_hex(key) + std::string(suffix);
}

std::optional<Cache::Entry> Cache::load(const Key& key) {
  const std::string file = path(key);
  std::optional<std::string> bytes;
  if (!options_.directory.empty()) bytes = read_file(file, true);
  bool damaged = bytes && !damage(*bytes, file.substr(options_.directory.size() + 1)).empty();
  if (damaged) ++corrupt_;
  if (!bytes || damaged) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  Header header;
  std::memcpy(&header, bytes->data(), sizeof header);
  Entry entry;
  entry.log = bytes->substr(sizeof header + header.cubin_bytes);
  bytes->resize(sizeof header + header.cubin_bytes);
  bytes->erase(0, sizeof header);
  entry.cubin = std::move(*bytes);
  return entry;
}

void Cache::store(const Key& key, const Entry& entry) {
  const std::string& directory = options_.directory;
  if (directory.empty())
    throw Error("cache: no directory is set, and neither XDG_CACHE_HOME nor HOME names one");
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    throw Error(fmt::format("cache {}: the directory could not be created: {}", directory, error.message()));

  Header header;
  header.key = key;
  header.cubin_bytes = entry.cubin.size();
  header.log_bytes = entry.log.size();
  const std::string content = entry.cubin + entry.log;
  header.checksum = checksum(header, content);

  const std::string temporary = directory + "/" + temporary_name();
  try {
    write_synced(directory, temporary,
                 std::string(reinterpret_cast<char*>(&header), sizeof header) + content);
    if (rename(temporary.c_str(), path(key).c_str()) != 0) fail_in(directory, "renaming a file");
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  File folder(directory, O_RDONLY | O_DIRECTORY);
  if (!folder || fsync(folder.number()) != 0) fail_in(directory, "fsync of the directory");

  count_stored(sizeof header + content.size(), path(key));
}

Cache::Made Cache::load_or_make(const Key& key, const std::function<Entry()>& make) {
  if (std::optional<Entry> entry = load(key)) return {std::move(*entry), true};
  Made made{make()};
  try {
    store(key, made.entry);
  } catch (const Error& error) {
    made.problem = error.what();
  }
  return made;
}

// Counts the stored bytes of all processes. If there are tens of thousands of entries, reading the directory
// takes as long as running ptxas. The directory is therefore read only when another sixteenth of the limit
// has been stored, and evict() leaves a sixteenth of the limit free.
void Cache::count_stored(uint64_t bytes, const std::string& keep) {
  File lock(options_.directory + "/" + std::string(lock_name), O_RDWR | O_CREAT);
  if (!lock) fail_in(options_.directory, "opening its lock");
  while (flock(lock.number(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_in(options_.directory, "locking it");
  }
  Stored stored;
  const bool is_known = pread(lock.number(), &stored, sizeof stored, 0) == sizeof stored &&
                        stored.magic == Stored().magic && stored.limit == options_.limit_bytes;
  if (!is_known) stored = {.limit = options_.limit_bytes};
  stored.bytes += bytes;
  if (!is_known || stored.bytes > options_.limit_bytes / 16) {
    evict(keep);
    stored.bytes = 0;
  }
  if (pwrite(lock.number(), &stored, sizeof stored, 0) != sizeof stored)
    fail_in(options_.directory, "writing to its lock");
}

void Cache::evict(const std::string& keep) {
  std::vector<Found> entries;
  std::vector<fs::path> abandoned;
  scan(options_.directory, entries, abandoned);

  std::error_code ignored;  // another process may have removed the file
  for (const fs::path& file : abandoned) fs::remove(file, ignored);
  uint64_t bytes = 0;
  for (const Found& entry : entries) bytes += entry.bytes;
  std::sort(entries.begin(), entries.end(), [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& entry : entries) {
    if (bytes <= options_.limit_bytes - options_.limit_bytes / 16) break;
    if (entry.path == keep) continue;
    fs::remove(entry.path, ignored);
    bytes -= entry.bytes;
  }
}

Cache::Statistics Cache::statistics() const {
  std::vector<Found> entries;
  std::vector<fs::path> abandoned;
  if (!options_.directory.empty()) scan(options_.directory, entries, abandoned);
  Statistics statistics = {
      options_.directory, entries.size(), 0, options_.limit_bytes, hits_, misses_, corrupt_};
  for (const Found& entry : entries) statistics.bytes += entry.bytes;
  return statistics;
}

void Cache::clear() {
  std::vector<Found> entries;
  std::vector<fs::path> abandoned;
  scan(options_.directory, entries, abandoned);
  for (const Found& entry : entries) abandoned.push_back(entry.path);
  for (const fs::path& file : abandoned) {
    if (unlink(file.c_str()) != 0 && errno != ENOENT) fail_in(options_.directory, "removing an entry");
  }
}

Cache::Verification Cache::verify() {
  std::vector<Found> entries;
  std::vector<fs::path> abandoned;
  scan(options_.directory, entries, abandoned);
  Verification result;
  auto remove = [&](const fs::path& file, const std::string& reason) {
    if (unlink(file.c_str()) != 0 && errno != ENOENT) fail_in(options_.directory, "removing an entry");
    result.removed.push_back(fmt::format("{}: {}", file.filename().string(), reason));
  };
  for (const Found& entry : entries) {
    std::optional<std::string> bytes = read_file(entry.path, false);
    if (!bytes && errno == ENOENT) continue;  // another process has evicted the entry
    ++result.entries;
    std::string reason = bytes ? damage(*bytes, entry.path.filename()) : "it cannot be read";
    if (!reason.empty()) remove(entry.path, reason);
  }
  for (const fs::path& file : abandoned) remove(file, "an interrupted store left it");
  return result;
}

}  // namespace ptxbuilder
