// Finds the bytes in shared memory that instructions access, and tracks how addresses move from stage to
// stage of a ring while a rule follows the paths through a kernel.
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

constexpr int64_t matrix_row = 16;  // bytes at a lane's address, in ldmatrix and stmatrix

// Returns whether this is a cp.async, which copies without the async proxy.
bool is_thread_copy(const Operation& o);

struct Access {
  int operation = kNone;
  Sum address = {};  // see LintKernel::shared_offset()
  int64_t bytes = 0;
};
// Returns what a wgmma reads from shared memory, as far as its descriptors bound the range; for a K-major
// tile, this is 8 rows for each step of the stride.
std::vector<Access> tiles_of(LintKernel& kernel, int wgmma);
// Returns what threads write to shared memory through the generic proxy, or nothing if that is not known.
std::optional<Access> write_of(LintKernel& kernel, int i);
// Returns what an instruction reads from shared memory in each thread.
std::vector<Access> reads_of(LintKernel& kernel, int i);
// Reports the wgmmas whose descriptors the rule cannot read.
void tell_unknown_reads(LintKernel& kernel, Report& report);

// Returns whether an instruction waits for other threads.
bool is_meeting(const Operation& o);

// The addresses that threads reach with an access, as byte offsets from the address of a class's first
// thread, ascending.
using Spread = std::vector<int64_t>;

// Finds overlapping accesses. The accesses and classes that are passed in must outlive this object.
class Meetings {
 public:
  explicit Meetings(LintKernel& kernel) : kernel_(kernel) {}

  // The position of an access relative to a barrier in some step, computed from the barrier's address.
  struct Reach {
    const ThreadClass* by;
    const Access* access;
    int64_t first;
  };
  using Reaches = std::multimap<int64_t, Reach>;
  Reaches by_barrier(const ThreadClass& c, const Access& access, const Sum& barrier, int moves);
  bool meet(const Reach& a, const Reach& b);
  // Returns whether `later` reaches, in any thread that runs it, bytes that `earlier` reached `moves` steps
  // ago, if a thread of the class executes both.
  bool meet(const ThreadClass& c, const Access& earlier, const Access& later, int moves);

 private:
  const Spread& spread(const ThreadClass& c, const Access& access);

  LintKernel& kernel_;
  std::map<std::pair<const ThreadClass*, const Access*>, Spread> spreads_;
};

// Collects the reads of shared memory.
class Readers {
 public:
  Readers(LintKernel& kernel, Meetings& meetings);

  const std::map<int, std::vector<Access>>& all() const { return all_; }  // by instruction
  // Returns, by barrier, what is read after a wait for it, with no other wait in between: with any
  // instruction or, if `by_wgmma`, with a wgmma that no fence separates from the wait; a fence would order
  // the writes of other threads (PTX ISA, "Causality order": a proxy fence anywhere along it).
  const Meetings::Reaches& behind_waits(bool by_wgmma);

 private:
  LintKernel& kernel_;
  Meetings& meetings_;
  std::map<int, std::vector<Access>> all_;
  std::optional<Meetings::Reaches> behind_[2];
};

// Finds the addresses that an instruction changes, such as where a loop advances to the next stage.
class Moves {
 public:
  static constexpr int most = 8;  // most addresses that are followed

  void add(const LintKernel& kernel, int key, const Sum& place);

  // Counts the moves of the addresses that a walk remembers, by key and by the moves since.
  template <typename State>
  void step(int i, std::map<std::pair<int, int>, State>& all) const {
    const auto found = at_.find(i);
    if (found == at_.end()) return;
    std::map<std::pair<int, int>, State> moved;
    for (const auto& [key, state] : all)
      if (!found->second.contains(key.first))
        moved.emplace(key, state);
      else if (key.second < most)
        moved.emplace(std::pair(key.first, key.second + 1), state);
    all = std::move(moved);
  }

 private:
  std::map<int, std::set<int>> at_;
};

}  // namespace ptxbuilder::analysis
