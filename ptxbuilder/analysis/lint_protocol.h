// Finds the mbarriers that the instructions of a kernel reach (PTX ISA, "mbarrier").
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

// An instruction does this with an mbarrier.
struct Use {
  int operation = kNone;
  bool inits = false, arrives = false, expects = false, copies = false, waits = false, invalidates = false;
  bool is_remote = false;  // in the cluster, by mapa or multicast
  Sum address = {};

  bool works() const { return arrives || expects || copies || waits; }
};

// The values that a sum may have, as rings and masks bound them; nothing where they do not.
std::optional<std::set<int64_t>> options(const LintKernel& kernel, ThreadValues& in, const Sum& sum);

// Sums that depend on one value that a thread does not know, such as the stage of a ring.
class Dependent {
 public:
  Dependent(const LintKernel& kernel, ThreadValues& in) : kernel_(kernel), in_(in) {}

  // The atom that decides a sum; nothing where that is none, or several.
  std::optional<int> root(const Sum& sum);
  // The sum where its root has a value.
  std::optional<int64_t> value(const Sum& sum, int root, int64_t of_root, int depth = 16);

 private:
  std::optional<int64_t> atom(int number, int root, int64_t of_root, int depth);

  const LintKernel& kernel_;
  ThreadValues& in_;
};

// The values that two sums have together, where both are known or depend on one value; nothing where they do
// not. Those of `a` are from `moves` steps before, of what goes around a ring or counts in a loop.
using Pairs = std::vector<std::pair<int64_t, int64_t>>;
std::optional<Pairs> together(const LintKernel& kernel, ThreadValues& in, const Sum& a, const Sum& b,
                              int moves = 0);
// The number of stages that the ring `y` is ahead of the ring `x` when their loop begins, whichever stage one
// of them begins with; nothing where that is not known, or they are not of one loop.
std::optional<int64_t> lead(const LintKernel& kernel, ThreadValues& in, const Atom& x, const Atom& y);

using Cells = std::set<int64_t>;  // barriers, by their bytes after the start of shared memory

class Protocol {
 public:
  explicit Protocol(LintKernel& kernel);

  // By one thread, or by all of a class; nothing where one is not known.
  std::optional<Cells> cells_of_thread(const Use& use, int64_t thread);
  std::optional<Cells> cells_of(const Use& use, const ThreadClass& c);

  // This is how many threads reach a barrier by a use, all of them whenever one does; nothing where that is
  // not known.
  std::optional<int64_t> threads_at(const Use& use, int64_t cell);

  bool any(int64_t cell, bool Use::*does) const { return !operations(cell, does).empty(); }
  std::set<int> operations(int64_t cell, bool Use::*does) const;
  // The classes that reach a barrier by each use.
  bool reaches(size_t use, const ThreadClass& c, int64_t cell) const;

  std::vector<Use> uses;
  std::vector<Cells> cells;  // of each use; none where they are not known
  std::map<int64_t, std::vector<size_t>> by_cell;
  bool is_complete = true;  // whether all barriers are known
  // This says the same, and tells a rule's report of those that are not.
  bool is_complete_for(Report& report) const;

 private:
  LintKernel& kernel_;
  std::vector<std::vector<Cells>> by_class_;  // of each use, by class
};

// The innermost loop around an instruction that does more than to wait; kNone where there is none.
int working_loop(const LintKernel& kernel, int i);
// The atoms of a sum that change in a loop: those that are made where paths meet in it, and what is read
// there.
std::set<int> changing(const LintKernel& kernel, const Sum& sum, const Loop& loop);

// "the mbarrier at shared memory + 64"
std::string place(const LintKernel& kernel, int64_t cell);

}  // namespace ptxbuilder::analysis
