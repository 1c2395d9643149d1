// The bodies of branches, loops and roles that are being emitted on this thread, from the innermost outwards.
#pragma once

#include <utility>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/thread_set.h"

namespace ptxbuilder::detail {

// Begins a body, as "if_" of the line `where`, and ends it. `threads` are those that `conditions` let in,
// which are those of a branch or the bounds of a loop.
class OpenBody {
 public:
  OpenBody(std::string_view construct, Where where, const ThreadSet& threads = ThreadSet::all(),
           std::vector<const llvm::Value*> conditions = {});
  ~OpenBody();
  OpenBody(const OpenBody&) = delete;

  static const OpenBody* innermost();
  const OpenBody* outer() const { return outer_; }
  uint32_t number() const { return number_; }
  // Returns the threads that may come in, which those outside have let in too.
  const ThreadSet& threads() const { return threads_; }
  const std::vector<const llvm::Value*>& conditions() const { return conditions_; }
  std::string describe() const;  // "elect at gemm.cpp:41"
  bool is_branch() const { return construct_ == "if_"; }

 private:
  Builder::State& kernel_;
  std::string_view construct_;
  Where where_;
  const OpenBody* outer_;
  uint32_t number_;
  ThreadSet threads_;
  std::vector<const llvm::Value*> conditions_;
};

// A condition in a loop that lets in whole warpgroups, by what comes before it, and an operation that counts
// on that.
struct Judgement {
  const llvm::Value* condition;
  Where where;
  std::string otherwise;  // what is said if it does not
};

// Judges those of a loop that ends again: a later line of it may have set what they depend on. Throws Error.
class LoopJudgements {
 public:
  explicit LoopJudgements(Builder::State& kernel);
  ~LoopJudgements();
  LoopJudgements(const LoopJudgements&) = delete;
  void end() const;

 private:
  Builder::State& kernel_;
  size_t first_;
};

// As long as this lives, what is made belongs to no body of the kernel `number`: it is emitted at its top.
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

// Returns the text of the error about a value that is used outside of its body. `made` is its line, if one
// is known.
std::string used_outside(std::string_view kernel, Where made);

}  // namespace ptxbuilder::detail
