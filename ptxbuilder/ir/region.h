// Which body of a branch, a loop or a role an object of the kernel belongs to. C++ runs such a body once,
// while the kernel is built; on the device it runs in some threads, never, or many times. So a value is not a
// variable: what is assigned in a body to a value from outside would hold for every thread and every round,
// and what is made in a body is not there behind it. Both are errors here, and Var is the cure.
#pragma once

#include <cstdint>
#include <string_view>

namespace llvm {
class Value;
}

namespace ptxbuilder::detail {

// The number of the innermost body that is being emitted on this thread; 0 outside of all.
inline constinit thread_local uint32_t open_body = 0;

// The body in which an object was made, or to which it was copied. It is the first member of whatever holds
// values, so that an assignment is refused before it has changed anything. What C++ does with values on the
// host stays possible, in one body: sums in a host loop, std::swap, std::optional, vectors.
class Region {
 public:
  Region() noexcept : body_(open_body) {}
  // A copy belongs to the body that makes it, but one of an object whose body has ended is no better.
  Region(const Region& other) noexcept : body_(other.is_open() ? open_body : other.body_) {}
  // Throws Error in a body that has begun since the object was made. An object whose body has ended, as in a
  // container that outlives it, begins anew.
  Region& operator=(const Region& other) {
    if (body_ != open_body || other.body_ != open_body) assign(other);
    return *this;
  }

  bool is_open() const noexcept { return body_ == open_body || body_ == 0 || is_being_emitted(body_); }
  // Throws Error where the body has ended: the value has no meaning any more.
  void check_readable(const llvm::Value* handle) const {
    if (!is_open()) has_ended(handle);
  }
  // The same of a variable, which only the threads and rounds of the body have initialised.
  void check_variable() const {
    if (!is_open()) variable_has_ended();
  }

 private:
  static bool is_being_emitted(uint32_t body) noexcept;
  void assign(const Region& other);
  [[noreturn]] static void has_ended(const llvm::Value* handle);
  [[noreturn]] static void variable_has_ended();

  uint32_t body_;
};

// Throws Error where some threads of a warpgroup are seen to be left out of the innermost body: `operation`
// is for all 128 of them.
void check_whole_warpgroups(std::string_view operation);
// The same where some of the CTA's `threads` are left out.
void check_all_threads(std::string_view operation, int threads);
// Throws Error where more than one of the CTA's `threads` come for certain: `operation` is for one.
void check_one_thread(std::string_view operation, int threads);
// Throws Error where no thread is seen to come into the innermost body, with the reason, and the cure of
// electing a lane of whichever warps there are.
void check_some_thread(std::string_view reason);

}  // namespace ptxbuilder::detail
