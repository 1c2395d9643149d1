// The bodies of branches, loops and roles that are being emitted on this thread, from the innermost outwards.
#pragma once

#include <utility>

#include "ptxbuilder/error.h"
#include "ptxbuilder/ir/region.h"
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
  std::string_view construct_;
  Where where_;
  const OpenBody* outer_;
  uint32_t number_;
  ThreadSet threads_;
};

// What is made meanwhile belongs to no body: it is emitted at the top of the kernel.
class OutsideOfBodies {
 public:
  OutsideOfBodies() : number_(std::exchange(open_body, 0)) {}
  ~OutsideOfBodies() { open_body = number_; }
  OutsideOfBodies(const OutsideOfBodies&) = delete;

 private:
  uint32_t number_;
};

// What is said of a value that is used outside of its body: `made` is its line, if one is known.
std::string used_outside(std::string_view kernel, Where made);

}  // namespace ptxbuilder::detail
