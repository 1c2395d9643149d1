// Finds the bytes in shared memory that instructions access. Also tracks how addresses move from stage to
// stage of a ring while a rule follows the paths through a kernel.
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

constexpr int64_t matrix_row = 16;  // bytes that ldmatrix and stmatrix access at a lane's address

// Returns whether this is a cp.async, which copies without the async proxy.
bool is_thread_copy(const Operation& o);

struct Access {
  int operation = kNone;
  Sum address = {};  // see LintKernel::shared_offset()
  int64_t bytes = 0;
};
// Returns the accesses of a wgmma that reads from shared memory, as far as its descriptors bound them. For a
// K-major tile, each step of the stride has 8 rows.
std::vector<Access> tiles_of(LintKernel& kernel, int wgmma);
// Returns the access of an instruction that writes shared memory through the generic proxy, or nothing if it
// is not known.
std::optional<Access> write_of(LintKernel& kernel, int i);
// Returns the accesses of an instruction that reads from shared memory, in each thread.
std::vector<Access> reads_of(LintKernel& kernel, int i);
// Reports the wgmmas whose descriptors cannot be decoded.
void tell_unknown_reads(LintKernel& kernel, Report& report);

// Returns whether an instruction waits for other threads.
bool is_meeting(const Operation& o);

// The addresses that the threads of a class access with one instruction, in ascending order, as byte offsets
// from the address of the first thread.
using Spread = std::vector<int64_t>;

// Finds overlapping accesses. The accesses and classes that are passed in must outlive this object.
class Meetings {
 public:
  explicit Meetings(LintKernel& kernel) : kernel_(kernel) {}

  // An access by a class of threads, and its address relative to the address of the barrier that guards it.
  struct Reach {
    const ThreadClass* by;
    const Access* access;
    int64_t first;
  };
  using Reaches = std::multimap<int64_t, Reach>;
  Reaches by_barrier(const ThreadClass& c, const Access& access, const Sum& barrier, int moves);
  bool meet(const Reach& a, const Reach& b);
  // Returns whether `later`, in any thread that runs it, accesses bytes that `earlier` accessed `moves` steps
  // before. A thread of the class must execute both accesses.
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

  const std::map<int, std::vector<Access>>& all() const { return all_; }  // indexed by instruction
  // Returns, for each barrier, the reads that follow a wait for the barrier without another wait in between.
  // If `by_wgmma` is true, returns only the reads of wgmmas that no proxy fence separates from the wait. Such
  // a fence would order the writes of other threads, because a proxy fence may be at any point of the
  // causality order (PTX ISA, "Causality order").
  const Meetings::Reaches& behind_waits(bool by_wgmma);

 private:
  LintKernel& kernel_;
  Meetings& meetings_;
  std::map<int, std::vector<Access>> all_;
  std::optional<Meetings::Reaches> behind_[2];
};

// Finds the addresses that an instruction changes, for example when a loop advances to the next stage.
class Moves {
 public:
  static constexpr int most = 8;  // number of moves after which an address is no longer tracked

  void add(const LintKernel& kernel, int key, const Sum& place);

  // Updates the addresses that a walk remembers, which are indexed by key and by number of moves. Each
  // address that instruction i changes has moved once more.
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
