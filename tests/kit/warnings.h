// Collects the output on standard error during its lifetime.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace ptxbuilder::test {

class Warnings {
 public:
  Warnings() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~Warnings() {
    std::fflush(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  // Returns the lines that have been collected.
  std::vector<std::string> lines() const {
    std::fflush(stderr);
    std::string text(static_cast<size_t>(::lseek(::fileno(file_), 0, SEEK_END)), '\0');
    const ssize_t size = ::pread(::fileno(file_), text.data(), text.size(), 0);
    std::vector<std::string> all;
    for (size_t at = 0; at < static_cast<size_t>(size);) {
      const size_t end = std::min(text.find('\n', at), text.size());
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  }

 private:
  std::FILE* file_;
  int before_;
};

}  // namespace ptxbuilder::test
