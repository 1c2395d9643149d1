#include "ptxbuilder/compile/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "ptxbuilder/error.h"

extern char** environ;

namespace ptxbuilder {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail_step(const std::string& program, const char* step) {
  throw Error(fmt::format("{}: {} failed: {}", program, step, std::strerror(errno)));
}

class Descriptor {
 public:
  // Takes ownership of `fd`. If this process's standard streams are closed, `fd` may be 0, 1 or 2, and other
  // threads would write their output to it. Such a descriptor is therefore replaced.
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd < 0 || fd > 2) return;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    ::close(fd);
  }
  Descriptor(Descriptor&& other) : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int number() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// Returns a file in memory. Unlike a pipe, such a file does not have to be drained, so neither process can
// block the other.
Descriptor memory_file(const std::string& program) {
  Descriptor file(memfd_create("ptxbuilder", MFD_CLOEXEC));
  if (file.number() < 0) fail_step(program, "memfd_create");
  return file;
}

void write_all(const std::string& program, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_step(program, "writing its input");
    bytes.remove_prefix(n);
  }
}

std::string read_all(const std::string& program, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) fail_step(program, "fstat of its output");
  std::string bytes(status.st_size, '\0');
  for (size_t at = 0; at < bytes.size();) {
    ssize_t n = pread(fd, bytes.data() + at, bytes.size() - at, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_step(program, "reading its output");
    at += n;
  }
  return bytes;
}

// A started program. The destructor kills and reaps the program if it is still running.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, int input, int output, int messages)
      : program_(arguments.front()) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int streams[] = {input, output, messages};
    for (int i = 0; i < 3; ++i) posix_spawn_file_actions_adddup2(&actions, streams[i], i);
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = error;
    if (error != 0) fail_step(program_, "starting it");
    pid_ = pid;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Returns whether the program has ended. If so, sets `exit_status`.
  bool ended(int& exit_status) {
    int status;
    pid_t pid = waitpid(pid_, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) return false;
    pid_ = -1;
    if (pid < 0) {
      throw Error(program_ +
                  ": its exit status was lost, because the calling program ignores SIGCHLD or waits for "
                  "children that are not its own");
    }
    exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }

 private:
  std::string program_;
  pid_t pid_ = -1;
};

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, std::string_view input,
                          std::chrono::milliseconds time_limit) {
  const std::string& program = arguments.front();
  const auto deadline = Clock::now() + time_limit;
  auto milliseconds_left = [&] {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      throw Error(fmt::format("{}: it was killed because it had not finished after {} ms", program,
                              time_limit.count()));
    return static_cast<int>(std::min<long>(left, 1 << 30));
  };

  Descriptor in = memory_file(program), out = memory_file(program);
  write_all(program, in.number(), input);
  lseek(in.number(), 0, SEEK_SET);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_step(program, "pipe2");
  Descriptor messages(ends[0]), child_messages(ends[1]);

  ProcessResult result;
  Child child(arguments, in.number(), out.number(), child_messages.number());
  child_messages.close();  // closed so that reading the messages ends when the program ends
  for (char buffer[4096];;) {
    pollfd waiting = {messages.number(), POLLIN, 0};
    if (poll(&waiting, 1, milliseconds_left()) <= 0) continue;  // interrupted, or out of time
    ssize_t n = read(messages.number(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_step(program, "reading its messages");
    if (n == 0) break;
    result.messages.append(buffer, n);
  }
  while (!child.ended(result.exit_status)) {  // the program ends microseconds after it closes the pipe
    milliseconds_left();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  result.output = read_all(program, out.number());
  return result;
}

}  // namespace ptxbuilder
