// The bodies of branches, loops and roles that are being emitted on this thread, from innermost to outermost.
#pragma once

#include <utility>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/thread_set.h"

namespace ptxbuilder::detail {

// Begins and ends a body, such as "if_" at the line `where`. `threads` are the threads that enter under
// `conditions`, which are the conditions of a branch or the bounds of a loop.
class OpenBody {
 public:
  OpenBody(std::string_view construct, Where where, const ThreadSet& threads = ThreadSet::all(),
           std::vector<const llvm::Value*> conditions = {});
  ~OpenBody();
  OpenBody(const OpenBody&) = delete;

  static const OpenBody* innermost();
  const OpenBody* outer() const { return outer_; }
  uint32_t number() const { return number_; }
  // Returns the threads that may enter, which all enclosing bodies admit too.
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

// A condition in a loop that admits only whole warpgroups, as far as the code before it shows, and an
// operation that relies on this.
struct Judgement {
  const llvm::Value* condition;
  Where where;
  std::string otherwise;  // the error text if the condition does not
};

// Checks a loop's conditions when it ends: a later line may have set what they depend on. Throws Error.
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

// While this object lives, new values belong to no body of the kernel `number`; their code goes to its top.
class OutsideOfBodies {
 public:
  explicit OutsideOfBodies(uint32_t number) : body_(std::exchange(open_body, number)) {}
  ~OutsideOfBodies() { open_body = body_; }
  OutsideOfBodies(const OutsideOfBodies&) = delete;

 private:
  uint32_t body_;
};

uint32_t new_kernel_number();
// Continues in a kernel, in its innermost open body if there is one.
void enter(const OpenBody* innermost, uint32_t kernel);

// Returns the text of the error about a value that is used outside of its body. `made` is the line where the
// value was made, if known.
std::string used_outside(std::string_view kernel, Where made);

}  // namespace ptxbuilder::detail
