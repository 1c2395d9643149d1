// This finds what instructions reach in shared memory, and how places move from stage to stage of a ring
// while a rule follows the ways through a kernel.
#pragma once

#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

constexpr int64_t matrix_row = 16;  // bytes that a lane's address is of, in ldmatrix and stmatrix

// cp.async, by which a thread copies without the async proxy.
bool is_thread_copy(const Operation& o);

struct Access {
  int operation = kNone;
  Sum address = {};  // LintKernel::shared_offset()
  int64_t bytes = 0;
};
// This is what a wgmma reads of shared memory, as far as its descriptors bound it: of a K-major tile 8 rows
// for each step of the stride.
std::vector<Access> tiles_of(LintKernel& kernel, int wgmma);
// This is what threads write there by the generic proxy; nothing where that is not known.
std::optional<Access> write_of(LintKernel& kernel, int i);
// This is what an instruction reads of shared memory in each thread.
std::vector<Access> reads_of(LintKernel& kernel, int i);
// Tells a rule's report of the wgmmas whose descriptors cannot be read.
void tell_unknown_reads(LintKernel& kernel, Report& report);

// This says whether an instruction waits for other threads.
bool is_meeting(const Operation& o);

// This is where threads reach by an access: bytes after where the first thread of a class does, ascending.
using Spread = std::vector<int64_t>;

// This finds what accesses have in common. The accesses and classes that it is asked of have to live as long
// as it does.
class Meetings {
 public:
  explicit Meetings(LintKernel& kernel) : kernel_(kernel) {}

  // This is where an access is relative to a barrier in some step; it is found by the barrier's place.
  struct Reach {
    const ThreadClass* by;
    const Access* access;
    int64_t first;
  };
  using Reaches = std::multimap<int64_t, Reach>;
  Reaches by_barrier(const ThreadClass& c, const Access& access, const Sum& barrier, int moves);
  bool meet(const Reach& a, const Reach& b);
  // This says whether `later` reaches, in any thread that runs it, what `earlier` reached `moves` steps
  // before, where a thread of the class came to both.
  bool meet(const ThreadClass& c, const Access& earlier, const Access& later, int moves);

 private:
  const Spread& spread(const ThreadClass& c, const Access& access);

  LintKernel& kernel_;
  std::map<std::pair<const ThreadClass*, const Access*>, Spread> spreads_;
};

// This has what is read of shared memory.
class Readers {
 public:
  Readers(LintKernel& kernel, Meetings& meetings);

  const std::map<int, std::vector<Access>>& all() const { return all_; }  // by instruction
  // This has by barrier what is read after a wait for it with no other wait between them: by anything, or by
  // wgmma without a fence between the wait and it, which would do for what other threads wrote (PTX ISA,
  // "Causality order": a proxy fence anywhere along it).
  const Meetings::Reaches& behind_waits(bool by_wgmma);

 private:
  LintKernel& kernel_;
  Meetings& meetings_;
  std::map<int, std::vector<Access>> all_;
  std::optional<Meetings::Reaches> behind_[2];
};

// This says which of some places are made anew by an instruction, as where a loop goes on to the next stage.
class Moves {
 public:
  static constexpr int most = 8;  // that are followed

  void add(const LintKernel& kernel, int key, const Sum& place);

  // Counts the moves of what a walk remembers, by key and the moves since.
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
