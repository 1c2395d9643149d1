// Tests the cubin cache: its results, its robustness, and its cost.
#include "ptxbuilder/compile/cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "error_kit.h"
#include "folder_kit.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::test::cache_test {

namespace fs = std::filesystem;

namespace {

Cache::Key key_of(int i) {
  const std::string text = "kernel " + std::to_string(i);
  const std::string_view parts[] = {text};
  return Cache::key(parts);
}

std::string random_bytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Every test that stores under key_of(i) stores this content, so that a mix-up is noticed.
Cache::Entry entry_of(int i, size_t size = 1000) {
  return {random_bytes(size, i), "log of " + std::to_string(i)};
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void set_age(const std::string& path, std::chrono::seconds age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

int files_in(const std::string& directory, const std::string& part) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(directory)) {
    count += file.path().filename().string().find(part) != std::string::npos;
  }
  return count;
}

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(text);
  return to_hex(hash.finish());
}

}  // namespace

TEST_CASE("SHA-256 agrees with the vectors of FIPS 180") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
               "qrsmnop"
               "qrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes are cut") {
  for (size_t size : {55, 56, 63, 64, 65, 119, 120, 128, 200}) {
    const std::string text = random_bytes(size, 1);
    for (size_t cut = 0; cut <= size; ++cut) {
      Sha256 hash;
      hash.update(std::string_view(text).substr(0, cut));
      hash.update("");
      hash.update(std::string_view(text).substr(cut));
      REQUIRE(to_hex(hash.finish()) == sha256(text));
    }
  }
}

TEST_CASE("keys differ when any part does, or the cut between parts") {
  auto key = [](std::initializer_list<std::string_view> parts) {
    return to_hex(Cache::key({parts.begin(), parts.size()}));
  };
  CHECK(key({"a", "b"}) == key({"a", "b"}));
  CHECK(key({"a", "b"}) != key({"b", "a"}));
  CHECK(key({"a", "b"}) != key({"ab"}));
  CHECK(key({"a", "b"}) != key({"a", "b", ""}));
  CHECK(key({"ab", "c"}) != key({"a", "bc"}));
  CHECK(key({"1:a"}) != key({"", "a"}));
}

TEST_CASE("an entry comes back as it was stored, also in another process's Cache") {
  Folder folder;
  Cache cache({folder.path()});
  CHECK_FALSE(cache.load(key_of(1)));
  for (size_t size : {size_t{0}, size_t{1}, size_t{50000}}) {
    cache.store(key_of(1), entry_of(1, size));
    CHECK(cache.load(key_of(1)) == entry_of(1, size));
  }
  cache.store(key_of(2), {"", ""});
  CHECK(cache.load(key_of(2)) == Cache::Entry{});
  CHECK_FALSE(cache.load(key_of(3)));
  CHECK(Cache({folder.path()}).load(key_of(1)) == entry_of(1, 50000));

  Cache::Statistics statistics = cache.statistics();
  CHECK(statistics.directory == folder.path());
  CHECK(statistics.entries == 2);
  CHECK(statistics.bytes == 64 + 50000 + 8 + 64);
  CHECK(statistics.hits == 4);
  CHECK(statistics.misses == 2);
  CHECK(statistics.corrupt == 0);
}

TEST_CASE("a damaged entry is a miss, and the next store repairs it") {
  Folder folder;
  Cache cache({folder.path()});
  cache.store(key_of(1), entry_of(1));
  cache.store(key_of(2), entry_of(2));
  const std::string file = cache.path(key_of(1)), sound = read(file);
  REQUIRE(sound.size() == 64 + 1000 + 8);

  auto survives = [&](const std::string& bytes) {
    write(file, bytes);
    bool missed = !cache.load(key_of(1));
    cache.store(key_of(1), entry_of(1));
    return missed && cache.load(key_of(1)) == entry_of(1);
  };
  uint64_t damaged = 0;
  for (size_t at = 0; at < sound.size(); at += at < 64 ? 1 : 37) {  // one flipped bit
    std::string bytes = sound;
    bytes[at] ^= 1 << at % 8;
    CAPTURE(at);
    CHECK(survives(bytes));
    ++damaged;
  }
  for (size_t size : {0, 1, 63, 64, 65, 1000, 1071}) {  // truncated
    CAPTURE(size);
    CHECK(survives(sound.substr(0, size)));
    ++damaged;
  }
  CHECK(survives(sound + "x"));
  CHECK(survives(read(cache.path(key_of(2)))));  // valid, but for a different key
  CHECK(cache.statistics().corrupt == damaged + 2);

  write(file, sound);
  CHECK(cache.load(key_of(1)) == entry_of(1));
  CHECK(cache.load(key_of(2)) == entry_of(2));
}

TEST_CASE("an object in the place of an entry is a miss, and the next store replaces it") {
  Folder folder;
  Cache cache({folder.path()});
  cache.store(key_of(1), entry_of(1));
  const std::string file = cache.path(key_of(1));
  const auto put_pipe = [&] { REQUIRE(mkfifo(file.c_str(), 0666) == 0); };
  const auto put_terabyte = [&] { write(file, ""), std::filesystem::resize_file(file, uint64_t{1} << 40); };
  const auto put_folder = [&] { REQUIRE(std::filesystem::create_directory(file)); };
  for (const std::function<void()>& put :
       {std::function<void()>(put_pipe), std::function<void()>(put_terabyte)}) {
    std::filesystem::remove(file);
    put();
    CHECK_FALSE(cache.load(key_of(1)));
    cache.store(key_of(1), entry_of(1));
    CHECK(cache.load(key_of(1)) == entry_of(1));
  }
  std::filesystem::remove(file);
  put_folder();
  CHECK_FALSE(cache.load(key_of(1)));
}

TEST_CASE("verify() removes damaged entries and nothing else") {
  Folder folder;
  Cache cache({folder.path()});
  for (int i = 0; i < 4; ++i) cache.store(key_of(i), entry_of(i));
  CHECK(cache.verify().entries == 4);
  CHECK(cache.verify().removed.empty());

  std::string bytes = read(cache.path(key_of(1)));
  bytes[500] ^= 1;
  write(cache.path(key_of(1)), bytes);
  write(cache.path(key_of(2)), bytes.substr(0, 100));
  write(folder.path() + "/notes.txt", "not an entry");
  Cache::Verification result = cache.verify();
  CHECK(result.entries == 4);
  REQUIRE(result.removed.size() == 2);
  std::string reasons = result.removed[0] + result.removed[1];
  CHECK(reasons.find(to_hex(key_of(1)) + ".entry: wrong checksum") != std::string::npos);
  CHECK(reasons.find(to_hex(key_of(2)) + ".entry: 36 bytes of content") != std::string::npos);
  CHECK(cache.load(key_of(0)) == entry_of(0));
  CHECK(cache.load(key_of(3)) == entry_of(3));
  CHECK_FALSE(fs::exists(cache.path(key_of(1))));
  CHECK(fs::exists(folder.path() + "/notes.txt"));
  CHECK(cache.verify().removed.empty());
}

TEST_CASE("clear() removes every entry, and only entries") {
  Folder folder;
  Cache cache({folder.path()});
  for (int i = 0; i < 4; ++i) cache.store(key_of(i), entry_of(i));
  write(folder.path() + "/notes.txt", "not an entry");
  cache.clear();
  CHECK(cache.statistics().entries == 0);
  CHECK_FALSE(cache.load(key_of(0)));
  CHECK(fs::exists(folder.path() + "/notes.txt"));
  cache.store(key_of(0), entry_of(0));
  CHECK(cache.load(key_of(0)) == entry_of(0));
}

TEST_CASE("the least recently used entries go when the limit is reached") {
  Folder folder;
  Cache cache({folder.path(), 16 * 1100});
  for (int i = 0; i < 10; ++i) {  // 10 entries of 1,072 bytes; entry 0 is the oldest
    cache.store(key_of(i), entry_of(i));
    set_age(cache.path(key_of(i)), std::chrono::seconds(1000 - i));
  }
  CHECK(cache.statistics().entries == 10);
  CHECK(cache.load(key_of(0)));  // entry 0 is now the most recently used
  CHECK(cache.load(key_of(3)));

  cache.store(key_of(20), entry_of(20, 10000));  // leaves room for 5 of the 10
  CHECK(cache.statistics().bytes <= 16 * 1100);
  CHECK(cache.load(key_of(20)) == entry_of(20, 10000));
  CHECK(cache.load(key_of(0)));
  CHECK(cache.load(key_of(3)));
  for (int i : {1, 2, 4, 5, 6}) CHECK_FALSE(cache.load(key_of(i)));
  CHECK(cache.load(key_of(9)));
}

TEST_CASE("the entry just written stays, even when it alone exceeds the limit") {
  Folder folder;
  Cache cache({folder.path(), 5000});
  cache.store(key_of(1), entry_of(1));
  set_age(cache.path(key_of(1)), std::chrono::seconds(10));
  cache.store(key_of(2), entry_of(2, 20000));
  CHECK(cache.load(key_of(2)) == entry_of(2, 20000));
  CHECK_FALSE(cache.load(key_of(1)));
  cache.store(key_of(3), entry_of(3));
  CHECK(cache.load(key_of(3)));
  CHECK_FALSE(cache.load(key_of(2)));
}

TEST_CASE("the limit holds over many stores of one Cache") {
  Folder folder;
  Cache cache({folder.path(), 100000});
  for (int i = 0; i < 300; ++i) {
    cache.store(key_of(i), entry_of(i));
    if (i % 20 == 0) REQUIRE(cache.statistics().bytes <= 100000);
  }
  CHECK(cache.statistics().bytes <= 100000);
  CHECK(cache.statistics().bytes >= 80000);
}

TEST_CASE("the limit holds over stores of many Caches, which do not each read the whole directory") {
  Folder folder;
  for (int i = 0; i < 300; ++i) {
    Cache cache({folder.path(), 100000});
    cache.store(key_of(i), entry_of(i));
    if (i % 20 == 0) REQUIRE(cache.statistics().bytes <= 100000);
  }
  CHECK(Cache({folder.path(), 100000}).statistics().bytes >= 80000);

  // A store that reads the directory removes this file.
  Cache({folder.path()}).store(key_of(1), entry_of(1));
  const std::string left = folder.path() + "/.tmp-old";
  write(left, "x");
  set_age(left, std::chrono::hours(2));
  Cache({folder.path()}).store(key_of(2), entry_of(2));
  CHECK(fs::exists(left));
  Cache({folder.path(), 100000}).store(key_of(3), entry_of(3));  // a different limit
  CHECK_FALSE(fs::exists(left));

  // After the count has been damaged, the next store reads the directory, and later stores do not.
  write(folder.path() + "/.lock", std::string(24, 'x'));
  for (const bool is_kept : {false, true}) {
    write(left, "x");
    set_age(left, std::chrono::hours(2));
    Cache({folder.path(), 100000}).store(key_of(4), entry_of(4));
    CHECK(fs::exists(left) == is_kept);
  }
}

TEST_CASE("temporary files of an interrupted store are removed; those in use are not") {
  Folder folder;
  Cache cache({folder.path()});
  fs::create_directories(folder.path());
  auto leave = [&] {
    write(folder.path() + "/.tmp-old", "x");
    set_age(folder.path() + "/.tmp-old", std::chrono::hours(2));
    write(folder.path() + "/.tmp-new", "x");
  };
  leave();
  cache.store(key_of(1), entry_of(1));
  CHECK_FALSE(fs::exists(folder.path() + "/.tmp-old"));
  CHECK(fs::exists(folder.path() + "/.tmp-new"));
  leave();
  CHECK(cache.verify().removed.size() == 1);
  CHECK_FALSE(fs::exists(folder.path() + "/.tmp-old"));
  CHECK(fs::exists(folder.path() + "/.tmp-new"));
  leave();
  cache.clear();
  CHECK_FALSE(fs::exists(folder.path() + "/.tmp-old"));
  CHECK(cache.statistics().entries == 0);
}

TEST_CASE("a store that fails says why and leaves nothing") {
  Folder folder;
  write(folder.path("file"), "");
  Cache blocked({folder.path("file") + "/cache"});
  CHECK(error_of([&] { blocked.store(key_of(1), entry_of(1)); }).find("the directory could not be created") !=
        std::string::npos);
  CHECK_FALSE(blocked.load(key_of(1)));
  CHECK(blocked.statistics().entries == 0);
  blocked.clear();
  CHECK(blocked.verify().entries == 0);

  Cache nowhere(Cache::Options{""});
  CHECK(error_of([&] { nowhere.store(key_of(1), entry_of(1)); }).find("HOME") != std::string::npos);
  CHECK_FALSE(nowhere.load(key_of(1)));

  Cache cache({folder.path()});  // renaming onto a folder fails after the temporary file was written
  fs::create_directories(cache.path(key_of(1)));
  CHECK(error_of([&] { cache.store(key_of(1), entry_of(1)); }).find("renaming a file failed") !=
        std::string::npos);
  CHECK(files_in(folder.path(), ".tmp-") == 0);
  cache.store(key_of(2), entry_of(2));
  CHECK(cache.load(key_of(2)));
}

TEST_CASE("a read-only directory still serves its entries") {
  Folder folder;
  Cache cache({folder.path()});
  cache.store(key_of(1), entry_of(1));
  const fs::path cache_folder = folder.path();
  fs::permissions(cache_folder.parent_path(), fs::perms{0755});
  fs::permissions(cache_folder, fs::perms{0555});
  fs::permissions(cache.path(key_of(1)), fs::perms{0444});
  pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(65534) != 0) _exit(100);  // permissions do not restrict the superuser
    if (cache.load(key_of(1)) != entry_of(1)) _exit(1);
    std::string error = error_of([&] { cache.store(key_of(2), entry_of(2)); });
    _exit(error.find("creating a file failed: Permission denied") == std::string::npos ? 2 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  fs::permissions(cache_folder, fs::perms{0755});
}

TEST_CASE("the default directory follows XDG_CACHE_HOME, then HOME") {
  auto with = [](const char* cache_home, const char* home) {
    std::string result;
    std::string old_home = std::getenv("HOME") ? std::getenv("HOME") : "";
    std::string old_cache = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    cache_home ? setenv("XDG_CACHE_HOME", cache_home, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    result = default_cache_directory();
    old_home.empty() ? unsetenv("HOME") : setenv("HOME", old_home.c_str(), 1);
    old_cache.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", old_cache.c_str(), 1);
    return result;
  };
  CHECK(with("/var/c", "/home/x") == "/var/c/ptxbuilder");
  CHECK(with("relative", "/home/x") == "/home/x/.cache/ptxbuilder");
  CHECK(with(nullptr, "/home/x") == "/home/x/.cache/ptxbuilder");
  CHECK(with(nullptr, nullptr) == "");
}

TEST_CASE("processes and threads share one cache") {
  // 8 processes with 4 threads each store and load the same 12 keys, and also keys of their own. Some entries
  // are damaged again and again. The cache is so small that entries may be evicted at any time. No load may
  // return content that was not stored.
  Folder folder;
  constexpr int processes = 8, threads = 4, rounds = 40, shared_keys = 12;
  constexpr uint64_t limit = 60000;
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    pid_t child = fork();
    if (child > 0) children.push_back(child);
    if (child != 0) continue;
    Cache cache({folder.path(), limit});
    std::atomic<int> wrong = 0;
    {
      std::vector<std::jthread> workers;
      for (int thread = 0; thread < threads; ++thread) {
        workers.emplace_back([&, thread] {
          std::mt19937 random(process * threads + thread);
          for (int round = 0; round < rounds; ++round) {
            int own = 1000 + (process * threads + thread) * rounds + round;
            int i = random() % 3 ? static_cast<int>(random() % shared_keys) : own;
            std::optional<Cache::Entry> entry = cache.load(key_of(i));
            if (entry && *entry != entry_of(i)) ++wrong;
            try {
              if (!entry) cache.store(key_of(i), entry_of(i));
              if (random() % 16 == 0)
                truncate(cache.path(key_of(i)).c_str(), random() % 1072) == 0 ? void() : void();
              if (random() % 64 == 0) cache.verify();
            } catch (const Error&) {
              ++wrong;
            }
          }
        });
      }
    }
    _exit(std::min(wrong.load(), 100));
  }
  for (pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  Cache cache({folder.path(), limit});
  CHECK(files_in(folder.path(), ".tmp-") == 0);
  cache.verify();
  CHECK(cache.verify().removed.empty());
  for (int i = 0; i < shared_keys; ++i) {
    std::optional<Cache::Entry> entry = cache.load(key_of(i));
    CHECK((!entry || *entry == entry_of(i)));
  }
  CHECK(cache.statistics().entries > 0);
  CHECK(cache.statistics().bytes <= limit + processes * limit / 16);
}

TEST_CASE("a cached load of 50 KB takes well under a millisecond") {
  Folder folder;
  Cache cache({folder.path()});
  const std::string ptx = random_bytes(50000, 7);
  auto once = [&] {
    const auto start = std::chrono::steady_clock::now();
    const std::string_view parts[] = {"13.0.88", "-O3", ptx};
    const Cache::Key key = Cache::key(parts);
    if (!cache.load(key)) cache.store(key, entry_of(1, 50000));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  once();
  double least = 1e9;
  for (int i = 0; i < 50; ++i) least = std::min(least, once());
  MESSAGE("least of 50: " << least << " ms");
  CHECK(cache.statistics().hits == 50);
  CHECK(least < 5);  // even an unoptimized build on a loaded machine meets this bound
}

}  // namespace ptxbuilder::test::cache_test
