// Remembers the body of a branch, a loop or a role that an object of the kernel belongs to. C++ runs such a
// body once, while the kernel is built; on the device it runs in some threads, never, or many times. So a
// value is not a variable: what is assigned in a body to a value from outside would hold for every thread and
// every round, and what is made in a body is not there after it. Both are errors here, and Var is the cure.
#pragma once

#include <cstdint>
#include <string_view>

namespace llvm {
class Value;
}

namespace ptxbuilder::detail {

// The number of the innermost body that is being emitted on this thread; outside of all, that of the kernel.
inline constinit thread_local uint32_t open_body = 0;

// The body in which an object was made, or to which it was copied. It is the first member of whatever holds
// values, so that an assignment is refused before it has changed anything. What C++ does with values on the
// host stays possible, in one body: sums in a host loop, std::swap, std::optional, vectors.
class Region {
 public:
  Region() noexcept : body_(open_body) {}
  // A copy belongs to the body that makes it, but one of an object whose body has ended is no better.
  Region(const Region& other) noexcept : body_(other.copied()) {}
  // A moved object, as in a vector that grows, stays where it belongs.
  Region(Region&& other) noexcept : body_(other.body()) { other.body_ |= kMoved; }
  // Throws Error in a body that has begun since the object was made. An object whose body has ended, or whose
  // kernel is another one, as in a container that outlives it, begins anew.
  Region& operator=(const Region& other) {
    if (body_ != open_body || other.body_ != open_body) assign(other);
    return *this;
  }
  // A container that replaces a value from outside in a body, as a vector does that takes another's memory,
  // destroys it there. The kernel cannot be finished then: a destructor throws nothing.
  ~Region() {
    if (body_ != open_body) destroy();
  }

  bool is_open() const noexcept {
    return body() == open_body || (body_ & kKernel) != 0 || is_being_emitted(body());
  }
  // Throws Error where the body has ended: the value has no meaning any more.
  void check_readable(const llvm::Value* handle) const {
    if (!is_open()) has_ended(handle);
  }
  // Does the same for a variable, which only the threads and rounds of the body have initialised.
  void check_variable() const {
    if (!is_open()) variable_has_ended();
  }

  // The number of what is outside of all bodies of a kernel has this bit.
  static constexpr uint32_t kKernel = uint32_t{1} << 31;

 private:
  static constexpr uint32_t kMoved = uint32_t{1} << 30;

  uint32_t body() const noexcept { return body_ & ~kMoved; }
  uint32_t copied() const noexcept { return is_open() ? open_body : body(); }
  static bool is_being_emitted(uint32_t body) noexcept;
  void assign(const Region& other);
  void destroy() const noexcept;
  [[noreturn]] static void has_ended(const llvm::Value* handle);
  [[noreturn]] static void variable_has_ended();

  uint32_t body_;
};

// Throws Error where a variable was moved from.
[[noreturn]] void variable_was_moved();

// Throws Error where some threads of a warpgroup are, or may be, left out of the innermost body: `operation`
// is for all 128 of them.
void check_whole_warpgroups(std::string_view operation);
// Does the same where some of the CTA's `threads` are left out.
void check_all_threads(std::string_view operation, int threads);
// Throws Error where more than one of the CTA's `threads` come for certain: `operation` is for one.
void check_one_thread(std::string_view operation, int threads,
                      std::string_view advice = "call it in elect()");
// Throws Error where lanes of a warp come into the innermost body without the others, or nobody does:
// `operation` elects one of 32, in a warp that comes as a whole.
void check_whole_warps(std::string_view operation);

}  // namespace ptxbuilder::detail
