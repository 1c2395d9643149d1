// Finds the mbarriers that the instructions of a kernel access (PTX ISA, "mbarrier").
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

// An instruction's use of an mbarrier.
struct Use {
  int operation = kNone;
  bool inits = false, arrives = false, expects = false, copies = false, waits = false, invalidates = false;
  bool is_remote = false;  // through mapa or multicast, in the cluster
  Sum address = {};

  bool works() const { return arrives || expects || copies || waits; }
};

// Returns the values that a sum may have, as bounded by rings and masks, or nothing if it is not bounded.
std::optional<std::set<int64_t>> options(const LintKernel& kernel, ThreadValues& in, const Sum& sum);

// Evaluates sums that depend on a single value that is unknown in a thread, such as the stage of a ring.
class Dependent {
 public:
  Dependent(const LintKernel& kernel, ThreadValues& in) : kernel_(kernel), in_(in) {}

  // Returns the only atom that decides a sum, or nothing if no atom or several atoms do.
  std::optional<int> root(const Sum& sum);
  // Returns the sum for a given value of its root.
  std::optional<int64_t> value(const Sum& sum, int root, int64_t of_root, int depth = 16);

 private:
  std::optional<int64_t> atom(int number, int root, int64_t of_root, int depth);

  const LintKernel& kernel_;
  ThreadValues& in_;
};

// The pairs of values that two sums take. together() returns them if both sums are known or depend on one
// value, or else nothing. The values of `a` are those of `moves` steps earlier, if they go around a ring or
// count in a loop.
using Pairs = std::vector<std::pair<int64_t, int64_t>>;
std::optional<Pairs> together(const LintKernel& kernel, ThreadValues& in, const Sum& a, const Sum& b,
                              int moves = 0);
// Returns the number of stages by which the ring `y` is ahead of the ring `x` when their loop begins, for any
// stage with which one of them starts. Returns nothing if the number is not known, or if the rings are not in
// the same loop.
std::optional<int64_t> lead(const LintKernel& kernel, ThreadValues& in, const Atom& x, const Atom& y);

using Cells = std::set<int64_t>;  // barriers, as byte offsets from the start of shared memory

class Protocol {
 public:
  explicit Protocol(LintKernel& kernel);

  // Return the barriers that one thread, or all threads of a class, reach, or nothing if a barrier is not
  // known.
  std::optional<Cells> cells_of_thread(const Use& use, int64_t thread);
  std::optional<Cells> cells_of(const Use& use, const ThreadClass& c);

  // Returns how many threads reach a barrier with a use, if all of them do whenever one does, or nothing if
  // the number is not known.
  std::optional<int64_t> threads_at(const Use& use, int64_t cell);

  bool any(int64_t cell, bool Use::*does) const { return !operations(cell, does).empty(); }
  std::set<int> operations(int64_t cell, bool Use::*does) const;
  // Returns whether a class reaches a barrier with a use.
  bool reaches(size_t use, const ThreadClass& c, int64_t cell) const;

  std::vector<Use> uses;
  std::vector<Cells> cells;  // by use; empty if not known
  std::map<int64_t, std::vector<size_t>> by_cell;
  bool is_complete = true;  // whether all barriers are known
  // Returns is_complete, and reports barriers that the rule does not know.
  bool is_complete_for(Report& report) const;

 private:
  LintKernel& kernel_;
  std::vector<std::vector<Cells>> by_class_;  // by use and class
};

// Returns the innermost loop around an instruction that does more than wait, or kNone if there is none.
int working_loop(const LintKernel& kernel, int i);
// Returns the atoms of a sum that change in a loop: meets in the loop, and values that are loaded there.
std::set<int> changing(const LintKernel& kernel, const Sum& sum, const Loop& loop);

// Returns "the mbarrier at shared memory + 64".
std::string place(const LintKernel& kernel, int64_t cell);

}  // namespace ptxbuilder::analysis
