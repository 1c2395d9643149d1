// Records to which body of a branch, loop or role an object of the kernel belongs. C++ runs such a body once,
// while the kernel is built; on the device it runs in some threads, never, or many times. A value is
// therefore not a variable: assigning to an outer value in a body would change it for every thread and every
// iteration, and a value that is made in a body does not exist after it. Both are errors here; use Var
// instead.
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

// The body in which an object was made, or to which it was copied. It is the first member of every class that
// holds values, so an assignment is rejected before it has changed anything. Within one body, C++ can use
// values like ordinary objects: sums in a host loop, std::swap, std::optional, vectors.
class Region {
 public:
  Region() noexcept : body_(open_body) {}
  // A copy belongs to the body that makes it, except that a copy of an object whose body has ended remains
  // invalid.
  Region(const Region& other) noexcept : body_(other.copied()) {}
  // A moved object, such as an element of a vector that grows, stays in its body.
  Region(Region&& other) noexcept : body_(other.body()) { other.body_ |= kMoved; }
  // Throws Error in a body that has begun since the object was made. An object whose body has ended, or which
  // belongs to another kernel (for example in a container that outlives its kernel), becomes an object of the
  // current body.
  Region& operator=(const Region& other) {
    if (body_ != open_body || other.body_ != open_body) assign(other);
    return *this;
  }
  // When a container replaces an outer value inside a body, it destroys the value there; an example is a
  // vector to which another vector is moved. The kernel then cannot be finished, since a destructor cannot
  // throw.
  ~Region() {
    if (body_ != open_body) destroy();
  }

  bool is_open() const noexcept {
    return body() == open_body || (body_ & kKernel) != 0 || is_being_emitted(body());
  }
  // Throws Error if the body has ended, since the value is then meaningless.
  void check_readable(const llvm::Value* handle) const {
    if (!is_open()) has_ended(handle);
  }
  // Does the same for a variable, which only the threads and iterations of its body have initialised.
  void check_variable() const {
    if (!is_open()) variable_has_ended();
  }

  // This bit is set in the number for the code outside all bodies of a kernel.
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

// Throws Error if some threads of a warpgroup do not, or may not, enter the innermost body, since `operation`
// needs all 128 threads.
void check_whole_warpgroups(std::string_view operation);
// Does the same if some of the CTA's `threads` threads do not enter.
void check_all_threads(std::string_view operation, int threads);
// Throws Error if more than one of the CTA's `threads` threads is certain to enter, since `operation` is for
// one thread.
void check_one_thread(std::string_view operation, int threads,
                      std::string_view advice = "call it in elect()");
// Throws Error if lanes of a warp enter the innermost body without the others, or if no thread enters, since
// `operation` elects one of the 32 lanes of a warp that enters as a whole.
void check_whole_warps(std::string_view operation);

}  // namespace ptxbuilder::detail
