// Tracks the bodies of branches, loops and roles that are being emitted on this thread, from innermost to
// outermost.
#pragma once

#include <utility>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/thread_set.h"

namespace ptxbuilder::detail {

// Begins the body of a construct, such as "if_", at the line `where`. The destructor ends the body. `threads`
// are the threads that enter under `conditions`: the conditions of a branch, or the bounds of a loop.
class OpenBody {
 public:
  OpenBody(std::string_view construct, Where where, const ThreadSet& threads = ThreadSet::all(),
           std::vector<const llvm::Value*> conditions = {});
  ~OpenBody();
  OpenBody(const OpenBody&) = delete;

  static const OpenBody* innermost();
  const OpenBody* outer() const { return outer_; }
  uint32_t number() const { return number_; }
  // Returns the threads that may enter, limited to those that enter all enclosing bodies.
  const ThreadSet& threads() const { return threads_; }
  const std::vector<const llvm::Value*>& conditions() const { return conditions_; }
  std::string describe() const;  // returns a string such as "elect at gemm.cpp:41"
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

// A condition in a loop that was found to admit only complete warpgroups, based on the code before it. An
// operation relies on this finding.
struct Judgement {
  const llvm::Value* condition;
  Where where;
  std::string otherwise;  // error message to use if the condition turns out to divide a warpgroup
};

// Checks a loop's conditions again when the loop ends, because a later line may have changed the variables on
// which the conditions depend. Throws Error if a condition fails this check.
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

// While this object exists, new values belong to kernel `number` instead of one of its bodies, because their
// code is emitted at the top of the kernel.
class OutsideOfBodies {
 public:
  explicit OutsideOfBodies(uint32_t number) : body_(std::exchange(open_body, number)) {}
  ~OutsideOfBodies() { open_body = body_; }
  OutsideOfBodies(const OutsideOfBodies&) = delete;

 private:
  uint32_t body_;
};

uint32_t new_kernel_number();
// Makes new values belong to the given body of a kernel or, if `innermost` is null, to the kernel itself.
void enter(const OpenBody* innermost, uint32_t kernel);

// Returns the error message for a value that is used outside its body. `made` is the line where the value was
// made, if known.
std::string used_outside(std::string_view kernel, Where made);

}  // namespace ptxbuilder::detail
