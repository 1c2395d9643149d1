#include "kernels/bench/peers/peer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/measure/contender.h"

extern char** environ;

namespace ptxbuilder::bench {
namespace {

constexpr off_t kLastWords = 600;  // number of bytes at the end of standard error that a message quotes
constexpr size_t kLongestLine = size_t{1} << 16;
constexpr auto kTimeToEnd = std::chrono::milliseconds(500);

int memory_file(const char* name) {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) throw Error(fmt::format("memfd_create: {}", std::strerror(errno)));
  return descriptor;
}

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  return fmt::format("signal {}, {}", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

SharedFile::SharedFile() : descriptor_(memory_file("matrices")) {}

SharedFile::~SharedFile() {
  unmap();
  close(descriptor_);
}

void SharedFile::unmap() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

void SharedFile::resize(size_t bytes) {
  unmap();
  // Truncates the file to 0 bytes first, so that its old pages are freed.
  if (ftruncate(descriptor_, 0) != 0 || ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    throw Error(fmt::format("{} B of memory for a peer's matrices: {}", bytes, std::strerror(errno)));
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED)
    throw Error(fmt::format("{} B of memory for a peer's matrices: {}", bytes, std::strerror(errno)));
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

PeerProcess::PeerProcess(std::string command, const SharedFile& file) : command_(std::move(command)) {
  // The channel is a pair of sockets instead of pipes, because writing to a pipe without a reader would end
  // the benchmark with a signal.
  int ends[2] = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(fmt::format("socketpair: {}", std::strerror(errno)));
  lines_ = ends[0];
  errors_ = memory_file("standard error");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Duplicates the descriptors to numbers of 10 and above first, so that assigning their final numbers
  // overwrites none of them.
  const int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10), errors = fcntl(errors_, F_DUPFD_CLOEXEC, 10),
            matrices = fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_adddup2(&actions, theirs, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs, 1);
  posix_spawn_file_actions_adddup2(&actions, errors, 2);
  posix_spawn_file_actions_adddup2(&actions, matrices, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // the peer gets a separate process group,
                                                                 // so that all processes in it can be ended
  const char* words[] = {"/bin/sh", "-c", command_.c_str(), nullptr};
  const int status =
      posix_spawn(&child_, words[0], &actions, &attributes, const_cast<char* const*>(words), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  for (int descriptor : {ends[1], theirs, errors, matrices}) close(descriptor);
  if (status == 0) return;
  child_ = -1;
  close(lines_);
  close(errors_);
  throw Error(fmt::format("'{}' cannot be started: {}", command_, std::strerror(status)));
}

PeerProcess::~PeerProcess() {
  end();
  close(lines_);
  close(errors_);
}

// Closes the peer's input, which makes the peer exit. Processes of its group that are still running after
// that are killed.
std::string PeerProcess::end() {
  if (child_ <= 0) return "it has ended";
  shutdown(lines_, SHUT_RDWR);
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + kTimeToEnd;
  pid_t ended = waitpid(child_, &status, WNOHANG);
  while (ended == 0 && !hangs_ && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended = waitpid(child_, &status, WNOHANG);
  }
  kill(-child_, SIGKILL);
  if (ended == 0) waitpid(child_, &status, 0);
  child_ = -1;
  return describe(status);
}

std::string PeerProcess::last_words() const {
  const off_t size = lseek(errors_, 0, SEEK_END), from = std::max<off_t>(0, size - kLastWords);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = pread(errors_, text.data(), text.size(), from);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "it wrote nothing to its standard error" : "its last words: " + text;
}

void PeerProcess::fail(const std::string& what) {
  end();
  throw ContenderError(fmt::format("the peer '{}' {}; {}", command_, what, last_words()));
}

void PeerProcess::send(const std::string& line) {
  if (!runs()) fail("has ended");
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(lines_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the process has ended, which receive() will report
    sent += static_cast<size_t>(n);
  }
}

std::string PeerProcess::receive(std::chrono::duration<double> limit) {
  if (!runs()) fail("has ended");
  const auto end_of_time = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (const size_t at = read_.find('\n'); at != std::string::npos) {
      std::string line = read_.substr(0, at);
      read_.erase(0, at + 1);
      return line;
    }
    if (read_.size() > kLongestLine) fail("answers with a line that does not end");
    const std::chrono::duration<double, std::milli> left = end_of_time - std::chrono::steady_clock::now();
    pollfd waiting = {.fd = lines_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::ceil(std::max(0.0, left.count()))));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      hangs_ = true;
      fail(fmt::format("has not answered within {:g} s", limit.count()));
    }
    char buffer[4096];
    const ssize_t n = ::recv(lines_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string how = end();
      fail("has ended: " + how);
    }
    read_.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace ptxbuilder::bench
