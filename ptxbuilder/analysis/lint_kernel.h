// Holds the state that the rules of lint.h share: a kernel, and its threads grouped by the path that they
// take.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/analysis/thread_values.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {

class Paths;     // lint_paths.h
class Protocol;  // lint_protocol.h

enum class Runs : uint8_t { no, maybe, yes };

// An event that a walk finds; the rule for this kind of event reports it.
struct LintEvent {
  int kind = 0, operation = kNone, other = kNone;  // `operation` and `other` are instructions
  std::string what = {};

  auto operator<=>(const LintEvent&) const = default;
};

// A class of threads that take the same direction at each branch.
struct ThreadClass {
  std::vector<int64_t> threads = {};  // numbers in ascending order; empty if the kernel does not bound them
  std::map<int64_t, int> lanes = {};  // number of these threads in each warp
  std::vector<Runs> runs = {};        // by instruction
  std::vector<std::vector<int>> successors = {};  // by block, the successors that can be reached
  std::vector<bool> reached = {};                 // by block
  std::vector<int> varying = {};                  // blocks at whose branches threads of the class may differ
};

// Stops a rule that would take too long, so that other rules can still report.
struct GaveUp {};

class LintKernel {
 public:
  LintKernel(const ptx_text::Module& module, std::string_view name, const TensorMaps& maps = {});
  LintKernel(const LintKernel&) = delete;

  const Operation& operation(int i) const { return code.operations[at(i)]; }
  int count() const { return static_cast<int>(code.operations.size()); }
  uint32_t line(int i) const { return operation(i).at.line; }
  Sum operand(int i, size_t n) {
    return n < operation(i).operands.size() ? values.of(i, operation(i).operands[n]) : Sum{};
  }
  // Returns the operands that are addresses, in order.
  std::vector<Sum> addresses(int i);
  bool ends(int i) const { return operation(i).is("ret", "exit"); }
  // Returns whether the instruction `above` precedes `below` on every path to `below`.
  bool precedes(int above, int below) const;
  bool runs(int i) const;                              // in any thread
  std::map<int64_t, int> lanes_that_run(int i) const;  // by warp; includes lanes that may run it
  // Returns whether either all threads of a class, or none, reach an instruction, as far as is known.
  bool comes_as_one(const ThreadClass& c, int i) const;
  // Returns the values in a thread, or in the first thread of a class; kNone stands for an unknown thread.
  ThreadValues& values_in(int64_t thread);
  ThreadValues& values_in(const ThreadClass& c) {
    return values_in(c.threads.empty() ? kNone : c.threads[0]);
  }
  // Returns whether a value is the same in all threads of a CTA.
  bool is_uniform(const Sum& sum) const;
  // Returns a predicate without the conditions that the thread's number determines; the result may be
  // negated.
  Sum undecided(const Sum& predicate, ThreadValues& in) const;
  // Returns the paths of a class, computed on first use.
  Paths& paths(const ThreadClass& c);
  Protocol& protocol();
  // A walk that collects the events from which several rules report; it runs only once.
  using Walk = std::set<LintEvent> (*)(LintKernel&);
  const std::set<LintEvent>& events(Walk walk);
  // Shared variables are assumed to be this far apart, whatever their size: an address whose constant is near
  // a multiple of this distance belongs to the variable that begins at the multiple.
  static constexpr int64_t apart = 1 << 19;  // bytes
  // Returns the offset of a shared address from the start of the first variable, in bytes, plus unknown
  // terms, or nothing if the address is not known to be in shared memory.
  std::optional<Sum> shared_offset(const Sum& address);
  // Returns the shared variable to which an offset belongs, or null if there is none. Arrays whose length the
  // host sets all begin at the same address, and the first one represents all of them.
  const Variable* variable_at(int64_t offset) const;
  // Returns the variable whose address an atom is, or null if it is not the address of one.
  const Variable* variable_of(const Atom& atom) const;
  // Returns the offset at which that variable begins.
  static int64_t nearest(int64_t offset) { return index_of(offset) * apart; }
  bool are_of_one_variable(int64_t a, int64_t b) const { return index_of(a) == index_of(b); }
  // Returns "shared memory + 64", or "full + 8" if there are several variables.
  std::string place(int64_t offset) const;

  // Begins counting the steps of a rule, which throws GaveUp if there are too many.
  void begin_rule() const { steps_left_ = kMostSteps; }
  void spend(size_t steps) const {
    if (steps > steps_left_) throw GaveUp();
    steps_left_ -= steps;
  }

  const ptx_text::Module& module;
  const TensorMaps maps;
  const Code code;
  const Graph graph;

 private:
  Numbering numbering_;

 public:
  Values values;
  int64_t threads = 0;  // threads of a CTA; 0 if not known, or if not all are along x
  std::vector<ThreadClass> classes;
  bool is_by_thread = true;  // whether there are few enough threads to group them by their branches
  std::vector<const Variable*> variables;         // variables that the kernel's instructions name
  std::vector<const Variable*> shared_variables;  // the shared ones among them, each at a multiple of `apart`

 private:
  static constexpr size_t kMostSteps = 5'000'000;  // takes a second or less
  struct Guard {
    int operation;
    Sum predicate;
    int number = kNone;  // number among the predicates that a thread's number may decide
  };
  void find_classes();
  ThreadClass make_class(const std::vector<Guard>& guards, const std::vector<std::optional<bool>>& decisions,
                         ThreadValues& in);
  static int64_t index_of(int64_t offset) { return (offset + apart / 2) / apart; }
  void find_uniform();

  mutable size_t steps_left_ = kMostSteps;
  std::map<int64_t, ThreadValues> by_thread_;
  std::vector<bool> uniform_;  // by atom
  std::map<const ThreadClass*, std::shared_ptr<Paths>> paths_;
  std::shared_ptr<Protocol> protocol_;
  std::map<Walk, std::optional<std::set<LintEvent>>> events_;  // empty for a walk that gave up
};

// Visits each atom of a sum once: `visit(number, atom)` returns whether to continue with the atom's inputs.
template <typename Visit>
void visit_atoms(const Values& values, const Sum& sum, const Visit& visit) {
  std::set<int> met;
  std::vector<int> waiting;
  const auto add = [&](const Sum& some) {
    for (const auto& term : some.terms)
      if (met.insert(term.first).second) waiting.push_back(term.first);
  };
  add(sum);
  while (!waiting.empty()) {
    const int number = waiting.back();
    waiting.pop_back();
    const Atom& a = values.atom(number);
    if (!visit(number, a)) continue;
    for (const Sum& input : a.inputs) add(input);
  }
}

// Returns the bytes that a load or a store moves in one thread.
int64_t access_bytes(const Operation& o);

// Returns 86 for "8.6", the text of .version, or 0 for any other text.
int version_number(std::string_view text);

// Collects the findings of one rule, one for each instruction, with the rule's remedy unless the finding has
// its own.
class Report {
 public:
  Report(const LintKernel& kernel, std::string_view rule, std::string_view cure, Undecided undecided)
      : kernel_(kernel), rule_(rule), cure_(cure), undecided_(undecided) {}

  void add(int operation, std::string what, const std::set<int>& others = {}, std::string_view cure = {});
  void add_at(ptx_text::Position at, std::string what);
  // Reports that the rule skips an instruction, and why.
  void undecided(int operation, std::string_view why);
  bool tells_undecided() const { return undecided_ == Undecided::all; }
  std::vector<Finding> findings;

 private:
  const LintKernel& kernel_;
  std::string_view rule_, cure_;
  Undecided undecided_;
  std::set<int> reported_;
};

// Reports the events of one kind in a walk, with the events' own messages. Returns whether the kernel
// declares how many threads a CTA has; if it does not, adds this to the report.
bool knows_threads(const LintKernel& kernel, Report& report);

void report_events(LintKernel& kernel, LintKernel::Walk walk, int kind, Report& report);

using Check = void (*)(LintKernel&, Report&);

// Declares the rules, by source file.
void check_wgmma_fence(LintKernel&, Report&);
void check_accumulators(LintKernel&, Report&);
void check_wgmma_groups(LintKernel&, Report&);
void check_layouts(LintKernel&, Report&);

void check_tensor_memory_wait(LintKernel&, Report&);
void check_tensor_memory_fence(LintKernel&, Report&);

void check_proxy_fence(LintKernel&, Report&);
void check_store_order(LintKernel&, Report&);
void check_staging(LintKernel&, Report&);
void check_bulk_groups(LintKernel&, Report&);

void check_copy_wait(LintKernel&, Report&);
void report_unfenced_writes(LintKernel&, Report&);  // part of the rule about proxies

void check_barrier_published(LintKernel&, Report&);
void check_barrier_fence(LintKernel&, Report&);
void check_barrier_initialised(LintKernel&, Report&);
void check_arrivals(LintKernel&, Report&);
void check_expected_bytes(LintKernel&, Report&);
void check_stages(LintKernel&, Report&);
void check_waits(LintKernel&, Report&);
void check_parity(LintKernel&, Report&);
void check_circular_wait(LintKernel&, Report&);
void check_release(LintKernel&, Report&);
void check_refill(LintKernel&, Report&);

void check_schedule(LintKernel&, Report&);

void check_cluster_entry(LintKernel&, Report&);
void check_cluster_exit(LintKernel&, Report&);
void check_cluster_address(LintKernel&, Report&);

void check_alignment(LintKernel&, Report&);
void check_bank_conflicts(LintKernel&, Report&);
void check_generic(LintKernel&, Report&);

void check_target(LintKernel&, Report&);
void check_declarations(LintKernel&, Report&);
void check_constants(LintKernel&, Report&);
void check_constant_space(LintKernel&, Report&);

void check_declared(LintKernel&, Report&);
void check_known(LintKernel&, Report&);
void check_variable_alignment(LintKernel&, Report&);
void check_register_count(LintKernel&, Report&);

void check_register_bound(LintKernel&, Report&);
void check_register_pool(LintKernel&, Report&);
void check_aligned(LintKernel&, Report&);
void check_named_barriers(LintKernel&, Report&);
void check_version(LintKernel&, Report&);

}  // namespace ptxbuilder::analysis
