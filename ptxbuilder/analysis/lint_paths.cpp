#include "ptxbuilder/analysis/lint_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ptxbuilder::analysis {

Paths& LintKernel::paths(const ThreadClass& c) {
  std::shared_ptr<Paths>& known = paths_[&c];
  if (!known) known = std::make_shared<Paths>(*this, c);
  return *known;
}

Paths::Paths(LintKernel& kernel, const ThreadClass& c)
    : kernel_(kernel), class_(c), in_(kernel.values_in(c)), live_(kernel.graph.blocks.size()) {
  for (int i = 0; i < kernel.count(); ++i)
    if (c.runs[at(i)] == Runs::maybe) guards_[i] = kernel.values.before(i, kernel.operation(i).guard);
  find_opposites();
  find_conditions();
  find_sensitive();
  find_live();
}

// Finds pairs of opposite integer comparisons, such as x == y and x != y.
void Paths::find_opposites() {
  std::map<std::string, int> comparisons;  // atoms of comparisons, indexed by name and inputs
  const auto key = [](std::string_view name, const Atom& a) {
    std::string key(name);
    for (const Sum& input : a.inputs)
      key += fmt::format(",{}+{}", input.constant, fmt::join(input.terms, "+"));
    return key;
  };
  const auto is_comparison = [](const Atom& a) {
    return a.name.starts_with("setp.") && a.inputs.size() == 2 && a.name.find(".f") == std::string::npos;
  };
  for (int i = 0; i < kernel_.values.atoms(); ++i)
    if (const Atom& a = kernel_.values.atom(i); is_comparison(a)) comparisons.emplace(key(a.name, a), i);
  for (int i = 0; i < kernel_.values.atoms(); ++i) {
    const Atom& a = kernel_.values.atom(i);
    if (!is_comparison(a)) continue;
    for (const auto& [negative, positive] : {std::pair("ne", "eq"), {"ge", "lt"}, {"gt", "le"}})
      if (a.name.substr(5, 2) == negative)
        if (const auto found = comparisons.find(key(fmt::format("setp.{}{}", positive, a.name.substr(7)), a));
            found != comparisons.end())
          opposite_[i] = found->second;
  }
}

int Paths::positive(int number) const {
  const auto found = opposite_.find(number);
  return found == opposite_.end() ? number : found->second;
}

// Finds conditions that several instructions test, and flags that are set on a path to such a test.
void Paths::find_conditions() {
  std::map<int, int> uses;
  for (const auto& [i, predicate] : guards_)
    visit_atoms(kernel_.values, predicate, [&](int number, const Atom& a) {
      const bool is_wait = a.name.starts_with("mbarrier");  // a wait may fail and later succeed
      if (is_wait || in_({.terms = {{number, 1}}})) return false;
      const bool is_meet = a.kind == Atom::Kind::meet;
      uses[positive(number)] += is_meet || a.name.starts_with("setp");
      return is_meet || a.kind == Atom::Kind::function;
    });
  for (const auto& [number, count] : uses)
    if (count > 1 || kernel_.values.atom(number).kind == Atom::Kind::meet) tracked_.insert(number);
  // A meet is worth tracking only if one of its inputs is a constant, or a meet that is worth tracking.
  for (bool changed = true; changed;) {
    changed = false;
    std::set<int> untold;
    for (int number : tracked_) {
      const Atom& a = kernel_.values.atom(number);
      if (a.kind != Atom::Kind::meet) continue;
      const bool any = std::any_of(a.inputs.begin(), a.inputs.end(), [&](const Sum& input) {
        return in_(input) || std::any_of(input.terms.begin(), input.terms.end(), [&](const auto& term) {
                 return term.first != number && tracked_.contains(term.first);
               });
      });
      if (!any) untold.insert(number);
    }
    for (int number : untold) changed |= tracked_.erase(number) > 0;
  }
  for (int number : tracked_) {
    const Atom& a = kernel_.values.atom(number);
    if (a.kind == Atom::Kind::meet) meets_[a.block].insert(number);
    // The condition is redefined at the blocks of its inputs.
    visit_atoms(kernel_.values, {.terms = {{number, 1}}}, [&](int, const Atom& b) {
      if (b.block != kNone)
        changed_in_[b.block].insert(number);
      else if (b.kind == Atom::Kind::unknown && b.operation != kNone)
        changed_in_[kernel_.graph.block_of[at(b.operation)]].insert(number);
      return b.block == kNone;
    });
  }
}

void Paths::find_sensitive() {
  for (int number = 0; number < kernel_.values.atoms(); ++number) {
    // Atoms are numbered after their inputs, except for meets, whose inputs are not examined further.
    const Atom& a = kernel_.values.atom(number);
    bool any = tracked_.contains(positive(number));
    if (a.kind == Atom::Kind::function)
      for (const Sum& input : a.inputs)
        for (const auto& term : input.terms) any = any || sensitive_.contains(term.first);
    if (any) sensitive_.insert(number);
  }
}

void Paths::add_cone(const Sum& sum, std::set<int>& to) const {
  visit_atoms(kernel_.values, sum, [&](int number, const Atom& a) {
    if (tracked_.contains(positive(number))) to.insert(positive(number));
    return a.kind == Atom::Kind::function && sensitive_.contains(number);
  });
}

void Paths::find_live() {
  if (tracked_.empty()) return;
  const Graph& graph = kernel_.graph;
  std::vector<std::set<int>> used(graph.blocks.size());
  for (const auto& [i, predicate] : guards_) add_cone(predicate, used[at(graph.block_of[at(i)])]);
  live_ = used;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block = graph.order.rbegin(); block != graph.order.rend(); ++block) {
      std::set<int> live = used[at(*block)];
      for (int next : class_.successors[at(*block)]) {
        const auto anew = changed_in_.find(next);
        for (int number : live_[at(next)])
          if (anew == changed_in_.end() || !anew->second.contains(number)) live.insert(number);
        const auto meets = meets_.find(next);
        if (meets == meets_.end()) continue;
        for (int number : meets->second)
          if (live_[at(next)].contains(number)) add_cone(kernel_.values.from(number, *block), live);
      }
      if (live != live_[at(*block)]) live_[at(*block)] = std::move(live), changed = true;
    }
  }
}

std::optional<int64_t> Paths::value(int number, const Known& known, int depth) {
  if (const auto found = known.find(positive(number)); found != known.end())
    return positive(number) == number ? found->second : !found->second;
  if (const auto own = in_({.terms = {{number, 1}}})) return own;
  const Atom& a = kernel_.values.atom(number);
  if (a.kind != Atom::Kind::function || !sensitive_.contains(number) || depth == 0) return std::nullopt;
  std::vector<std::optional<int64_t>> inputs;
  for (const Sum& input : a.inputs) inputs.push_back(value(input, known, depth - 1));
  return ThreadValues::computed(a, inputs);
}

std::optional<int64_t> Paths::value(const Sum& sum, const Known& known, int depth) {
  int64_t total = sum.constant;
  for (const auto& [number, factor] : sum.terms) {
    const auto of_atom = value(number, known, depth);
    if (!of_atom) return std::nullopt;
    total += *of_atom * factor;
  }
  return total;
}

bool Paths::runs(int i, const Known& known) {
  const auto guard = guards_.find(i);
  if (guard == guards_.end() || known.empty()) return true;
  const auto holds = value(guard->second, known);
  return !holds || (*holds != 0) != kernel_.operation(i).negated;
}

void Paths::assume(const Sum& predicate, bool holds, Known& known, int depth) const {
  if (predicate.constant != 0 || predicate.terms.size() != 1 || depth == 0) return;
  const int number = predicate.terms[0].first;
  const Atom& a = kernel_.values.atom(number);
  if (tracked_.contains(positive(number))) known[positive(number)] = holds == (positive(number) == number);
  if (a.name == "not.pred") assume(a.inputs[0], !holds, known, depth - 1);
  if (a.inputs.size() == 2 && ((a.name == "and.pred" && holds) || (a.name == "or.pred" && !holds)))
    for (const Sum& input : a.inputs) assume(input, holds, known, depth - 1);
}

std::optional<Known> Paths::along(int block, int next, const Known& before) {
  if (tracked_.empty()) return Known{};
  Known known = before;
  const Graph& graph = kernel_.graph;
  const int last = graph.blocks[at(block)].last - 1;
  const Operation& o = kernel_.operation(last);
  if (const auto guard = guards_.find(last);
      guard != guards_.end() && (o.targets.size() == 1 || kernel_.ends(last)) &&
      class_.successors[at(block)].size() + (kernel_.ends(last) ? 1 : 0) == 2) {
    const bool taken = !o.targets.empty() && graph.blocks[at(next)].first == o.targets[0];
    const bool holds = taken != o.negated;
    if (const auto is = value(guard->second, known); is && (*is != 0) != holds) return std::nullopt;
    assume(guard->second, holds, known);
  }
  Known arrived;
  if (const auto meets = meets_.find(next); meets != meets_.end())
    for (int number : meets->second)
      if (const auto incoming = value(kernel_.values.from(number, block), known)) arrived[number] = *incoming;
  const auto anew = changed_in_.find(next);
  std::erase_if(known, [&](const auto& entry) {
    return !live_[at(next)].contains(entry.first) ||
           (anew != changed_in_.end() && anew->second.contains(entry.first));
  });
  for (const auto& [number, incoming] : arrived)
    if (live_[at(next)].contains(number)) known[number] = incoming;
  return known;
}

}  // namespace ptxbuilder::analysis
