// Holds the state that the rules of lint.h share, which consists of a kernel and of its threads, grouped by
// the paths that they follow.
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

// An event that a walk finds. The rule for the event's kind reports it.
struct LintEvent {
  int kind = 0, operation = kNone, other = kNone;  // `operation` and `other` are instructions
  std::string what = {};

  auto operator<=>(const LintEvent&) const = default;
};

// A class of threads that take the same direction at each branch.
struct ThreadClass {
  std::vector<int64_t> threads = {};  // in ascending order; empty if the kernel does not bound them
  std::map<int64_t, int> lanes = {};  // number of the class's threads in each warp
  std::vector<Runs> runs = {};        // indexed by instruction
  std::vector<std::vector<int>> successors = {};  // for each block, the successors that can be reached
  std::vector<bool> reached = {};                 // indexed by block
  std::vector<int> varying = {};                  // blocks at whose ends threads may take different branches
};

// Thrown to stop a rule that needs too many steps, so that other rules can still report.
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
  bool runs(int i) const;  // returns whether the instruction runs in any thread
  // Returns the number of lanes in each warp that may run the instruction.
  std::map<int64_t, int> lanes_that_run(int i) const;
  // Returns whether the threads of a class reach an instruction together, because no branch at which they may
  // diverge decides whether they reach it.
  bool comes_as_one(const ThreadClass& c, int i) const;
  // Returns the values in a thread, or in the first thread of a class. kNone denotes an unknown thread.
  ThreadValues& values_in(int64_t thread);
  ThreadValues& values_in(const ThreadClass& c) {
    return values_in(c.threads.empty() ? kNone : c.threads[0]);
  }
  // Returns whether a value is the same in all threads of a CTA.
  bool is_uniform(const Sum& sum) const;
  // Returns a predicate without the conditions that the thread's number decides. The result may be negated.
  Sum undecided(const Sum& predicate, ThreadValues& in) const;
  // Returns the paths of a class, computed on first use.
  Paths& paths(const ThreadClass& c);
  Protocol& protocol();
  // A walk that collects events for several rules. events() runs each walk only once.
  using Walk = std::set<LintEvent> (*)(LintKernel&);
  const std::set<LintEvent>& events(Walk walk);
  // The distance between the assumed addresses of shared variables. It does not depend on the sizes of the
  // variables. An address whose constant is near a multiple of this distance belongs to the variable that
  // begins at that multiple.
  static constexpr int64_t apart = 1 << 19;  // bytes
  // Returns the offset of a shared address from the start of the first variable, in bytes, plus unknown
  // terms. Returns nothing if the address is not known to be in shared memory.
  std::optional<Sum> shared_offset(const Sum& address);
  // Returns the shared variable to which an offset belongs, or null if there is none. All arrays whose length
  // the host sets begin at the same address, and are represented by the first of these arrays.
  const Variable* variable_at(int64_t offset) const;
  // Returns the variable if the atom is the address of a variable, and otherwise null.
  const Variable* variable_of(const Atom& atom) const;
  // Returns the offset at which the variable nearest to `offset` begins.
  static int64_t nearest(int64_t offset) { return index_of(offset) * apart; }
  bool are_of_one_variable(int64_t a, int64_t b) const { return index_of(a) == index_of(b); }
  // Returns a string such as "shared memory + 64", or "full + 8" if there are several variables.
  std::string place(int64_t offset) const;

  // Resets the number of steps for a new rule. spend() throws GaveUp if a rule needs too many steps.
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
  int64_t threads = 0;  // threads of a CTA; 0 if their number is not known, or if the CTA has more than one
                        // dimension
  std::vector<ThreadClass> classes;
  bool is_by_thread = true;                // true if the number of threads is small enough to group them
  std::vector<const Variable*> variables;  // variables that are named in the kernel's instructions
  std::vector<const Variable*> shared_variables;  // variables in shared memory, at multiples of `apart`

 private:
  static constexpr size_t kMostSteps = 5'000'000;  // this number of steps needs at most a second
  struct Guard {
    int operation;
    Sum predicate;
    int number = kNone;  // index among the predicates that may depend on a thread's number
  };
  void find_classes();
  ThreadClass make_class(const std::vector<Guard>& guards, const std::vector<std::optional<bool>>& decisions,
                         ThreadValues& in);
  static int64_t index_of(int64_t offset) { return (offset + apart / 2) / apart; }
  void find_uniform();

  mutable size_t steps_left_ = kMostSteps;
  std::map<int64_t, ThreadValues> by_thread_;
  std::vector<bool> uniform_;  // indexed by atom
  std::map<const ThreadClass*, std::shared_ptr<Paths>> paths_;
  std::shared_ptr<Protocol> protocol_;
  std::map<Walk, std::optional<std::set<LintEvent>>> events_;  // empty for a walk that gave up
};

// Visits each atom of a sum once. `visit(number, atom)` returns whether to continue with the atom's inputs.
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

// Returns the number of bytes that a load or a store moves in one thread.
int64_t access_bytes(const Operation& o);

// Returns 86 for "8.6", the text of .version, or 0 for any other text.
int version_number(std::string_view text);

// Collects the findings of one rule, one for each instruction. A finding for which no remedy is given gets
// the rule's remedy.
class Report {
 public:
  Report(const LintKernel& kernel, std::string_view rule, std::string_view cure, Undecided undecided)
      : kernel_(kernel), rule_(rule), cure_(cure), undecided_(undecided) {}

  void add(int operation, std::string what, const std::set<int>& others = {}, std::string_view cure = {});
  void add_at(ptx_text::Position at, std::string what);
  // Reports that the rule skips an instruction, and the reason.
  void undecided(int operation, std::string_view why);
  bool tells_undecided() const { return undecided_ == Undecided::all; }
  std::vector<Finding> findings;

 private:
  const LintKernel& kernel_;
  std::string_view rule_, cure_;
  Undecided undecided_;
  std::set<int> reported_;
};

// Returns whether the kernel declares the number of threads of a CTA. If the declaration is missing, reports
// the rule as undecided.
bool knows_threads(const LintKernel& kernel, Report& report);

// Reports the events of one kind that a walk finds, with the messages stored in the events.
void report_events(LintKernel& kernel, LintKernel::Walk walk, int kind, Report& report);

using Check = void (*)(LintKernel&, Report&);

// The functions of the rules, grouped by source file.
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
