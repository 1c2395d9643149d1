// Rules about the resources that a kernel requests, and about instructions that all threads of a warp, or all
// threads that a barrier counts, must execute.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/isa/query.h"

namespace ptxbuilder::analysis {
namespace {

// Returns the number in a directive of the kernel, or nothing if there is no such directive.
std::optional<int64_t> directive(const LintKernel& kernel, std::string_view name) {
  for (const ptx_text::Directive& d : kernel.code.function->directives)
    if (const auto numbers = numbers_of(d); d.tokens[0] == name && !numbers.empty()) return numbers[0];
  return std::nullopt;
}

int64_t floor_to(int64_t value, int64_t step) { return value / step * step; }

// Returns the number of registers that ptxas gives each thread at the start of a kernel with setmaxnreg.
int64_t registers_at_entry(const LintKernel& kernel) {
  if (const auto bound = directive(kernel, ".maxnreg")) return *bound;
  const int64_t ctas = std::max<int64_t>(1, directive(kernel, ".minnctapersm").value_or(1));
  return std::min<int64_t>(floor_to(hopper::sm_registers / ctas / std::max<int64_t>(1, kernel.threads),
                                    hopper::role_register_step),
                           hopper::most_role_registers);
}

// Returns whether an instruction must be executed either by all lanes of a warp or by none.
bool is_aligned(const Operation& o) {
  const bool is_old_barrier = o.is("bar") && !o.has("warp");
  return o.has("aligned") || is_old_barrier;
}

// ---- Floors: the lowest .version and target ----

// Returns the floor of code that requires both floors.
isa::Floor both(const isa::Floor& a, const isa::Floor& b) {
  return {std::max(a.ptx_version, b.ptx_version), a.targets & b.targets};
}

// Returns the lowest .version and the targets that support an instruction, or nothing if the instruction or
// one of its special registers is not known.
std::optional<isa::Floor> floor_of(const Operation& o) {
  if (!o.row) return std::nullopt;
  isa::Floor floor = both(isa::floor_of(*o.row), {0, isa::advised_for(o.text->opcode)});
  for (const Value& v : o.operands) {
    if (v.kind != Value::Kind::special) continue;
    const auto known = isa::floor_of_register(v.text);
    if (!known) return std::nullopt;
    floor = both(floor, *known);
  }
  return floor;
}

// Returns the lowest .version and the targets that support all kernels of a module, or nothing if the module
// contains other functions or unknown instructions.
std::optional<isa::Floor> floor_of(const ptx_text::Module& module) {
  isa::Floor all;
  std::map<std::string, std::optional<isa::Floor>, std::less<>> known;  // caches look-ups
  for (const ptx_text::Statement& s : module.statements) {
    if (s.kind != ptx_text::Statement::Kind::function || !s.function[0].has_body) continue;
    if (!s.function[0].entry) return std::nullopt;
    for (const ptx_text::Directive& d : s.function[0].directives)
      if (d.tokens[0].find("cluster") != std::string::npos)
        all = both(all, {d.tokens[0] == ".blocksareclusters" ? 90 : 78, isa::Sm::sm_90});
    const Code code = Code::of(module, s.function[0].name);
    for (const Operation& o : code.operations) {
      std::string words = fmt::format("{} {}", o.text->opcode, o.text->operands.size());
      for (const Value& v : o.operands)
        if (v.kind == Value::Kind::special) words += fmt::format(" {}", v.text);
      const auto [entry, is_new] = known.try_emplace(words);
      if (is_new) entry->second = floor_of(o);
      const std::optional<isa::Floor>& floor = entry->second;
      if (!floor) return std::nullopt;
      all = both(all, *floor);
    }
  }
  return all;
}

// ---- Named barriers ----

struct Meeting {
  std::set<int64_t> arriving, waiting;  // threads at bar.arrive, and threads at bar.sync
  std::set<int> operations;
  std::map<int, std::set<int64_t>> by_operation = {};

  // A thread that only arrives may continue and wait later, so it is counted twice.
  int64_t count() const { return std::ssize(arriving) + std::ssize(waiting); }
};

bool reaches(LintKernel& kernel, int64_t thread, int64_t cell, bool Use::*does) {
  const Protocol& protocol = kernel.protocol();
  for (size_t u : protocol.by_cell.at(cell))
    for (const ThreadClass& c : kernel.classes)
      if (protocol.uses[u].*does && protocol.reaches(u, c, cell) &&
          std::binary_search(c.threads.begin(), c.threads.end(), thread))
        return true;
  return false;
}

// Returns whether other synchronization may order two warps. Such synchronization exists if one warp waits at
// an mbarrier at which the other warp arrives, or at a barrier at which the other warp does not wait.
bool may_take_turns(LintKernel& kernel, int64_t a, int64_t b) {
  const Protocol& protocol = kernel.protocol();
  if (!protocol.is_complete) return true;
  for (int i = 0; i < kernel.count(); ++i)
    if (const Operation& o = kernel.operation(i); o.is_barrier() && o.has("arrive")) return true;
  const auto of_warp = [&](int64_t thread, int64_t cell, bool Use::*does) {
    for (int64_t lane = 0; lane < hopper::warp_threads; ++lane)
      if (reaches(kernel, thread + lane, cell, does)) return true;
    return false;
  };
  for (const auto& [cell, uses] : protocol.by_cell)
    if ((of_warp(a, cell, &Use::waits) && of_warp(b, cell, &Use::arrives)) ||
        (of_warp(b, cell, &Use::waits) && of_warp(a, cell, &Use::arrives)))
      return true;
  return false;
}

// If more threads may reach a barrier than it expects, returns the first threads of two groups that may reach
// it at the same time.
std::optional<std::pair<int64_t, int64_t>> others_of(LintKernel& kernel, const std::set<int64_t>& threads,
                                                     int64_t count) {
  if (static_cast<int64_t>(threads.size()) <= count || count % hopper::warp_threads != 0) return std::nullopt;
  const std::vector<int64_t> all(threads.begin(), threads.end());
  for (size_t group = static_cast<size_t>(count); group < all.size(); group += static_cast<size_t>(count))
    if (!may_take_turns(kernel, all[0], all[group])) return std::pair(all[0], all[group]);
  return std::nullopt;
}

// Returns whether all threads that may reach an instruction reach it together.
bool come_as_one(const LintKernel& kernel, int i) {
  return std::all_of(kernel.classes.begin(), kernel.classes.end(), [&](const ThreadClass& c) {
    return c.runs[at(i)] == Runs::no || (c.runs[at(i)] == Runs::yes && kernel.comes_as_one(c, i));
  });
}

}  // namespace

// If registers have no bound, ptxas 13.0 reports "unable to determine register count at entry", and drops
// setmaxnreg. If there is only .maxntid, ptxas does so only for kernels that need few registers. The
// registers that a kernel needs cannot be determined here.
void check_register_bound(LintKernel& kernel, Report& report) {
  const bool is_bounded = directive(kernel, ".maxnreg") || kernel.code.cta_shape()[0] > 0;
  if (is_bounded) return;
  for (int i = 0; i < kernel.count(); ++i)
    if (kernel.operation(i).is("setmaxnreg")) {
      report.add(
          i, "ptxas ignores setmaxnreg, since the number of registers at the kernel's entry is not bounded");
      return;
    }
}

bool knows_threads(const LintKernel& kernel, Report& report) {
  if (kernel.threads == 0 && kernel.count() > 0) report.undecided(0, "how many threads run this kernel");
  return kernel.threads > 0;
}

void check_register_pool(LintKernel& kernel, Report& report) {
  const auto sets = [&](int i) { return kernel.operation(i).is("setmaxnreg"); };
  bool any = false;
  for (int i = 0; i < kernel.count(); ++i) any |= sets(i);
  if (!any || !knows_threads(kernel, report)) return;
  const int64_t entry = registers_at_entry(kernel);
  // A thread that sets its register count several times may have its smallest count when another thread waits
  // for registers.
  std::map<int64_t, int64_t> least;
  int largest = kNone;
  const auto each_thread = [&](int i, const auto& body) {
    for (const ThreadClass& c : kernel.classes)
      if (c.runs[at(i)] != Runs::no)
        for (int64_t t : c.threads) body(t);
  };
  for (int i = 0; i < kernel.count(); ++i) {
    if (!kernel.operation(i).is("setmaxnreg")) continue;
    const Sum asked = kernel.operand(i, 0);
    if (!asked.is_constant()) return report.undecided(i, "how many registers this requests");
    each_thread(i, [&](int64_t t) {
      int64_t& of_thread = least.emplace(t, asked.constant).first->second;
      of_thread = std::min(of_thread, asked.constant);
    });
    if (kernel.operation(i).has("inc") &&
        (largest == kNone || asked.constant > kernel.operand(largest, 0).constant))
      largest = i;
  }
  if (largest == kNone) return;
  each_thread(largest, [&](int64_t t) { least[t] = kernel.operand(largest, 0).constant; });
  int64_t sum = entry * (kernel.threads - std::ssize(least));
  for (const auto& [thread, count] : least) sum += count;
  if (sum > entry * kernel.threads)
    report.add(
        largest,
        fmt::format("the roles request {} registers together, but the CTA begins with {} ({} threads of {})",
                    sum, entry * kernel.threads, kernel.threads, entry));
}

void check_aligned(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    if (!is_aligned(kernel.operation(i))) continue;
    for (const auto& [warp, count] : kernel.lanes_that_run(i)) {
      const int64_t all =
          std::min<int64_t>(hopper::warp_threads, kernel.threads - warp * hopper::warp_threads);
      if (count < all)
        report.add(i, fmt::format("{} runs in {} of the {} lanes of warp {}, but all of them must execute it",
                                  kernel.operation(i).text->opcode, count, all, warp));
    }
  }
}

void check_named_barriers(LintKernel& kernel, Report& report) {
  std::map<std::pair<int64_t, int64_t>, Meeting> meetings;  // indexed by barrier number and thread count
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (!o.is_barrier() || o.has("cluster", "warp")) continue;
    if (o.has("red")) return;  // a reduction also counts threads, but has other operands
    if (o.operands.size() < 2) continue;
    const Sum count = kernel.operand(i, 1);
    if (!count.is_constant()) return report.undecided(i, "how many threads this barrier is for");
    if (count.constant % hopper::warp_threads != 0)
      report.add(
          i, fmt::format("{} is for {} threads, which are not whole warps", o.text->opcode, count.constant));
    for (const ThreadClass& c : kernel.classes) {
      if (c.runs[at(i)] == Runs::no) continue;
      if (c.threads.empty()) return report.undecided(i, "how many threads reach this barrier");
      kernel.spend(c.threads.size());
      for (int64_t t : c.threads) {
        const auto number = kernel.values_in(t)(kernel.operand(i, 0));
        if (!number) return report.undecided(i, "which barrier this is");
        Meeting& meeting = meetings[{*number, count.constant}];
        (o.has("arrive") ? meeting.arriving : meeting.waiting).insert(t);
        meeting.operations.insert(i);
        meeting.by_operation[i].insert(t);
      }
    }
  }
  for (const auto& [key, meeting] : meetings)
    if (const int64_t come = meeting.count(); come < key.second)
      report.add(*meeting.operations.begin(),
                 fmt::format("barrier {} is for {} threads, but {} reach it", key.first, key.second, come),
                 meeting.operations);
  for (const auto& [key, meeting] : meetings)
    for (const auto& [i, threads] : meeting.by_operation)
      if (const auto others = others_of(kernel, threads, key.second); others && come_as_one(kernel, i))
        report.add(i,
                   fmt::format("barrier {} is for {} threads, but {} reach it here, and nothing makes "
                               "threads {} and {} take turns",
                               key.first, key.second, threads.size(), others->first, others->second),
                   {}, "Use a separate barrier for each group of threads, or count all of them.");
}

// Checks the .version of the module. An error is reported only for the module's first kernel.
void check_version(LintKernel& kernel, Report& report) {
  if (kernel.code.name != kernels_of(kernel.module).front()) return;
  const std::optional<isa::Floor> floor = floor_of(kernel.module);
  if (!floor || floor->targets.empty()) return;
  for (const ptx_text::Statement& s : kernel.module.statements) {
    if (s.kind != ptx_text::Statement::Kind::directive) continue;
    const std::vector<std::string>& tokens = s.directive.tokens;
    if (tokens.size() < 2) continue;
    for (const isa::Target& target : isa::targets()) {
      if (tokens[0] != ".target" || tokens[1] != target.name) continue;
      const isa::Target& least = floor->targets.least();
      if (least.sm != target.sm && isa::runs_on(least.sm, target.sm))
        report.add_at(s.at, fmt::format("the target is {}, but the instructions need {}", target.name,
                                        floor->targets.text()));
    }
    if (tokens[0] != ".version") continue;
    int needed = floor->ptx_version;
    for (const ptx_text::Statement& other : kernel.module.statements)
      if (other.kind == ptx_text::Statement::Kind::directive && other.directive.tokens[0] == ".target" &&
          other.directive.tokens.size() > 1)
        for (const isa::Target& target : isa::targets())
          if (other.directive.tokens[1] == target.name) needed = std::max(needed, target.ptx_version);
    if (version_number(tokens[1]) > needed)
      report.add_at(s.at, fmt::format("the version is {}, but the instructions and the target need {}",
                                      tokens[1], isa::version_text(needed)));
  }
}

}  // namespace ptxbuilder::analysis
