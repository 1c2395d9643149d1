// The bodies of branches, loops and roles that are being emitted on this thread, from the innermost outwards.
#pragma once

#include <utility>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/thread_set.h"

namespace ptxbuilder::detail {

// Begins a body, as "if_" of the line `where`, and ends it. `threads` are those that its condition lets in.
class OpenBody {
 public:
  OpenBody(std::string_view construct, Where where, const ThreadSet& threads = ThreadSet::all());
  ~OpenBody();
  OpenBody(const OpenBody&) = delete;

  static const OpenBody* innermost();
  const OpenBody* outer() const { return outer_; }
  uint32_t number() const { return number_; }
  // Of those outside, too.
  const ThreadSet& threads() const { return threads_; }
  std::string describe() const;  // "elect at gemm.cpp:41"

 private:
  Builder::State& kernel_;
  std::string_view construct_;
  Where where_;
  const OpenBody* outer_;
  uint32_t number_;
  ThreadSet threads_;
};

// What is made meanwhile belongs to no body of the kernel `number`: it is emitted at its top.
class OutsideOfBodies {
 public:
  explicit OutsideOfBodies(uint32_t number) : body_(std::exchange(open_body, number)) {}
  ~OutsideOfBodies() { open_body = body_; }
  OutsideOfBodies(const OutsideOfBodies&) = delete;

 private:
  uint32_t body_;
};

uint32_t new_kernel_number();
// Goes on in a kernel, where its innermost body is open, if one is.
void enter(const OpenBody* innermost, uint32_t kernel);

// What is said of a value that is used outside of its body: `made` is its line, if one is known.
std::string used_outside(std::string_view kernel, Where made);

}  // namespace ptxbuilder::detail
