// The rule of the consumer's release: who arrives where a producer waits for a free stage has waited for the
// products that read the stage (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": they read shared
// memory until wgmma.wait_group says otherwise).
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

// Which arrivals free what a wgmma reads.
class Stages {
 public:
  explicit Stages(LintKernel& kernel) : kernel_(kernel), protocol_(kernel.protocol()) {
    for (const Use& wait : protocol_.uses)
      for (const Use& copy : protocol_.uses)
        if (wait.waits && copy.copies && kernel.operation(copy.operation).is_bulk_load() &&
            kernel.precedes(wait.operation, copy.operation))
          find_guarded(wait, copy);
    for (const Use& use : protocol_.uses)
      if (use.arrives && !use.expects) arrivals_.push_back(&use);
  }

  // By a thread of the class: the wgmmas of which an arrival frees a stage.
  std::set<int> freed(const Use& arrival, const ThreadClass& c) {
    std::set<int> all;
    const auto barrier = kernel_.shared_offset(arrival.address);
    for (int i = 0; barrier && i < kernel_.count(); ++i) {
      const Operation& o = kernel_.operation(i);
      if (!o.is_wgmma() || c.runs[at(i)] == Runs::no || !kernel_.precedes(i, arrival.operation)) continue;
      for (size_t n = 1; n < 3; ++n)
        if (o.operands[n].kind != Value::Kind::vector && frees(*barrier, i, n, kernel_.values_in(c)))
          all.insert(i);
    }
    return all;
  }

  const std::vector<const Use*>& arrivals() const { return arrivals_; }

 private:
  // Where copies go behind a wait: the same stage, or each time the same place.
  void find_guarded(const Use& wait, const Use& copy) {
    const auto barrier = kernel_.shared_offset(wait.address),
               to = kernel_.shared_offset(kernel_.addresses(copy.operation).front());
    if (!barrier || !to) return;
    for (const ThreadClass& c : kernel_.classes) {
      if (c.runs[at(copy.operation)] == Runs::no) continue;
      const auto pairs = together(kernel_, kernel_.values_in(c), *to, *barrier);
      if (!pairs) continue;
      for (const auto& [place, cell] : *pairs) guards_[place].insert(cell);
    }
  }

  // Whether an operand of wgmma lies in a stage that the barrier of the same stage guards.
  bool frees(const Sum& barrier, int wgmma, size_t n, ThreadValues& in) {
    const auto descriptor = decode_descriptor(kernel_.values, kernel_.operand(wgmma, n));
    const auto address = descriptor ? kernel_.shared_offset(descriptor->address) : std::nullopt;
    const auto pairs = address ? together(kernel_, in, *address, barrier) : std::nullopt;
    return pairs && std::any_of(pairs->begin(), pairs->end(), [&](const auto& pair) {
             auto behind = guards_.upper_bound(pair.first);
             if (behind == guards_.begin()) return false;
             --behind;
             return kernel_.are_of_one_variable(behind->first, pair.first) &&
                    behind->second.contains(pair.second);
           });
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  std::map<int64_t, std::set<int64_t>> guards_;  // by where copies go, the barriers that they wait for
  std::vector<const Use*> arrivals_;
};

// wgmmas that have not been waited for, with the groups committed since: 0 for one that is not committed.
struct InFlight {
  std::map<int, int> groups = {};

  bool operator==(const InFlight&) const = default;
  bool join(const InFlight& other) {
    bool changed = false;
    for (const auto& [i, theirs] : other.groups) {
      const auto [mine, is_new] = groups.emplace(i, theirs);
      changed |= is_new || theirs < mine->second;
      mine->second = std::min(mine->second, theirs);
    }
    return changed;
  }

  void step(const Operation& o, int i) {
    constexpr int kOldest = 100;
    if (o.is_wgmma()) groups[i] = 0;
    if (!o.is("wgmma")) return;
    if (o.has("commit_group"))
      for (auto& [number, since] : groups) since = std::min(since + 1, kOldest);
    if (o.has("wait_group") && !o.operands.empty())
      std::erase_if(groups, [&](const auto& entry) { return entry.second > o.operands[0].value; });
  }
};

}  // namespace

void check_release(LintKernel& kernel, Report& report) {
  Stages stages(kernel);
  std::map<int, std::set<int>> early;  // by arrival, the wgmmas
  for (const ThreadClass& c : kernel.classes) {
    std::map<int, std::set<int>> freed;
    for (const Use* arrival : stages.arrivals())
      if (c.runs[at(arrival->operation)] != Runs::no)
        if (auto all = stages.freed(*arrival, c); !all.empty()) freed[arrival->operation] = std::move(all);
    if (freed.empty()) continue;
    follow(kernel, c, InFlight{}, [&](InFlight& s, int i, bool is_last) {
      if (const auto found = freed.find(i); is_last && found != freed.end())
        for (int wgmma : found->second)
          if (s.groups.contains(wgmma)) early[i].insert(wgmma);
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
