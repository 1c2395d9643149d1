// Rules about mbarriers: each mbarrier must be initialised and published before it is used, a phase must get
// the arrivals that it expects, and some thread must wait for the phase with an alternating parity.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"

namespace ptxbuilder::analysis {
namespace {

// ---- Publication ----

// The instructions on a thread's path that have initialised mbarriers without publishing them yet.
struct Publication {
  int unfenced = kNone;    // an mbarrier.init without a fence after it
  int unreleased = kNone;  // an mbarrier.init without a release in the cluster after it
  std::set<int> unmet = {},
                unmet_in_cluster = {};  // initialisations by other threads without a barrier after them

  bool operator==(const Publication&) const = default;
  size_t size() const { return 2 + unmet.size() + unmet_in_cluster.size(); }
  bool join(const Publication& other) {
    const Publication before = *this;
    if (unfenced == kNone) unfenced = other.unfenced;
    if (unreleased == kNone) unreleased = other.unreleased;
    unmet.insert(other.unmet.begin(), other.unmet.end());
    unmet_in_cluster.insert(other.unmet_in_cluster.begin(), other.unmet_in_cluster.end());
    return !(*this == before);
  }
};

class PublicationWalk {
 public:
  enum Kind : int {
    kUnfenced,           // an unfenced mbarrier.init; `other` uses the barrier in the CTA
    kUnfencedInCluster,  // an unfenced mbarrier.init; `other` uses the barrier in the cluster
    kUnmet               // a use of an mbarrier that `other` initialises, without a barrier in between
  };

  explicit PublicationWalk(LintKernel& kernel) : kernel_(kernel), protocol_(kernel.protocol()) {
    for (size_t u = 0; u < protocol_.uses.size(); ++u) {
      const Use& use = protocol_.uses[u];
      by_operation_.emplace(use.operation, u);
      if (use.inits) inits_.insert(use.operation);
      copies_ |= use.copies;
      copies_to_others_ |= use.copies && use.is_remote;
      reaches_others_ |= use.works() && use.is_remote;
    }
    spans_cluster_ = copies_to_others_;
    for (int i = 0; i < kernel.count(); ++i)
      spans_cluster_ |= kernel.operation(i).is("barrier") && kernel.operation(i).has("cluster");
    for (const ptx_text::Directive& d : kernel.code.function->directives)
      for (int64_t ctas : numbers_of(d)) spans_cluster_ |= d.tokens[0] == ".reqnctapercluster" && ctas > 1;
  }

  std::set<LintEvent> run() {
    if (inits_.empty()) return {};
    for (const ThreadClass& c : kernel_.classes) {
      Publication start{.unmet_in_cluster = inits_};
      for (int init : inits_)
        if (c.runs[at(init)] == Runs::no) start.unmet.insert(init);
      follow(kernel_, c, start, [&](Publication& p, int i, bool is_last) { step(p, i, is_last); });
    }
    return std::move(events_);
  }

 private:
  // Returns the first instruction in `unmet` that may initialise a barrier of the use, or kNone if there is
  // none.
  int unmet_of(size_t use, const std::set<int>& unmet) const {
    const int i = protocol_.uses[use].operation;
    const Cells& cells = protocol_.cells[use];
    if (cells.empty()) return unmet.size() == inits_.size() ? *unmet.begin() : kNone;
    for (int init : unmet) {
      const Cells& of = protocol_.cells[by_operation_.at(init)];
      if (!kernel_.precedes(i, init) &&
          std::any_of(of.begin(), of.end(), [&](int64_t cell) { return cells.contains(cell); }))
        return init;
    }
    return kNone;
  }

  void step(Publication& p, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    if ((o.is("fence") && o.has("mbarrier_init", "proxy", "cluster")) || o.is("membar"))
      p.unfenced = p.unreleased = kNone;
    if (o.is("barrier") && o.has("cluster") && o.has("arrive") && !o.has("relaxed")) p.unreleased = kNone;
    if (o.is_barrier() && !o.has("arrive") && !o.has("warp")) {
      const auto is_ahead = [&](int init) { return !kernel_.precedes(i, init); };
      std::erase_if(p.unmet, is_ahead);
      if (o.has("cluster")) std::erase_if(p.unmet_in_cluster, is_ahead);
    }
    const auto found = by_operation_.find(i);
    if (found == by_operation_.end()) return;
    const Use& use = protocol_.uses[found->second];
    if (use.inits) p.unfenced = p.unreleased = i;
    if (!use.works() || !is_last) return;
    // The release of barrier.cluster.arrive orders the initialisation before accesses by threads of other
    // CTAs, but not before copies to these CTAs.
    const bool is_released = p.unreleased == kNone;
    if (p.unfenced != kNone && (copies_ || (reaches_others_ && !is_released)))
      events_.insert({copies_to_others_ || (spans_cluster_ && !is_released) ? kUnfencedInCluster : kUnfenced,
                      p.unfenced, i});
    const int in_cluster =
                  use.is_remote && spans_cluster_ ? unmet_of(found->second, p.unmet_in_cluster) : kNone,
              in_cta = unmet_of(found->second, p.unmet);
    if (in_cluster != kNone)
      events_.insert(
          {kUnmet, i, in_cluster,
           fmt::format("{} uses another CTA's mbarrier without a cluster barrier after its mbarrier.init",
                       o.text->opcode)});
    else if (in_cta != kNone)
      events_.insert({kUnmet, i, in_cta,
                      fmt::format("{} uses an mbarrier that another thread initialises, without a barrier "
                                  "after its mbarrier.init",
                                  o.text->opcode)});
  }

  LintKernel& kernel_;
  const Protocol& protocol_;
  std::set<LintEvent> events_;
  std::map<int, size_t> by_operation_;
  std::set<int> inits_;
  bool copies_ = false, copies_to_others_ = false;
  bool reaches_others_ = false;  // true if copies or threads access the memory of other CTAs
  bool spans_cluster_ = false;   // true if the kernel declares a cluster
};

std::set<LintEvent> walk_publication(LintKernel& kernel) { return PublicationWalk(kernel).run(); }

void report_unfenced(LintKernel& kernel, PublicationWalk::Kind kind, const char* whom, Report& report) {
  for (const LintEvent& event : kernel.events(walk_publication))
    if (event.kind == kind)
      report.add(event.operation,
                 fmt::format("no fence makes this mbarrier.init known to {} before its use", whom),
                 {event.other});
}

// ---- Arrivals ----

// Returns the number of arrivals that an instruction makes, or nothing if it is not known.
std::optional<int64_t> arriving(LintKernel& kernel, Protocol& protocol, const Use& use, int64_t cell) {
  const Operation& o = kernel.operation(use.operation);
  if (o.has("arrive_drop")) return std::nullopt;  // later phases expect fewer arrivals
  int64_t each = 1;
  if (!o.has("expect_tx") && o.is("mbarrier"))
    for (size_t n = 0; n + 1 < o.operands.size(); ++n)
      if (o.operands[n].kind == Value::Kind::address) {
        const Sum count = kernel.operand(use.operation, n + 1);
        if (!count.is_constant()) return std::nullopt;
        each = count.constant;
      }
  const auto threads = protocol.threads_at(use, cell);
  return threads ? std::optional(*threads * each) : std::nullopt;
}

// Returns whether some of the counts add up to `sum`.
bool add_up(const std::vector<int64_t>& counts, int64_t sum) {
  std::set<int64_t> sums = {0};
  for (int64_t count : counts) {
    std::set<int64_t> more = sums;
    for (int64_t s : sums) more.insert(s + count);
    sums = std::move(more);
    if (sums.size() > 4096) return true;
  }
  return sums.contains(sum);
}

// ---- Waits ----

// Determines whether the result of an instruction affects more than registers that are not used further.
class Dependence {
 public:
  explicit Dependence(const LintKernel& kernel) : kernel_(kernel) {}

  bool of(int i) {
    if (!met_.insert(i).second) return false;
    const std::vector<int>& results = kernel_.operation(i).writes;
    return std::any_of(results.begin(), results.end(), [&](int reg) { return is_needed(i, reg); });
  }

 private:
  // Returns whether an instruction only computes registers, and is therefore needed only if its results are
  // needed.
  static bool only_computes(const Operation& o) {
    for (const char* word : {"mov", "not", "and", "or", "xor", "setp", "selp", "cvt"})
      if (o.is(word)) return true;
    return false;
  }

  // Follows the register's value along all paths to the next instruction that overwrites it.
  bool is_needed(int writer, int reg) {
    const Graph& graph = kernel_.graph;
    kernel_.spend(graph.blocks.size() / 64 + 1);
    std::vector<bool> met(graph.blocks.size(), false);
    struct Place {
      int block, operation;
    };
    std::vector<Place> waiting = {{graph.block_of[at(writer)], writer + 1}};
    const auto holds = [](const std::vector<int>& registers, int number) {
      return std::find(registers.begin(), registers.end(), number) != registers.end();
    };
    while (!waiting.empty()) {
      const auto [block, first] = waiting.back();
      kernel_.spend(1);
      waiting.pop_back();
      bool is_gone = false;
      for (int i = first; i < graph.blocks[at(block)].last && !is_gone; ++i) {
        const Operation& o = kernel_.operation(i);
        if (o.guard == reg || (holds(o.reads, reg) && (!only_computes(o) || of(i)))) return true;
        is_gone = o.guard == kNone && holds(o.writes, reg);
      }
      if (is_gone) continue;
      for (int next : graph.blocks[at(block)].successors)
        if (!met[at(next)]) {
          met[at(next)] = true;
          waiting.push_back({next, graph.blocks[at(next)].first});
        }
    }
    return false;
  }

  const LintKernel& kernel_;
  std::set<int> met_;
};

// Returns whether an instruction runs in every iteration of a loop.
bool runs_each_time(const LintKernel& kernel, const Loop& loop, int i) {
  return std::all_of(loop.latches.begin(), loop.latches.end(),
                     [&](int latch) { return kernel.graph.dominates(kernel.graph.block_of[at(i)], latch); });
}

// Returns whether a loop initialises a barrier of a use, so that the barrier's phases start over.
bool is_made_anew(const LintKernel& kernel, const Protocol& protocol, const Use& use, const Loop& loop) {
  const Cells& cells = protocol.cells[static_cast<size_t>(&use - protocol.uses.data())];
  return std::any_of(cells.begin(), cells.end(), [&](int64_t cell) {
    const std::set<int> inits = protocol.operations(cell, &Use::inits);
    return std::any_of(inits.begin(), inits.end(),
                       [&](int i) { return loop.contains(kernel.graph.block_of[at(i)]); });
  });
}

// Returns whether a wait, in a loop whose counter increases by one, waits twice in succession for the same
// parity of a barrier.
bool repeats_a_parity(LintKernel& kernel, const Use& wait, const Sum& parity, const Loop& loop) {
  const auto barrier = kernel.shared_offset(wait.address);
  std::set<int> changes = changing(kernel, wait.address, loop);
  changes.merge(changing(kernel, parity, loop));
  if (!barrier || changes.size() != 1) return false;
  const Atom& a = kernel.values.atom(*changes.begin());
  if (a.kind != Atom::Kind::counter || !(a.inputs[1] == Sum{.constant = 1})) return false;
  for (const ThreadClass& c : kernel.classes) {
    if (c.runs[at(wait.operation)] == Runs::no) continue;
    const auto pairs = together(kernel, kernel.values_in(c), *barrier, parity);
    std::map<int64_t, int64_t> last;  // last parity of each barrier
    for (const auto& [cell, now] : pairs.value_or(Pairs{})) {
      const auto before = last.find(cell);
      if (before != last.end() && (before->second & 1) == (now & 1)) return true;
      last[cell] = now;
    }
  }
  return false;
}

// Returns the parity for which an instruction waits, or nothing if it waits for a state.
std::optional<Sum> parity_of(LintKernel& kernel, const Use& use) {
  const Operation& o = kernel.operation(use.operation);
  if (!use.waits || !o.has("parity") || o.operands.size() < 3) return std::nullopt;
  return kernel.operand(use.operation, 2);
}

// The first wait of a class of threads for a barrier, which precedes all of its other waits, and the wait's
// parity when the loops begin.
struct FirstWait {
  size_t use;
  int64_t parity;
};
std::optional<FirstWait> first_wait(LintKernel& kernel, const Protocol& protocol, const ThreadClass& c,
                                    int64_t cell) {
  kernel.spend(1);
  std::vector<size_t> waits;
  for (size_t u : protocol.by_cell.at(cell))
    if (protocol.uses[u].waits && protocol.reaches(u, c, cell)) waits.push_back(u);
  for (size_t u : waits) {
    const bool is_first = std::all_of(waits.begin(), waits.end(), [&](size_t other) {
      return other == u || kernel.precedes(protocol.uses[u].operation, protocol.uses[other].operation);
    });
    const auto parity = is_first ? parity_of(kernel, protocol.uses[u]) : std::nullopt;
    if (!parity) continue;
    ThreadValues in(kernel.values, c.threads.empty() ? std::nullopt : std::optional(c.threads[0]),
                    ThreadValues::Loops::at_start);
    const auto offset = kernel.shared_offset(protocol.uses[u].address);
    const auto first = in(*parity);
    if (first && offset && in(*offset) == cell) return FirstWait{u, *first & 1};
  }
  return std::nullopt;
}

// The remedies for a wait whose phase is completed by copies, and for a wait that precedes copies.
constexpr std::string_view kDataCure =
    "This waits for data: begin with parity 0, and flip it each time that the ring starts over.";
constexpr std::string_view kFreeCure =
    "This waits for a stage that others free, and at first all stages are free: begin with parity 1, and "
    "flip it each time that the ring starts over.";

// Returns the remedy, or "" if copies neither complete the phase nor follow the wait.
std::string_view turning_cure(const LintKernel& kernel, const Protocol& protocol, const Use& wait) {
  const Cells& cells = protocol.cells[static_cast<size_t>(&wait - protocol.uses.data())];
  if (std::any_of(cells.begin(), cells.end(), [&](int64_t cell) { return protocol.any(cell, &Use::copies); }))
    return kDataCure;
  const bool fills = std::any_of(protocol.uses.begin(), protocol.uses.end(), [&](const Use& other) {
    return other.copies && kernel.precedes(wait.operation, other.operation);
  });
  return fills && protocol.is_complete ? kFreeCure : std::string_view();
}

// Returns whether each count is the number of threads of several warpgroups, although the barrier expects the
// threads of only one warpgroup. In ping-pong kernels, each warpgroup frees the stages of its own tiles.
bool take_turns(const LintKernel& kernel, const std::vector<int64_t>& counts, int64_t expected) {
  for (int64_t warpgroups = 2; warpgroups <= kernel.threads / 128; ++warpgroups)
    if (std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == warpgroups * expected; }))
      return true;
  return false;
}

}  // namespace

void check_barrier_published(LintKernel& kernel, Report& report) {
  report_unfenced(kernel, PublicationWalk::kUnfencedInCluster, "copies or to the cluster", report);
  report_events(kernel, walk_publication, PublicationWalk::kUnmet, report);
}

void check_barrier_fence(LintKernel& kernel, Report& report) {
  report_unfenced(kernel, PublicationWalk::kUnfenced, "copies", report);
}

void check_barrier_initialised(LintKernel& kernel, Report& report) {
  Protocol& protocol = kernel.protocol();
  if (!protocol.is_complete_for(report)) return;
  for (const auto& [cell, uses] : protocol.by_cell)
    if (!protocol.any(cell, &Use::inits))
      report.add(protocol.uses[uses[0]].operation,
                 fmt::format("{} is used but never initialised", place(kernel, cell)));
  for (const auto& [cell, uses] : protocol.by_cell)
    for (int init : protocol.operations(cell, &Use::inits)) {
      const auto use = std::find_if(protocol.uses.begin(), protocol.uses.end(),
                                    [&](const Use& other) { return other.operation == init; });
      if (const auto threads = protocol.threads_at(*use, cell); threads && *threads > 1)
        report.add(init,
                   fmt::format("{} threads initialise {}, and some may use it before the last one does",
                               *threads, place(kernel, cell)),
                   {}, "Let one thread initialise each mbarrier.");
    }
}

void check_arrivals(LintKernel& kernel, Report& report) {
  Protocol& protocol = kernel.protocol();
  if (protocol.uses.empty() || !protocol.is_complete_for(report) || !knows_threads(kernel, report)) return;
  for (const auto& [cell, uses] : protocol.by_cell) {
    std::optional<int64_t> expected;
    int init = kNone;
    std::vector<int64_t> counts;
    std::set<int> arrivals;
    bool known = true, is_waited_for = false;
    for (size_t u : uses) {
      const Use& use = protocol.uses[u];
      is_waited_for |= use.waits || use.copies;
      if (use.inits) {
        const Sum count = kernel.values.of(use.operation, kernel.operation(use.operation).operands.back());
        known = known && count.is_constant() && (!expected || *expected == count.constant);
        expected = count.constant;
        init = use.operation;
      }
      if (!use.arrives) continue;
      arrivals.insert(use.operation);
      const auto threads = arriving(kernel, protocol, use, cell);
      known = known && threads;
      counts.push_back(threads.value_or(0));
    }
    if (init == kNone || !is_waited_for) continue;
    if (!known) report.undecided(init, "how many threads arrive at this mbarrier in a phase");
    if (arrivals.empty())
      report.add(init, fmt::format("no thread arrives at {}, for which threads wait", place(kernel, cell)));
    else if (known && !add_up(counts, *expected) && !take_turns(kernel, counts, *expected))
      report.add(init,
                 fmt::format("{} is initialised for {} arrivals, but {} threads arrive", place(kernel, cell),
                             *expected, fmt::join(counts, " or ")),
                 arrivals);
  }
}

void check_waits(LintKernel& kernel, Report& report) {
  const Protocol& protocol = kernel.protocol();
  for (const Use& use : protocol.uses)
    if (use.waits && !Dependence(kernel).of(use.operation))
      report.add(use.operation, "the result of this wait is not used");
  if (!protocol.is_complete_for(report)) return;
  for (const auto& [cell, uses] : protocol.by_cell) {
    if (protocol.any(cell, &Use::waits)) continue;
    // Barriers that receive only arrivals are not reported, because they may belong to a role that the
    // kernel's options omit. Another rule reports stages that are filled without a wait.
    const std::set<int> copies = protocol.operations(cell, &Use::copies);
    if (!copies.empty())
      report.add(*copies.begin(), fmt::format("nobody waits for {}", place(kernel, cell)), copies);
  }
}

void check_parity(LintKernel& kernel, Report& report) {
  const Protocol& protocol = kernel.protocol();
  for (const Use& use : protocol.uses) {
    const auto parity = parity_of(kernel, use);
    const int number = working_loop(kernel, use.operation);
    if (use.waits && !parity) report.undecided(use.operation, "the parity of this wait, by a state,");
    if (!parity || number == kNone) continue;
    const Loop& loop = kernel.graph.loops[at(number)];
    if (!runs_each_time(kernel, loop, use.operation) || is_made_anew(kernel, protocol, use, loop)) continue;
    const std::set<int> of_parity = changing(kernel, *parity, loop),
                        of_address = changing(kernel, use.address, loop);
    const auto is_stage = [&](int atom) { return kernel.values.atom(atom).kind == Atom::Kind::stage; };
    if (std::all_of(of_address.begin(), of_address.end(), is_stage) &&
        std::all_of(of_parity.begin(), of_parity.end(),
                    [&](int atom) { return is_stage(atom) && of_address.contains(atom); }))
      report.add(use.operation,
                 fmt::format("a loop waits for the same barrier with parity {} each time",
                             kernel.values.text(*parity, 1)),
                 {}, turning_cure(kernel, protocol, use));
    else if (repeats_a_parity(kernel, use, *parity, loop))
      report.add(use.operation,
                 fmt::format("a loop waits for the same barrier with the same parity twice in a row: {}",
                             kernel.values.text(*parity, 2)),
                 {}, turning_cure(kernel, protocol, use));
  }
  if (!protocol.is_complete_for(report)) return;
  for (const auto& [cell, uses] : protocol.by_cell) {
    if (!protocol.any(cell, &Use::copies)) continue;
    for (const ThreadClass& c : kernel.classes)
      if (const auto first = first_wait(kernel, protocol, c, cell); first && first->parity == 1)
        report.add(protocol.uses[first->use].operation,
                   fmt::format("the first wait for {} is for parity 1, which passes before any copy",
                               place(kernel, cell)),
                   {}, kDataCure);
  }
}

// Finds circular waits. The first phase of barrier A depends on the first phase of barrier B if all threads
// that arrive at A have waited for B before.
void check_circular_wait(LintKernel& kernel, Report& report) {
  const Protocol& protocol = kernel.protocol();
  if (protocol.uses.empty() || !protocol.is_complete_for(report) || !knows_threads(kernel, report)) return;
  std::map<int64_t, std::set<int64_t>> needs;
  std::map<int64_t, int> waits;
  for (const auto& [cell, uses] : protocol.by_cell) {
    std::optional<std::set<int64_t>> all;  // barriers for which the threads of all arrivals have waited
    for (size_t u : uses)
      for (const ThreadClass& c : kernel.classes) {
        const Use& use = protocol.uses[u];
        if (!use.arrives || !protocol.reaches(u, c, cell)) continue;
        std::set<int64_t> own;
        for (const auto& [other, its_uses] : protocol.by_cell)
          if (const auto first = first_wait(kernel, protocol, c, other);
              first && first->parity == 0 &&
              kernel.precedes(protocol.uses[first->use].operation, use.operation)) {
            own.insert(other);
            waits[other] = protocol.uses[first->use].operation;
          }
        if (!all) {
          all = own;
        } else {
          std::erase_if(*all, [&](int64_t other) { return !own.contains(other); });
        }
      }
    if (all) needs[cell] = *all;
  }
  for (const auto& [start, direct] : needs) {
    std::set<int64_t> met;
    std::vector<int64_t> waiting(direct.begin(), direct.end());
    while (!waiting.empty()) {
      const int64_t cell = waiting.back();
      waiting.pop_back();
      if (!met.insert(cell).second) continue;
      if (const auto more = needs.find(cell); more != needs.end())
        waiting.insert(waiting.end(), more->second.begin(), more->second.end());
    }
    if (met.contains(start) && waits.contains(start))
      report.add(waits.at(start), fmt::format("the first wait for {} is for parity 0, but the threads that "
                                              "arrive there wait for something that comes after it",
                                              place(kernel, start)));
  }
}

}  // namespace ptxbuilder::analysis
