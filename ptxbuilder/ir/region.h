// Records the body of a branch, loop or role to which an object of the kernel belongs. On the host, a body
// runs once, while the kernel is built. On the device, it may run in only some threads, never, or many times.
// A value is therefore not a variable. Assigning to an outer value in a body would change the value for every
// thread and every iteration, and a value made in a body does not exist after the body. The library reports
// both as errors; use a Var instead.
#pragma once

#include <cstdint>
#include <string_view>

namespace llvm {
class Value;
}

namespace ptxbuilder::detail {

// The number of the innermost body that is being emitted on this thread or, outside all bodies, the kernel's
// number.
inline constinit thread_local uint32_t open_body = 0;

// Stores the body in which an object was made, or to which it was copied. A Region is the first member of
// every class that holds values, so that an invalid assignment is rejected before any other member is
// changed. Within one body, C++ can use values like ordinary objects: sums in a host loop, std::swap,
// std::optional, vectors.
class Region {
 public:
  Region() noexcept : body_(open_body) {}
  // A copy belongs to the body in which it is made, except that a copy of an object whose body has ended
  // remains invalid.
  Region(const Region& other) noexcept : body_(other.copied()) {}
  // A moved object, such as an element of a vector that grows, stays in its body.
  Region(Region&& other) noexcept : body_(other.body()) { other.body_ |= kMoved; }
  // Throws Error if the current body began after the assigned object was made. If that object's body has
  // ended, or the object belongs to another kernel (for example in a container that outlives its kernel), it
  // becomes an object of the current body.
  Region& operator=(const Region& other) {
    if (body_ != open_body || other.body_ != open_body) assign(other);
    return *this;
  }
  // An outer value may be destroyed inside a body, for example if another vector is moved to the vector that
  // contains the value. This is an error. Because the destructor cannot throw, it makes a later call to
  // finish() fail.
  ~Region() {
    if (body_ != open_body) destroy();
  }

  bool is_open() const noexcept {
    return body() == open_body || (body_ & kKernel) != 0 || is_being_emitted(body());
  }
  // Throws Error if the body has ended, because the value is then meaningless.
  void check_readable(const llvm::Value* handle) const {
    if (!is_open()) has_ended(handle);
  }
  // Throws Error if a variable's body has ended, because only the threads and iterations of that body have
  // initialized the variable.
  void check_variable() const {
    if (!is_open()) variable_has_ended();
  }

  // A bit that is set in the number of a kernel, and clear in the number of a body.
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

// Throws Error if a variable was moved from.
[[noreturn]] void variable_was_moved();

// Throws Error if only some threads of a warpgroup may enter the innermost body, because `operation` needs
// all 128 threads.
void check_whole_warpgroups(std::string_view operation);
// Throws Error if some of the CTA's `threads` threads do not enter the innermost body.
void check_all_threads(std::string_view operation, int threads);
// Throws Error if more than one of the CTA's `threads` threads certainly enters the innermost body, because
// `operation` is meant for one thread.
void check_one_thread(std::string_view operation, int threads,
                      std::string_view advice = "call it in elect()");
// Throws Error if only some lanes of a warp enter the innermost body, or if no thread enters. `operation`
// elects one lane of each warp, and needs all 32 lanes.
void check_whole_warps(std::string_view operation);

}  // namespace ptxbuilder::detail
