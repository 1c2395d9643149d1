// Defines the only exception class of the library, and the source location that every public call takes.
#pragma once

#if __cplusplus < 202002L
#error "ptxbuilder needs C++20: compile with -std=c++20"
#include <-std=c++20>  // not a file: compilers continue after an #error, whose message is then easily missed
#endif

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace ptxbuilder {

// A line in the kernel author's C++ source. Every public call takes one as its last, defaulted argument, so
// that errors, `.loc` lines and ptxas messages can name the line that made an instruction. The public call
// opens the line with a CallersLine or an AtLine (ir/builder.h). While the line is open, here() and Error use
// it wherever they are called, so the library's internal functions do not take a line. (The compiler builtins
// work in both g++ 12 and clang, and as default arguments of constructors.)
struct Where {
  const char* file = "";
  unsigned line = 0;

  // Returns the line of the caller or, if a public call is open, the line of that call.
  static Where here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE());
  explicit operator bool() const { return line != 0; }
};

namespace callers {

// The line that is open on this thread; its number is 0 if none is open.
inline constinit thread_local Where open_line = {};

}  // namespace callers

inline Where Where::here(const char* file, unsigned line) {
  return callers::open_line ? callers::open_line : Where{file, line};
}

// Opens the line of a public call while this object exists. If a line is already open, the library is making
// this call on behalf of an earlier public call, and the line of that call stays open.
class CallersLine {
 public:
  explicit CallersLine(Where where) : opens_(where && !callers::open_line) {
    if (opens_) callers::open_line = where;
  }
  ~CallersLine() {
    if (opens_) callers::open_line = {};
  }
  CallersLine(const CallersLine&) = delete;
  CallersLine& operator=(const CallersLine&) = delete;

  bool opens() const { return opens_; }

 private:
  bool opens_;
};

// Closes the line while a callback of the author runs, since the calls in it have lines of their own.
class AuthorsCode {
 public:
  AuthorsCode() : library_(std::exchange(callers::open_line, {})) {}
  ~AuthorsCode() { callers::open_line = library_; }
  AuthorsCode(const AuthorsCode&) = delete;
  AuthorsCode& operator=(const AuthorsCode&) = delete;

 private:
  Where library_;
};

// Returns the location as errors print it, without folders: "gemm.cpp:41".
std::string to_string(Where where);

// Everything in this project throws this class. what() is one paragraph: the operation, the rule that was
// broken, the values, and the caller's line if it is known: "tma_load: box inner extent 192 B exceeds swizzle
// 128 B (gemm.cpp:41)".
class Error : public std::runtime_error {
 public:
  // Shows who can correct the error. The C interface has a status, and Python an exception, for each kind.
  enum class Kind : uint8_t {
    refused,        // an argument breaks a rule; the caller can correct it
    unavailable,    // the call is valid, but not possible here and now, such as tuning without a GPU
    out_of_memory,  // the device has too little free memory
    device,         // the driver or the GPU failed, or a kernel on it
    compile,        // LLVM, ptxas or the driver's compiler rejected the kernel
  };

  explicit Error(const std::string& message, Kind kind = Kind::refused)
      : Error(callers::open_line, message, kind) {}
  Error(Where where, const std::string& message, Kind kind = Kind::refused);

  Where where() const { return where_; }
  Kind kind() const { return kind_; }
  void become(Kind kind) { kind_ = kind; }  // for a caller that knows the kind better

 private:
  Where where_;
  Kind kind_;
};

// Runs code that compiles a kernel, and gives its errors the kind `compile`.
template <class Compile>
auto compiling(Compile&& compile) {
  try {
    return compile();
  } catch (Error& e) {
    e.become(Error::Kind::compile);
    throw;
  }
}

}  // namespace ptxbuilder
