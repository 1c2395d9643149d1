// Defines the library's only exception class, and the source location that every public function takes.
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

// A line in the kernel author's C++ source. Every public function takes a Where as its last, defaulted
// parameter, so that errors, `.loc` lines and ptxas messages can name the line that emitted an instruction.
// The public function opens the line by constructing a CallersLine or an AtLine (ir/builder.h). While the
// line is open, here() and Error use this line wherever they are called, so the library's internal functions
// need no parameter for the line. (The compiler builtins work in both g++ 12 and clang, and as default
// arguments of constructors.)
struct Where {
  const char* file = "";
  unsigned line = 0;

  // Returns the open line or, if no line is open, the line of the caller.
  static Where here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE());
  explicit operator bool() const { return line != 0; }
};

namespace callers {

// The line that is open on this thread. The line number is 0 if no line is open.
inline constinit thread_local Where open_line = {};

}  // namespace callers

inline Where Where::here(const char* file, unsigned line) {
  return callers::open_line ? callers::open_line : Where{file, line};
}

// Opens the line of a public call while this object exists. If a line is already open, the library itself is
// making this call on behalf of an earlier public call, and the earlier call's line stays open.
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

// Closes the open line while this object exists. The library creates such an object while the author's
// callback runs, so that each call in the callback opens its own line.
class AuthorsCode {
 public:
  AuthorsCode() : library_(std::exchange(callers::open_line, {})) {}
  ~AuthorsCode() { callers::open_line = library_; }
  AuthorsCode(const AuthorsCode&) = delete;
  AuthorsCode& operator=(const AuthorsCode&) = delete;

 private:
  Where library_;
};

// Returns the location in the form that errors use, without folders, such as "gemm.cpp:41".
std::string to_string(Where where);

// The exception that all functions in this project throw. what() returns one paragraph with the operation,
// the broken rule, the values and, if known, the caller's line. An example is "tma_load: box inner extent 192
// B exceeds swizzle 128 B (gemm.cpp:41)".
class Error : public std::runtime_error {
 public:
  // Indicates who can correct the error. Each kind has a corresponding status in the C interface and a
  // corresponding exception in Python.
  enum class Kind : uint8_t {
    refused,        // an argument breaks a rule; the caller can correct it
    unavailable,    // the call is valid, but not possible here and now, such as tuning without a GPU
    out_of_memory,  // the device has too little free memory
    device,         // the driver, the GPU or a kernel on the GPU failed
    compile,        // LLVM, ptxas or the driver's compiler rejected the kernel
  };

  explicit Error(const std::string& message, Kind kind = Kind::refused)
      : Error(callers::open_line, message, kind) {}
  Error(Where where, const std::string& message, Kind kind = Kind::refused);

  Where where() const { return where_; }
  Kind kind() const { return kind_; }
  void become(Kind kind) { kind_ = kind; }  // for callers that can determine the kind more precisely

 private:
  Where where_;
  Kind kind_;
};

// Runs code that compiles a kernel, and changes the kind of its errors to `compile`.
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
