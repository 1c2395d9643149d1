// Remembers the body of a branch, a loop or a role that an object of the kernel belongs to. C++ runs such a
// body once, while the kernel is built; on the device it runs in some threads, never, or many times. So a
// value is not a variable: a value from outside that is assigned in a body would change for every thread and
// every iteration, and a value that is made in a body does not exist after it. Both are errors here; use Var.
#pragma once

#include <cstdint>
#include <string_view>

namespace llvm {
class Value;
}

namespace ptxbuilder::detail {

// The number of the innermost body that is being emitted on this thread; outside of all bodies, the kernel's.
inline constinit thread_local uint32_t open_body = 0;

// The body in which an object was made, or to which it was copied. It is the first member of every class that
// holds values, so that an assignment is refused before it has changed anything. Within one body, C++ can
// still use values like ordinary objects: sums in a host loop, std::swap, std::optional, vectors.
class Region {
 public:
  Region() noexcept : body_(open_body) {}
  // A copy belongs to the body that makes it, but a copy of an object whose body has ended stays invalid.
  Region(const Region& other) noexcept : body_(other.copied()) {}
  // A moved object, such as an element of a vector that grows, stays in its body.
  Region(Region&& other) noexcept : body_(other.body()) { other.body_ |= kMoved; }
  // Throws Error in a body that has begun since the object was made. An object whose body has ended, or whose
  // kernel is another one, for example in a container that outlives its kernel, becomes an object of the
  // current body.
  Region& operator=(const Region& other) {
    if (body_ != open_body || other.body_ != open_body) assign(other);
    return *this;
  }
  // A container that replaces a value from outside in a body destroys the value there, for example a vector
  // to which another vector is moved. The kernel then cannot be finished, since a destructor cannot throw.
  ~Region() {
    if (body_ != open_body) destroy();
  }

  bool is_open() const noexcept {
    return body() == open_body || (body_ & kKernel) != 0 || is_being_emitted(body());
  }
  // Throws Error if the body has ended: the value is then meaningless.
  void check_readable(const llvm::Value* handle) const {
    if (!is_open()) has_ended(handle);
  }
  // Does the same for a variable, which only the threads and iterations of the body have initialised.
  void check_variable() const {
    if (!is_open()) variable_has_ended();
  }

  // This bit is set in the number that represents the code outside of all bodies of a kernel.
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

// Throws Error if some threads of a warpgroup do not, or might not, enter the innermost body: `operation`
// needs all 128 threads.
void check_whole_warpgroups(std::string_view operation);
// Does the same if some of the CTA's `threads` do not enter.
void check_all_threads(std::string_view operation, int threads);
// Throws Error if more than one of the CTA's `threads` certainly enters: `operation` is for one thread.
void check_one_thread(std::string_view operation, int threads,
                      std::string_view advice = "call it in elect()");
// Throws Error if lanes of a warp enter the innermost body without the others, or if no thread enters:
// `operation` elects one of 32 lanes, in a warp that enters as a whole.
void check_whole_warps(std::string_view operation);

}  // namespace ptxbuilder::detail
