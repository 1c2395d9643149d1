// Rules about threads that store or copy with cp.async, and then signal through an mbarrier. A copy is
// complete after its thread has waited for its group (PTX ISA, "cp.async.wait_group"), and visible to wgmma
// after a fence (PTX ISA, "Async proxy").
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"

namespace ptxbuilder::analysis {
namespace {

struct Written {
  int age = 0;           // for a copy, the number of groups committed since the copy, including its group
  bool is_done = false;  // true for a store, and for a copy after its wait

  bool operator==(const Written&) const = default;
};

// The writes of a thread after which a wait or a fence is still missing. The key consists of the instruction
// and of the number of moves of its address since the write.
struct WrittenState {
  std::map<std::pair<int, int>, Written> all = {};

  bool operator==(const WrittenState&) const = default;
  size_t size() const { return all.size() + 1; }
  bool join(const WrittenState& other) {
    const WrittenState before = *this;
    for (const auto& [key, theirs] : other.all) {
      Written& mine = all.emplace(key, theirs).first->second;
      mine.age = std::min(mine.age, theirs.age);
      mine.is_done &= theirs.is_done;
    }
    return !(*this == before);
  }

  void step(const Operation& o) {
    constexpr int kOldest = 100;
    if (o.is_async_fence()) std::erase_if(all, [](const auto& entry) { return entry.second.is_done; });
    if (!o.is("cp") || !o.has("async") || o.has("bulk")) return;
    for (auto& [key, written] : all) {
      if (o.has("commit_group")) written.age = std::min(written.age + 1, kOldest);
      // A copy that an mbarrier counts is complete when the barrier's phase has ended.
      const bool waits = o.has("wait_group") && !o.operands.empty() && written.age > o.operands[0].value;
      written.is_done |= waits || o.has("wait_all", "mbarrier");
    }
  }
};

class CopyWalk {
 public:
  enum Kind : int {
    kRead,     // an instruction reads the bytes that `other` copies
    kTold,     // an arrival at a barrier for which other threads wait before they read the bytes
    kUnfenced  // an arrival before a wgmma that reads the bytes that `other` wrote, without a fence
  };

  explicit CopyWalk(LintKernel& kernel)
      : kernel_(kernel), protocol_(kernel.protocol()), meetings_(kernel), readers_(kernel, meetings_) {
    for (const Use& use : protocol_.uses)
      if (use.arrives && kernel.operation(use.operation).is("mbarrier")) arrivals_[use.operation] = &use;
    for (int i = 0; i < kernel.count(); ++i) {
      if (!kernel.runs(i)) continue;
      const Operation& o = kernel.operation(i);
      if (const auto access = write_of(kernel, i)) {
        writes_[i] = *access;
        moves_.add(kernel, i, access->address);
      }
      multiplies_ |= o.is_wgmma();
    }
  }

  std::set<LintEvent> run() {
    for (const ThreadClass& c : kernel_.classes) {
      if (c.threads.empty() || std::none_of(writes_.begin(), writes_.end(), [&](const auto& write) {
            return is_followed(write.first) && c.runs[at(write.first)] != Runs::no;
          }))
        continue;
      class_ = &c;
      follow(kernel_, c, WrittenState{}, [&](WrittenState& s, int i, bool is_last) { step(s, i, is_last); });
    }
    return std::move(events_);
  }

 private:
  // A store is complete at once, so it is relevant only if wgmma may read it through the async proxy.
  bool is_followed(int write) const { return multiplies_ || is_thread_copy(kernel_.operation(write)); }

  void step(WrittenState& s, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    moves_.step(i, s.all);
    s.step(o);
    if (!multiplies_) std::erase_if(s.all, [](const auto& entry) { return entry.second.is_done; });
    if (writes_.contains(i) && is_followed(i)) s.all[{i, 0}] = {.is_done = !is_thread_copy(o)};
    if (!is_last || s.all.empty()) return;
    if (readers_.all().contains(i))
      for (const auto& [key, written] : s.all)
        if (!written.is_done && is_read(key, i)) events_.insert({kRead, i, key.first});
    if (const auto arrival = arrivals_.find(i); arrival != arrivals_.end())
      for (const auto& [key, written] : s.all)
        if (is_told(key, *arrival->second, written.is_done))
          events_.insert({written.is_done ? kUnfenced : kTold, i, key.first});
  }

  // Returns whether an instruction reads, in a thread of this class, bytes that the copy transfers.
  bool is_read(std::pair<int, int> copy, int read) {
    const auto [known, is_new] = read_.try_emplace({class_, copy, read}, false);
    if (is_new)
      known->second = std::any_of(
          readers_.all().at(read).begin(), readers_.all().at(read).end(), [&](const Access& access) {
            return meetings_.meet(*class_, writes_.at(copy.first), access, copy.second);
          });
    return known->second;
  }

  // Returns whether threads that wait for an arrival then read the bytes of a copy or store or, if `by_wgmma`
  // is true, read them with a wgmma.
  bool is_told(std::pair<int, int> copy, const Use& arrival, bool by_wgmma) {
    const auto [known, is_new] = told_[by_wgmma].try_emplace({class_, copy, arrival.operation}, false);
    const auto barrier = kernel_.shared_offset(arrival.address);
    if (!is_new || !barrier) return known->second;
    const Meetings::Reaches copied =
        meetings_.by_barrier(*class_, writes_.at(copy.first), *barrier, copy.second);
    known->second = std::any_of(copied.begin(), copied.end(), [&](const auto& mine) {
      const auto [begin, end] = readers_.behind_waits(by_wgmma).equal_range(mine.first);
      return std::any_of(begin, end,
                         [&](const auto& read) { return meetings_.meet(mine.second, read.second); });
    });
    return known->second;
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  const ThreadClass* class_ = nullptr;
  std::map<int, Access> writes_;
  std::map<int, const Use*> arrivals_;
  Moves moves_;
  Meetings meetings_;
  Readers readers_;
  std::map<std::tuple<const ThreadClass*, std::pair<int, int>, int>, bool> read_, told_[2];
  bool multiplies_ = false;
  std::set<LintEvent> events_;
};

// Returns whether an address is the same in all steps, or moves around a ring.
bool is_followed(LintKernel& kernel, const Access& access) {
  return std::all_of(kernel.classes.begin(), kernel.classes.end(), [&](const ThreadClass& c) {
    ThreadValues& in = kernel.values_in(c);
    return c.runs[at(access.operation)] == Runs::no || together(kernel, in, access.address, access.address);
  });
}

std::set<LintEvent> walk_copies(LintKernel& kernel) { return CopyWalk(kernel).run(); }

}  // namespace

void report_unfenced_writes(LintKernel& kernel, Report& report) {
  for (const LintEvent& event : kernel.events(walk_copies))
    if (event.kind == CopyWalk::kUnfenced)
      report.add(event.operation,
                 fmt::format("{} announces to threads that run wgmma the data that {} wrote, without "
                             "fence.proxy.async between them",
                             kernel.operation(event.operation).text->opcode,
                             kernel.operation(event.other).text->opcode),
                 {event.other});
}

void check_copy_wait(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count() && report.tells_undecided(); ++i)
    if (is_thread_copy(kernel.operation(i)) && kernel.runs(i)) {
      const auto access = write_of(kernel, i);
      if (!access || !is_followed(kernel, *access)) report.undecided(i, "the destination of this copy");
    }
  for (const LintEvent& event : kernel.events(walk_copies)) {
    const std::string& opcode = kernel.operation(event.operation).text->opcode;
    if (event.kind == CopyWalk::kRead)
      report.add(
          event.operation,
          fmt::format("{} reads data that cp.async may still copy: no cp.async.wait_group comes between them",
                      opcode),
          {event.other});
    else if (event.kind == CopyWalk::kTold)
      report.add(event.operation,
                 fmt::format("{} announces to others data that cp.async may still copy: no "
                             "cp.async.wait_group comes between them",
                             opcode),
                 {event.other});
  }
}

}  // namespace ptxbuilder::analysis
