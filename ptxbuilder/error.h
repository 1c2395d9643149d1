// The one exception of the library, and the source location that every public call takes.
#pragma once

#include <stdexcept>
#include <string>

namespace ptxbuilder {

// A line of the kernel author's C++. Every public call takes one as its last, defaulted argument, so that
// errors,
// `.loc` lines and ptxas messages can name the line that made an instruction.
// (The compiler builtins serve g++ 12 and clang alike, and work as default arguments of constructors.)
struct Where {
  const char* file = "";
  unsigned line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  explicit operator bool() const { return line != 0; }
};

// The file name without its folders, as errors print it: "gemm.cpp:41".
std::string to_string(Where where);

// Thrown by everything in this project. what() is one paragraph: the operation, the rule it breaks, the
// values, and the caller's line where one is known: "tma_load: box inner extent 192 B exceeds swizzle 128 B
// (gemm.cpp:41)".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error(Where{}, message) {}
  Error(Where where, const std::string& message);

  Where where() const { return where_; }

 private:
  Where where_;
};

}  // namespace ptxbuilder
