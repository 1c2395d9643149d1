#include "ptxbuilder/analysis/lint_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ptxbuilder::analysis {
namespace {

// Returns whether the values of a special register may differ between threads of a CTA.
bool is_own(std::string_view special) {
  for (const char* name : {"%tid", "%laneid", "%warpid", "%lanemask", "%clock", "%globaltimer"})
    if (special.starts_with(name)) return true;
  return false;
}

bool is_shared(const Variable& v) { return v.space == ".shared"; }

void mark_variables(const Value& v, std::vector<bool>& named) {
  if (v.kind == Value::Kind::symbol && v.number != kNone) named[at(v.number)] = true;
  for (const Value& part : v.parts) mark_variables(part, named);
}

// Returns the variables that are named in instructions.
std::vector<const Variable*> named_variables(const Code& code) {
  std::vector<bool> named(code.variables.size(), false);
  for (const Operation& o : code.operations)
    for (const Value& v : o.operands) mark_variables(v, named);
  std::vector<const Variable*> variables;
  for (size_t v = 0; v < named.size(); ++v)
    if (named[v]) variables.push_back(&code.variables[v]);
  return variables;
}

std::vector<const Variable*> shared_of(const std::vector<const Variable*>& variables) {
  std::vector<const Variable*> all;
  const Variable* open = nullptr;  // the first variable whose size the host sets
  for (const Variable* v : variables) {
    if (!is_shared(*v) || (open && v->is_open())) continue;
    if (v->is_open()) open = v;
    all.push_back(v);
  }
  return all;
}

}  // namespace

LintKernel::LintKernel(const ptx_text::Module& m, std::string_view name, const TensorMaps& tensor_maps)
    : module(m),
      maps(tensor_maps),
      code(Code::of(m, name)),
      graph(Graph::of(code)),
      values(code, graph, numbering_),
      variables(named_variables(code)),
      shared_variables(shared_of(variables)) {
  find_uniform();
  if (const auto shape = code.cta_shape(); shape[1] == 1 && shape[2] == 1 && shape[0] <= hopper::cta_threads)
    threads = shape[0];
  find_classes();
}

void LintKernel::find_classes() {
  std::vector<Guard> guards;
  std::vector<Sum> predicates;  // predicates that may depend on a thread's number
  std::map<std::pair<int64_t, std::vector<std::pair<int, int64_t>>>, int> numbers;
  for (int i = 0; i < count(); ++i) {
    if (operation(i).guard == kNone || !graph.reaches(graph.block_of[at(i)])) continue;
    Guard guard{.operation = i, .predicate = values.before(i, operation(i).guard)};
    const std::vector<std::pair<int, int64_t>>& terms = guard.predicate.terms;
    if (std::all_of(terms.begin(), terms.end(),
                    [&](const auto& term) { return values.place_in_thread(term.first) != kNone; })) {
      const auto [known, is_new] =
          numbers.try_emplace({guard.predicate.constant, terms}, static_cast<int>(predicates.size()));
      if (is_new) predicates.push_back(guard.predicate);
      guard.number = known->second;
    }
    guards.push_back(std::move(guard));
  }
  using Decisions = std::vector<std::optional<bool>>;
  const auto decisions_in = [&](ThreadValues& in) {
    Decisions decisions;
    for (const Sum& predicate : predicates) {
      const auto value = in(predicate);
      decisions.push_back(value ? std::optional(*value != 0) : std::nullopt);
    }
    return decisions;
  };
  std::map<Decisions, std::vector<int64_t>> members;
  constexpr size_t kMostDecisions = 20'000'000, kMostRuns = 200'000'000;
  is_by_thread = predicates.size() * static_cast<size_t>(threads) <= kMostDecisions;
  for (int64_t t = 0; is_by_thread && t < threads; ++t) members[decisions_in(values_in(t))].push_back(t);
  is_by_thread = is_by_thread && members.size() * code.operations.size() <= kMostRuns;
  if (!is_by_thread) {
    by_thread_.clear();
    members.clear();
    threads = 0;
  }
  if (threads == 0) members[decisions_in(values_in(kNone))] = {};
  for (const auto& [decisions, of_class] : members) {
    classes.push_back(make_class(guards, decisions, values_in(of_class.empty() ? kNone : of_class[0])));
    classes.back().threads = of_class;
    for (int64_t t : of_class) ++classes.back().lanes[t / hopper::warp_threads];
  }
}

ThreadClass LintKernel::make_class(const std::vector<Guard>& guards,
                                   const std::vector<std::optional<bool>>& decisions, ThreadValues& in) {
  ThreadClass c;
  c.runs.assign(code.operations.size(), Runs::yes);
  for (const Guard& guard : guards) {
    const auto holds = guard.number == kNone ? std::nullopt : decisions[at(guard.number)];
    c.runs[at(guard.operation)] = !holds                                         ? Runs::maybe
                                  : *holds != operation(guard.operation).negated ? Runs::yes
                                                                                 : Runs::no;
  }
  c.successors.resize(graph.blocks.size());
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    const Block& block = graph.blocks[b];
    c.successors[b] = block.successors;
    if (block.first == block.last) continue;
    const Operation& last = operation(block.last - 1);
    const Runs runs = c.runs[at(block.last - 1)];
    const bool turns = !last.targets.empty() || ends(block.last - 1);
    if (last.guard == kNone || runs == Runs::maybe || !turns) continue;
    std::erase_if(c.successors[b], [&](int next) {
      const int first = graph.blocks[at(next)].first;
      const bool is_target = std::find(last.targets.begin(), last.targets.end(), first) != last.targets.end();
      return runs == Runs::yes ? !is_target : first != block.last;
    });
  }
  c.reached.assign(graph.blocks.size(), false);
  for (std::vector<int> waiting = {0}; !waiting.empty();) {
    const int b = waiting.back();
    waiting.pop_back();
    if (c.reached[at(b)]) continue;
    c.reached[at(b)] = true;
    for (int next : c.successors[at(b)]) waiting.push_back(next);
  }
  for (int i = 0; i < count(); ++i)
    if (!c.reached[at(graph.block_of[at(i)])]) c.runs[at(i)] = Runs::no;
  for (const Guard& guard : guards)
    if (c.runs[at(guard.operation)] == Runs::maybe && !operation(guard.operation).targets.empty() &&
        !is_uniform(undecided(guard.predicate, in)))
      c.varying.push_back(graph.block_of[at(guard.operation)]);
  return c;
}

std::vector<Sum> LintKernel::addresses(int i) {
  std::vector<Sum> all;
  for (const Value& v : operation(i).operands)
    if (v.kind == Value::Kind::address) all.push_back(values.of(i, v));
  return all;
}

bool LintKernel::precedes(int above, int below) const {
  spend(1);
  const int a = graph.block_of[at(above)], b = graph.block_of[at(below)];
  return a == b ? above < below : graph.reaches(b) && graph.dominates(a, b);
}

bool LintKernel::runs(int i) const {
  return std::any_of(classes.begin(), classes.end(),
                     [&](const ThreadClass& c) { return c.runs[at(i)] != Runs::no; });
}

std::map<int64_t, int> LintKernel::lanes_that_run(int i) const {
  std::map<int64_t, int> all;
  for (const ThreadClass& c : classes)
    if (c.runs[at(i)] != Runs::no)
      for (const auto& [warp, lanes] : c.lanes) all[warp] += lanes;
  spend(all.size() + classes.size());
  return all;
}

bool LintKernel::comes_as_one(const ThreadClass& c, int i) const {
  const int target = graph.block_of[at(i)];
  const auto reaches = [&](int from, int without) {
    spend(graph.blocks.size() / 64 + 1);
    std::vector<bool> met(graph.blocks.size(), false);
    std::vector<int> waiting = {from};
    while (!waiting.empty()) {
      const int b = waiting.back();
      waiting.pop_back();
      spend(1);
      if (b == target) return true;
      if (b == without || met[at(b)]) continue;
      met[at(b)] = true;
      waiting.insert(waiting.end(), c.successors[at(b)].begin(), c.successors[at(b)].end());
    }
    return false;
  };
  // A branch separates the threads if the instruction is on only one of its sides.
  return std::all_of(c.varying.begin(), c.varying.end(), [&](int branch) {
    const std::vector<int>& sides = c.successors[at(branch)];
    const auto behind =
        std::count_if(sides.begin(), sides.end(), [&](int side) { return reaches(side, branch); });
    return behind == 0 || behind == static_cast<int64_t>(sides.size());
  });
}

const std::set<LintEvent>& LintKernel::events(Walk walk) {
  const auto [known, is_new] = events_.try_emplace(walk);
  if (is_new) {
    try {
      known->second = walk(*this);
    } catch (const GaveUp&) {  // nothing is stored, so that the walk gives up for every caller
    }
  }
  if (!known->second) throw GaveUp();
  return *known->second;
}

ThreadValues& LintKernel::values_in(int64_t thread) {
  const auto number = thread == kNone ? std::nullopt : std::optional(thread);
  return by_thread_.try_emplace(thread, values, number).first->second;
}

bool LintKernel::is_uniform(const Sum& sum) const {
  return std::all_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
    return at(term.first) < uniform_.size() && uniform_[at(term.first)];
  });
}

void LintKernel::find_uniform() {
  uniform_.assign(at(values.atoms()), true);
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < values.atoms(); ++i) {
      const Atom& a = values.atom(i);
      bool uniform = a.kind != Atom::Kind::unknown && !a.name.starts_with("elect") &&
                     !(a.kind == Atom::Kind::special && is_own(a.name));
      // The result of a wait counts as uniform, because every thread that has passed the wait has seen it
      // succeed.
      if (!a.name.starts_with("mbarrier.try_wait") && !a.name.starts_with("mbarrier.test_wait"))
        for (const Sum& input : a.inputs) uniform = uniform && is_uniform(input);
      if (uniform_[at(i)] != uniform) uniform_[at(i)] = uniform, changed = true;
    }
  }
}

Sum LintKernel::undecided(const Sum& predicate, ThreadValues& in) const {
  const Sum* left = &predicate;
  for (bool shorter = true; shorter;) {
    shorter = false;
    if (left->terms.size() != 1 || left->constant != 0) break;
    const Atom& a = values.atom(left->terms[0].first);
    if (a.name == "not.pred") {
      left = &a.inputs[0];
      shorter = true;
    } else if (a.name == "and.pred" || a.name == "or.pred") {
      for (size_t i = 0; i < 2 && !shorter; ++i)
        if (in(a.inputs[i])) left = &a.inputs[1 - i], shorter = true;
    }
  }
  return *left;
}

std::optional<Sum> LintKernel::shared_offset(const Sum& address) {
  Sum offset{.constant = address.constant};
  bool is_shared = false;
  for (const auto& term : address.terms) {
    const Variable* v = term.second == 1 ? variable_of(values.atom(term.first)) : nullptr;
    const auto place = std::find_if(
        shared_variables.begin(), shared_variables.end(),
        [&](const Variable* other) { return other == v || (v && v->is_open() && other->is_open()); });
    if (v && place != shared_variables.end()) {
      is_shared = true;
      offset.constant += apart * (place - shared_variables.begin());
    } else {
      offset.terms.push_back(term);
    }
  }
  return is_shared ? std::optional(offset) : std::nullopt;
}

const Variable* LintKernel::variable_of(const Atom& a) const {
  const bool is_variable = a.object != kNone && at(a.object) < code.variables.size();
  return is_variable ? &code.variables[at(a.object)] : nullptr;
}

const Variable* LintKernel::variable_at(int64_t offset) const {
  const int64_t index = index_of(offset);
  return index >= 0 && index < std::ssize(shared_variables) ? shared_variables[at(static_cast<int>(index))]
                                                            : nullptr;
}

std::string LintKernel::place(int64_t offset) const {
  const Variable* v = shared_variables.size() > 1 ? variable_at(offset) : nullptr;
  return v ? fmt::format("{} + {}", v->name, offset - nearest(offset))
           : fmt::format("shared memory + {}", offset);
}

int64_t access_bytes(const Operation& o) {
  int64_t bytes = 0, count = 1;
  for (std::string_view word : o.words) {
    if (word == "v2" || word == "v4" || word == "v8") count = word[1] - '0';
    for (const auto& [suffix, size] : {std::pair("8", 1), {"16", 2}, {"32", 4}, {"64", 8}, {"128", 16}})
      if (word.size() > 1 && word.substr(1) == suffix &&
          std::string_view("bsuf").find(word[0]) != std::string::npos)
        bytes = size;
  }
  return bytes * count;
}

int version_number(std::string_view text) {
  return text.size() == 3 && text[1] == '.' ? (text[0] - '0') * 10 + (text[2] - '0') : 0;
}

void Report::add(int operation, std::string what, const std::set<int>& others, std::string_view cure) {
  if (!reported_.insert(operation).second) return;
  add_at(kernel_.operation(operation).at, std::move(what));
  std::set<uint32_t> lines;
  for (int other : others)
    if (other != operation && other != kNone) lines.insert(kernel_.line(other));
  findings.back().lines.assign(lines.begin(), lines.end());
  if (!cure.empty()) findings.back().cure = cure;
}

void Report::undecided(int operation, std::string_view why) {
  if (!tells_undecided()) return;
  add_at(kernel_.operation(operation).at, fmt::format("{} is not known", why));
  findings.back().cure = "Run it with `ptxb sim`, which knows all values of a launch.";
  findings.back().is_undecided = true;
}

void Report::add_at(ptx_text::Position at, std::string what) {
  findings.push_back(
      {.rule = rule_, .line = at.line, .column = at.column, .what = std::move(what), .cure = cure_});
}

void report_events(LintKernel& kernel, LintKernel::Walk walk, int kind, Report& report) {
  for (const LintEvent& event : kernel.events(walk))
    if (event.kind == kind) report.add(event.operation, event.what, {event.other});
}

}  // namespace ptxbuilder::analysis
