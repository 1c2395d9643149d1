// The rule of the consumer's release: who arrives where a producer waits for a free stage has waited for the
// products that read the stage (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": they read shared
// memory until wgmma.wait_group says otherwise).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

constexpr int kMostSteps = 4;     // of a loop that products may be in flight
constexpr int kMostStages = 256;  // of a ring

// Which arrivals free what a wgmma reads.
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

  // By a thread of the class: the wgmmas of which an arrival frees a stage, with the steps of the loop that
  // the stage was read before.
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

 private:
  // Whether the thread waits for nothing else ahead of the copy: what it waited for before is another copy's.
  bool is_last(const Use& wait, const Use& copy) const {
    kernel_.spend(protocol_.uses.size());
    return std::none_of(protocol_.uses.begin(), protocol_.uses.end(), [&](const Use& use) {
      return use.waits && use.operation != wait.operation &&
             kernel_.precedes(wait.operation, use.operation) &&
             kernel_.precedes(use.operation, copy.operation);
    });
  }

  // Where copies go behind a wait: the same stage, or each time the same place.
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

  // Whether an address lies in a stage that a barrier guards.
  bool guards(int64_t barrier, int64_t address) const {
    auto behind = guards_.upper_bound(address);
    if (behind == guards_.begin()) return false;
    --behind;
    return kernel_.are_of_one_variable(behind->first, address) &&
           address < behind->first + behind->second.bytes && behind->second.barriers.contains(barrier);
  }

  // Whether both are of the stage of this step.
  bool frees_now(const Sum& barrier, const Sum& address, ThreadValues& in) const {
    const auto pairs = together(kernel_, in, address, barrier);
    return pairs && std::any_of(pairs->begin(), pairs->end(),
                                [&](const auto& pair) { return guards(pair.second, pair.first); });
  }

  // How many steps before this one the stage was read that the barrier guards, where both go through a ring
  // in the same loop, a stage each time that the wgmma runs.
  std::optional<int> steps_before(const Sum& barrier, const Sum& address, int wgmma, ThreadValues& in) const {
    Dependent dependent(kernel_, in);
    const auto freed = dependent.root(barrier), read = dependent.root(address);
    if (!freed || !read || !is_ring_of(*freed, wgmma) || !is_ring_of(*read, wgmma)) return std::nullopt;
    const Atom &x = kernel_.values.atom(*freed), &y = kernel_.values.atom(*read);
    const int64_t count = y.inputs[1].constant;
    const auto ahead = *freed == *read ? std::optional<int64_t>(0) : lead(x, y, in);
    if (x.block != y.block || x.inputs[1].constant != count || !ahead) return std::nullopt;
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

  // Whether an atom is a ring's stage that moves on each time that an instruction of its loop runs.
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

  // By how many stages `y` is ahead of `x` when their loop begins, whichever stage one of them begins with.
  std::optional<int64_t> lead(const Atom& x, const Atom& y, ThreadValues& in) const {
    const Sum &first = x.inputs[0], &second = y.inputs[0];
    std::vector<int> starts = {kNone};
    for (const Sum* sum : {&first, &second})
      if (sum->constant == 0 && sum->terms.size() == 1 && sum->terms[0].second == 1)
        starts.push_back(sum->terms[0].first);
    Dependent dependent(kernel_, in);
    const int64_t count = y.inputs[1].constant;
    for (int start : starts) {
      std::set<std::optional<int64_t>> leads;
      for (int64_t stage = 0; stage < count; ++stage) {
        const auto from = dependent.value(first, start, stage), to = dependent.value(second, start, stage);
        leads.insert(from && to ? std::optional(((*to - *from) % count + count) % count) : std::nullopt);
      }
      if (leads.size() == 1 && *leads.begin()) return *leads.begin();
    }
    return std::nullopt;
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  // This is what a copy fills at most, up to where it goes in the next stage, and the barriers that it waits
  // for.
  struct Guarded {
    int64_t bytes = 0;
    std::set<int64_t> barriers = {};
  };
  std::map<int64_t, Guarded> guards_;  // by where copies go
  std::vector<const Use*> arrivals_;
};

// Of each wgmma that has not been waited for, the last times that it ran, the youngest first: groups
// committed since, 0 where it is not committed.
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

}  // namespace

void check_release(LintKernel& kernel, Report& report) {
  Stages stages(kernel);
  std::map<int, std::set<int>> early;  // by arrival, the wgmmas
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
}

}  // namespace ptxbuilder::analysis
