// Finds the mbarriers that a kernel's instructions access (PTX ISA, "mbarrier").
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

// An instruction's use of an mbarrier.
struct Use {
  int operation = kNone;
  bool inits = false, arrives = false, expects = false, copies = false, waits = false, invalidates = false;
  bool is_remote = false;  // true if the mbarrier is in another CTA of the cluster, and is accessed through
                           // mapa or multicast
  Sum address = {};

  bool works() const { return arrives || expects || copies || waits; }
};

// Returns the possible values of a sum that is bounded by rings and masks, or nothing if it is not bounded.
std::optional<std::set<int64_t>> options(const LintKernel& kernel, ThreadValues& in, const Sum& sum);

// Evaluates sums that depend on a single value that is unknown in a thread, such as the stage of a ring.
class Dependent {
 public:
  Dependent(const LintKernel& kernel, ThreadValues& in) : kernel_(kernel), in_(in) {}

  // Returns the single unknown atom on which a sum depends, or nothing if the sum depends on no such atom or
  // on several.
  std::optional<int> root(const Sum& sum);
  // Returns the sum for a given value of its root.
  std::optional<int64_t> value(const Sum& sum, int root, int64_t of_root, int depth = 16);

 private:
  std::optional<int64_t> atom(int number, int root, int64_t of_root, int depth);

  const LintKernel& kernel_;
  ThreadValues& in_;
};

// Pairs of values that two sums have at the same time. together() returns the pairs if each sum is known or
// depends on a single unknown value. If these values differ, they must be stages of rings whose distance
// lead() finds. Otherwise together() returns nothing. If the values are stages of a ring or count in a loop,
// the values of `a` are those of `moves` steps earlier.
using Pairs = std::vector<std::pair<int64_t, int64_t>>;
std::optional<Pairs> together(const LintKernel& kernel, ThreadValues& in, const Sum& a, const Sum& b,
                              int moves = 0);
// Returns the number of stages by which the ring `y` is ahead of the ring `x` when their loop begins. The
// number must not depend on the stages with which the rings start. Returns nothing if the number is not
// known, or if the rings are not in the same loop.
std::optional<int64_t> lead(const LintKernel& kernel, ThreadValues& in, const Atom& x, const Atom& y);

using Cells = std::set<int64_t>;  // barriers, as byte offsets from the start of shared memory

class Protocol {
 public:
  explicit Protocol(LintKernel& kernel);

  // Return the barriers that one thread, or the threads of a class, access with a use. Return nothing if a
  // barrier is not known.
  std::optional<Cells> cells_of_thread(const Use& use, int64_t thread);
  std::optional<Cells> cells_of(const Use& use, const ThreadClass& c);

  // Returns the number of threads that access a barrier with a use. Returns nothing if the number is not
  // known, or if only some of these threads may reach the instruction.
  std::optional<int64_t> threads_at(const Use& use, int64_t cell);

  bool any(int64_t cell, bool Use::*does) const { return !operations(cell, does).empty(); }
  std::set<int> operations(int64_t cell, bool Use::*does) const;
  // Returns whether threads of a class access a barrier with a use.
  bool reaches(size_t use, const ThreadClass& c, int64_t cell) const;

  std::vector<Use> uses;
  std::vector<Cells> cells;  // for each use, its barriers; empty if they are not known
  std::map<int64_t, std::vector<size_t>> by_cell;
  bool is_complete = true;  // true if all barriers are known
  // Reports the barriers that are not known, and returns is_complete.
  bool is_complete_for(Report& report) const;

 private:
  LintKernel& kernel_;
  std::vector<std::vector<Cells>> by_class_;  // indexed by use and class
};

// Returns the innermost loop around an instruction, except loops that only wait, or kNone if there is no such
// loop.
int working_loop(const LintKernel& kernel, int i);
// Returns the atoms of a sum that change in a loop: meets and loaded values in the loop.
std::set<int> changing(const LintKernel& kernel, const Sum& sum, const Loop& loop);

// Returns a string such as "the mbarrier at shared memory + 64".
std::string place(const LintKernel& kernel, int64_t cell);

}  // namespace ptxbuilder::analysis
