// The rule about the consumer's release: before a thread arrives at the barrier where a producer waits for a
// free stage, it must wait for the products that read this stage. Products read shared memory until
// wgmma.wait_group confirms their completion (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

constexpr int kMostSteps = 4;     // number of loop steps for which products may be in flight
constexpr int kMostStages = 256;  // greatest number of stages of a ring

// Finds the arrivals that free the bytes that a wgmma reads.
class Stages {
 public:
  explicit Stages(LintKernel& kernel) : kernel_(kernel), protocol_(kernel.protocol()) {
    for (const Use& wait : protocol_.uses)
      for (const Use& copy : protocol_.uses)
        if (wait.waits && copy.copies && kernel.operation(copy.operation).is_bulk_load() &&
            kernel.precedes(wait.operation, copy.operation) && is_last(wait, copy))
          find_guarded(wait, copy);
    for (const Use& use : protocol_.uses)
      if (use.arrives && !use.expects) arrivals_.push_back(&use);
  }

  // Returns the wgmmas whose stage is freed by an arrival of a thread of the class, each with the number of
  // loop steps from the read to the arrival.
  std::map<int, int> freed(const Use& arrival, const ThreadClass& c) {
    std::map<int, int> all;
    const auto barrier = kernel_.shared_offset(arrival.address);
    for (int i = 0; barrier && i < kernel_.count(); ++i) {
      const Operation& o = kernel_.operation(i);
      if (!o.is_wgmma() || c.runs[at(i)] == Runs::no || !kernel_.precedes(i, arrival.operation)) continue;
      for (size_t n = 1; n < 3; ++n) {
        if (o.operands[n].kind == Value::Kind::vector) continue;
        const auto descriptor = decode_descriptor(kernel_.values, kernel_.operand(i, n));
        const auto address = descriptor ? kernel_.shared_offset(descriptor->address) : std::nullopt;
        if (!address) continue;
        if (frees_now(*barrier, *address, kernel_.values_in(c)))
          all[i] = 0;
        else if (const auto steps = steps_before(*barrier, *address, i, kernel_.values_in(c)))
          all.emplace(i, *steps);
      }
    }
    return all;
  }

  const std::vector<const Use*>& arrivals() const { return arrivals_; }

  // Returns whether an arrival frees the stage that a thread of the class reads in the same step.
  bool frees_now(const Use& arrival, const Sum& read, const ThreadClass& c) const {
    const auto barrier = kernel_.shared_offset(arrival.address);
    return barrier && frees_now(*barrier, read, kernel_.values_in(c));
  }

 private:
  // Returns whether there is no other wait between the wait and the copy. Earlier waits then belong to other
  // copies.
  bool is_last(const Use& wait, const Use& copy) const {
    kernel_.spend(protocol_.uses.size());
    return std::none_of(protocol_.uses.begin(), protocol_.uses.end(), [&](const Use& use) {
      return use.waits && use.operation != wait.operation &&
             kernel_.precedes(wait.operation, use.operation) &&
             kernel_.precedes(use.operation, copy.operation);
    });
  }

  // Finds the destinations of a copy that follows a wait. A destination is in the stage of the wait, or at an
  // address that does not change.
  void find_guarded(const Use& wait, const Use& copy) {
    const auto barrier = kernel_.shared_offset(wait.address),
               to = kernel_.shared_offset(kernel_.addresses(copy.operation).front());
    if (!barrier || !to) return;
    for (const ThreadClass& c : kernel_.classes) {
      if (c.runs[at(copy.operation)] == Runs::no) continue;
      const auto pairs = together(kernel_, kernel_.values_in(c), *to, *barrier);
      if (!pairs) continue;
      std::set<int64_t> places;
      for (const auto& [place, cell] : *pairs) places.insert(place);
      int64_t apart = LintKernel::apart;
      for (auto place = places.begin(); place != places.end() && std::next(place) != places.end(); ++place)
        apart = std::min(apart, *std::next(place) - *place);
      for (const auto& [place, cell] : *pairs) {
        Guarded& guarded = guards_[place];
        guarded.barriers.insert(cell);
        guarded.bytes = std::max(guarded.bytes, apart);
      }
    }
  }

  // Returns whether an address is in a stage that a barrier guards.
  bool guards(int64_t barrier, int64_t address) const {
    auto behind = guards_.upper_bound(address);
    if (behind == guards_.begin()) return false;
    --behind;
    return kernel_.are_of_one_variable(behind->first, address) &&
           address < behind->first + behind->second.bytes && behind->second.barriers.contains(barrier);
  }

  // Returns whether the barrier and the address belong to the same stage in each step.
  bool frees_now(const Sum& barrier, const Sum& address, ThreadValues& in) const {
    const auto pairs = together(kernel_, in, address, barrier);
    return pairs && std::any_of(pairs->begin(), pairs->end(),
                                [&](const auto& pair) { return guards(pair.second, pair.first); });
  }

  // Returns the number of steps since the wgmma read the stage that the barrier guards. Returns nothing
  // unless the barrier and the address advance around rings in the same loop, by one stage each time that the
  // wgmma runs.
  std::optional<int> steps_before(const Sum& barrier, const Sum& address, int wgmma, ThreadValues& in) const {
    Dependent dependent(kernel_, in);
    const auto freed = dependent.root(barrier), read = dependent.root(address);
    if (!freed || !read || !is_ring_of(*freed, wgmma) || !is_ring_of(*read, wgmma)) return std::nullopt;
    const Atom &x = kernel_.values.atom(*freed), &y = kernel_.values.atom(*read);
    const int64_t count = y.inputs[1].constant;
    const auto ahead = *freed == *read ? std::optional<int64_t>(0) : lead(kernel_, in, x, y);
    if (!ahead) return std::nullopt;
    for (int steps = 0; steps < std::min<int64_t>(count, kMostSteps); ++steps) {
      bool all = true;
      for (int64_t stage = 0; stage < count && all; ++stage) {
        const auto place = dependent.value(address, *read, stage),
                   cell = dependent.value(barrier, *freed, (stage + steps - *ahead + count) % count);
        all = place && cell && guards(*cell, *place);
      }
      if (all) return steps;
    }
    return std::nullopt;
  }

  // Returns whether an atom is the stage of a ring that advances each time that instruction `i` of its loop
  // runs.
  bool is_ring_of(int atom, int i) const {
    const Atom& a = kernel_.values.atom(atom);
    if (a.kind != Atom::Kind::stage || a.inputs[1].constant < 1 || a.inputs[1].constant > kMostStages)
      return false;
    const int block = kernel_.graph.block_of[at(i)];
    const auto loop = std::find_if(kernel_.graph.loops.begin(), kernel_.graph.loops.end(),
                                   [&](const Loop& l) { return l.header == a.block; });
    if (loop == kernel_.graph.loops.end() ||
        kernel_.graph.blocks[at(block)].loop != static_cast<int>(loop - kernel_.graph.loops.begin()))
      return false;
    return std::all_of(loop->latches.begin(), loop->latches.end(),
                       [&](int latch) { return kernel_.graph.dominates(block, latch); });
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  // The greatest number of bytes that a copy may fill, up to its destination in the next stage, and the
  // barriers that guard them.
  struct Guarded {
    int64_t bytes = 0;
    std::set<int64_t> barriers = {};
  };
  std::map<int64_t, Guarded> guards_;  // guarded ranges, indexed by the destinations of copies
  std::vector<const Use*> arrivals_;
};

// The unfinished executions of each wgmma, the most recent first. For each execution, holds the number of
// groups committed since then, or 0 if the wgmma is not committed.
struct InFlight {
  std::map<int, std::vector<int>> runs = {};

  bool operator==(const InFlight&) const = default;
  size_t size() const { return kMostSteps * runs.size() + 1; }
  bool join(const InFlight& other) {
    const InFlight before = *this;
    for (const auto& [i, theirs] : other.runs) {
      std::vector<int>& mine = runs[i];
      for (size_t n = 0; n < theirs.size(); ++n) {
        if (n < mine.size())
          mine[n] = std::min(mine[n], theirs[n]);
        else
          mine.push_back(theirs[n]);
      }
    }
    return !(*this == before);
  }

  bool has(int wgmma, int steps_before) const {
    const auto found = runs.find(wgmma);
    return found != runs.end() && std::ssize(found->second) > steps_before;
  }

  void step(const Operation& o, int i) {
    if (!o.is("wgmma")) return;
    if (o.is_wgmma()) {
      runs[i].insert(runs[i].begin(), 0);
      if (runs[i].size() > kMostSteps) runs[i].pop_back();
    }
    if (o.has("commit_group"))
      for (auto& [number, ages] : runs)
        for (int& age : ages) age = std::min(age + 1, kOldest);
    if (!o.has("wait_group") || o.operands.empty()) return;
    for (auto& [number, ages] : runs) std::erase_if(ages, [&](int age) { return age > o.operands[0].value; });
    std::erase_if(runs, [](const auto& entry) { return entry.second.empty(); });
  }

 private:
  static constexpr int kOldest = 100;
};

// The arrivals since a thread's last wait. The key consists of the instruction and of the number of moves of
// the barrier's address since the arrival.
struct Arrived {
  std::map<std::pair<int, int>, bool> all = {};

  bool operator==(const Arrived&) const = default;
  size_t size() const { return all.size() + 1; }
  bool join(const Arrived& other) {
    const size_t before = all.size();
    all.insert(other.all.begin(), other.all.end());
    return all.size() != before;
  }
};

// Returns, for each read, the earlier arrivals that have already freed the bytes that it reads.
std::map<int, std::set<int>> reads_of_freed(LintKernel& kernel, Stages& stages) {
  std::map<int, std::set<int>> late;
  std::map<int, const Use*> arrivals;
  std::map<int, std::vector<Access>> reads;
  Moves moves;
  for (const Use* arrival : stages.arrivals())
    if (kernel.operation(arrival->operation).is("mbarrier")) {
      arrivals[arrival->operation] = arrival;
      if (const auto barrier = kernel.shared_offset(arrival->address))
        moves.add(kernel, arrival->operation, *barrier);
    }
  if (arrivals.empty()) return late;
  for (int i = 0; i < kernel.count(); ++i)
    if (!kernel.operation(i).is_wgmma())
      if (auto of = reads_of(kernel, i); !of.empty()) reads[i] = std::move(of);
  for (const ThreadClass& c : kernel.classes)
    follow(kernel, c, Arrived{}, [&](Arrived& s, int i, bool is_last) {
      moves.step(i, s.all);
      if (is_meeting(kernel.operation(i))) s.all.clear();
      if (arrivals.contains(i)) s.all[{i, 0}] = true;
      const auto read = reads.find(i);
      if (!is_last || read == reads.end()) return;
      for (const auto& [key, is_there] : s.all)
        if (key.second == 0 && stages.frees_now(*arrivals.at(key.first), read->second[0].address, c))
          late[i].insert(key.first);
    });
  return late;
}

// Returns whether a thread of a class waits in a loop for an action of another thread. Also returns true if
// this is possible but not certain.
bool waits_for_others(LintKernel& kernel, const Protocol& protocol, const ThreadClass& c, const Loop& loop) {
  const auto waits = [&](int i) {
    const Operation& o = kernel.operation(i);
    if (c.runs[at(i)] == Runs::no) return false;
    if (o.is("call", "atom") || o.has("acquire", "volatile", "relaxed")) return true;
    if (!is_meeting(o) || !o.is("mbarrier")) return is_meeting(o);
    const auto use = std::find_if(protocol.uses.begin(), protocol.uses.end(),
                                  [&](const Use& other) { return other.operation == i; });
    if (use == protocol.uses.end()) return true;
    const Cells& cells = protocol.cells[static_cast<size_t>(use - protocol.uses.begin())];
    return cells.empty() || std::any_of(cells.begin(), cells.end(), [&](int64_t cell) {
             for (int arrival : protocol.operations(cell, &Use::arrives))
               if (!kernel.operation(arrival).has("expect_tx")) return true;
             return false;
           });
  };
  kernel.spend(loop.blocks.size());
  for (int block : loop.blocks)
    for (int i = kernel.graph.blocks[at(block)].first; i < kernel.graph.blocks[at(block)].last; ++i)
      if (waits(i)) return true;
  return false;
}

// Returns whether an address returns to the same value after some steps of a loop.
bool comes_back(LintKernel& kernel, ThreadValues& in, const Sum& place, const Loop& loop) {
  return changing(kernel, place, loop).empty() || together(kernel, in, place, place);
}

// Returns whether all threads of class `c` and the first thread of class `with` are in one warp.
bool are_of_one_warp(const ThreadClass& c, const ThreadClass& with) {
  return !c.threads.empty() && c.lanes.size() == 1 &&
         c.lanes.begin()->first == with.threads[0] / hopper::warp_threads;
}

}  // namespace

void check_refill(LintKernel& kernel, Report& report) {
  const Protocol& protocol = kernel.protocol();
  if (!protocol.is_complete_for(report)) return;
  Meetings meetings(kernel);
  Readers readers(kernel, meetings);
  for (const Use& copy : protocol.uses) {
    const Operation& o = kernel.operation(copy.operation);
    int loop =
        copy.copies && o.is_bulk_load() && !copy.is_remote ? working_loop(kernel, copy.operation) : kNone;
    const auto to = loop == kNone ? std::nullopt : kernel.shared_offset(kernel.addresses(copy.operation)[0]),
               barrier = to ? kernel.shared_offset(copy.address) : std::nullopt;
    if (loop != kNone && !barrier) report.undecided(copy.operation, "the destination of this copy");
    if (!barrier) continue;
    const Access access{copy.operation, *to, hopper::bulk_unit};
    for (const ThreadClass& c : kernel.classes) {
      if (c.threads.empty() || c.runs[at(copy.operation)] == Runs::no) continue;
      bool is_free = true;  // false if the loop copies to other addresses, or waits
      for (int around = loop; around != kNone && is_free; around = kernel.graph.loops[at(around)].parent) {
        const Loop& l = kernel.graph.loops[at(around)];
        if (waits_for_others(kernel, protocol, c, l)) break;
        is_free = !comes_back(kernel, kernel.values_in(c), *to, l);
      }
      if (is_free) continue;
      for (const auto& [cell, mine] : meetings.by_barrier(c, access, *barrier, 0)) {
        const auto [begin, end] = readers.behind_waits(false).equal_range(cell);
        for (auto read = begin; read != end; ++read)
          if (read->second.by != &c && !are_of_one_warp(*read->second.by, c) &&
              meetings.meet(mine, read->second))
            report.add(
                copy.operation,
                fmt::format(
                    "{} overwrites data that others read, but its loop does not wait until they have read it",
                    o.text->opcode));
      }
    }
  }
}

void check_release(LintKernel& kernel, Report& report) {
  kernel.protocol().is_complete_for(report);
  tell_unknown_reads(kernel, report);
  Stages stages(kernel);
  std::map<int, std::set<int>> early;  // for each arrival, the wgmmas whose stage it frees too early
  for (const ThreadClass& c : kernel.classes) {
    std::map<int, std::map<int, int>> freed;
    for (const Use* arrival : stages.arrivals())
      if (c.runs[at(arrival->operation)] != Runs::no)
        if (auto all = stages.freed(*arrival, c); !all.empty()) freed[arrival->operation] = std::move(all);
    if (freed.empty()) continue;
    follow(kernel, c, InFlight{}, [&](InFlight& s, int i, bool is_last) {
      if (const auto found = freed.find(i); is_last && found != freed.end())
        for (const auto& [wgmma, steps] : found->second)
          if (s.has(wgmma, steps)) early[i].insert(wgmma);
      s.step(kernel.operation(i), i);
    });
  }
  for (const auto& [arrival, products] : early)
    report.add(
        arrival,
        fmt::format("{} frees a stage that wgmma may still read", kernel.operation(arrival).text->opcode),
        products);
  for (const auto& [read, arrivals] : reads_of_freed(kernel, stages))
    report.add(read,
               fmt::format("{} reads a stage that its thread has already freed",
                           kernel.operation(read).text->opcode),
               arrivals, "Read the stage, then arrive.");
}

}  // namespace ptxbuilder::analysis
