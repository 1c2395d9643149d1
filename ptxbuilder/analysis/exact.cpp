#include "ptxbuilder/analysis/exact.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ptxbuilder::analysis {

Exact::Exact(const Code& code, const Graph& graph, Values& values)
    : code_(code), graph_(graph), values_(values), ways_(graph.blocks.size()) {
  find_ways();
  find_ends();
  find_order();
  find_ordinals();
  refine();
}

void Exact::find_ways() {
  const int end = static_cast<int>(graph_.blocks.size());
  for (int b : graph_.order) {
    const Block& block = graph_.blocks[at(b)];
    if (block.first == block.last) continue;
    const int last = block.last - 1;
    const Operation& o = code_.operations[at(last)];
    if (o.is("brx") && !o.operands.empty()) {
      const Sum index = values_.of(last, o.operands[0]);
      for (size_t t = 0; t < o.targets.size(); ++t)
        if (at(o.targets[t]) < code_.operations.size())
          ways_[at(b)].push_back({graph_.block_of[at(o.targets[t])], {index, false}, t + 1});
      continue;
    }
    if (o.guard == kNone || !(o.ends() || !o.targets.empty())) continue;
    const Sum predicate = values_.before(last, o.guard);
    const auto block_at = [&](int operation) {
      return at(operation) < code_.operations.size() ? graph_.block_of[at(operation)] : end;
    };
    add_way(b, o.ends() ? end : block_at(o.targets[0]), predicate, !o.negated);
    add_way(b, block_at(block.last), predicate, o.negated);
  }
}

void Exact::add_way(int block, int to, const Sum& predicate, bool holds) {
  ways_[at(block)].push_back({.to = to, .condition = condition_of(predicate, holds)});
}

// Returns the condition that a predicate holds or, if `holds` is false, that it does not hold. A predicate
// and its double negation are the same condition.
Exact::Condition Exact::condition_of(Sum condition, bool holds) const {
  while (const Atom* opposite = values_.only_atom(condition, "not.pred")) {
    condition = Sum(opposite->inputs[0]);
    holds = !holds;
  }
  const auto opposite = holds ? std::nullopt : values_.opposite(condition);
  return {opposite.value_or(condition), !holds && !opposite};
}

uint64_t Exact::of(const Condition& condition, const std::vector<uint64_t>& atoms) const {
  return mixed(of(condition.sum, atoms), condition.is_opposite);
}

// Finds the post-dominators, working backward from the exit. An infinite loop is assumed to exit from its
// last block.
void Exact::find_ends() {
  const int end = static_cast<int>(graph_.blocks.size());
  Edges successors(at(end) + 1), predecessors(at(end) + 1);
  const auto connect = [&](int from, int to) {
    predecessors[at(from)].push_back(to);  // edges point against the direction of control flow
    successors[at(to)].push_back(from);
  };
  for (int b : graph_.order) {
    const Block& block = graph_.blocks[at(b)];
    for (int next : block.successors) connect(b, next);
    const bool ends =
        std::any_of(ways_[at(b)].begin(), ways_[at(b)].end(), [&](const Way& way) { return way.to == end; });
    if (block.successors.empty() || ends) connect(b, end);
  }
  std::vector<bool> met(at(end) + 1, false);
  const auto search = [&](int from) {
    for (std::vector<int> waiting = {from}; !waiting.empty();) {
      const int b = waiting.back();
      waiting.pop_back();
      if (met[at(b)]) continue;
      met[at(b)] = true;
      waiting.insert(waiting.end(), successors[at(b)].begin(), successors[at(b)].end());
    }
  };
  search(end);
  for (auto b = graph_.order.rbegin(); b != graph_.order.rend(); ++b)
    if (!met[at(*b)]) {
      connect(*b, end);
      search(*b);
    }
  behind_ = DominatorTree::of(successors, predecessors, end);
}

bool Exact::is_brought_back(const Atom& a, size_t input) const {
  const auto from = values_.predecessors(a);
  return !from.empty() && from[input] != kNone && graph_.place[at(from[input])] >= graph_.place[at(a.block)];
}

void Exact::find_order() {
  const int count = values_.atoms();
  std::vector<uint8_t> state(at(count), 0);  // 0 means not visited, 1 means entered, 2 means done
  std::vector<int> waiting;
  const auto add = [&](const Sum& sum) {
    for (const auto& term : sum.terms)
      if (state[at(term.first)] == 0) waiting.push_back(term.first);
  };
  for (int root = 0; root < count; ++root) {
    if (state[at(root)] != 0) continue;
    waiting.push_back(root);
    while (!waiting.empty()) {
      const int number = waiting.back();
      if (state[at(number)] != 0) {
        waiting.pop_back();
        if (state[at(number)] == 1) {
          state[at(number)] = 2;
          order_.push_back(number);
        }
        continue;
      }
      state[at(number)] = 1;
      const Atom& a = values_.atom(number);
      for (size_t i = 0; i < a.inputs.size(); ++i)
        if (!is_brought_back(a, i)) add(a.inputs[i]);
    }
  }
}

void Exact::find_ordinals() {
  ordinals_.assign(at(values_.atoms()), 0);
  std::vector<int> own;
  for (int i = 0; i < values_.atoms(); ++i)
    if (const Atom& a = values_.atom(i); a.kind == Atom::Kind::unknown && a.operation != kNone)
      own.push_back(i);
  const auto place = [&](int number) {
    const int operation = values_.atom(number).operation;
    return std::tuple(graph_.place[at(graph_.block_of[at(operation)])], operation, number);
  };
  std::sort(own.begin(), own.end(), [&](int x, int y) { return place(x) < place(y); });
  std::map<uint64_t, uint64_t> alike;
  for (int number : own) ordinals_[at(number)] = ++alike[values_.atom(number).hash];
}

uint64_t Exact::of(const Sum& sum, const std::vector<uint64_t>& atoms) const {
  uint64_t terms = 0;  // computed as a sum, because terms may be in any order
  for (const auto& [number, factor] : sum.terms)
    terms +=
        mixed(at(number) < atoms.size() ? atoms[at(number)] : of_atom(number), static_cast<uint64_t>(factor));
  return mixed(terms, static_cast<uint64_t>(sum.constant));
}

uint64_t Exact::of_atom(int number) const {
  const Atom& a = values_.atom(number);
  uint64_t hash = a.name_hash;
  if (a.object != kNone) return mixed(hash, a.hash);
  hash = mixed(hash, at(number) < ordinals_.size() ? ordinals_[at(number)] : 0);
  if (a.block != kNone) hash = mixed(hash, contexts_[at(a.block)]);
  if (a.kind != Atom::Kind::meet) {
    for (const Sum& input : a.inputs) hash = mixed(hash, of(input));
    return hash;
  }
  uint64_t any_order = 0;  // a sum, because the order of predecessors depends on the code's layout
  const auto from = values_.predecessors(a);
  for (size_t i = 0; i < a.inputs.size(); ++i)
    any_order += mixed(from[i] == kNone ? 0 : of_edge(from[i], a.block),
                       of(a.inputs[i], is_brought_back(a, i) ? before_ : atoms_));
  return mixed(hash, any_order);
}

uint64_t Exact::of_way(const Way& way, const std::vector<uint64_t>& atoms) const {
  return mixed(of(way.condition, atoms), way.place);
}

uint64_t Exact::of_edge(int from, int to) const {
  uint64_t hash = contexts_[at(from)];
  for (const Way& way : ways_[at(from)])
    if (way.to == to) hash += of_way(way, before_);
  return hash;
}

// An edge decides whether certain blocks run. These are the blocks on every path from the edge, up to the
// first block that is on every path from the edge's source. The blocks form a path in the post-dominator
// tree. The edge is added at one end of this path, and subtracted at the other end.
void Exact::find_contexts() {
  std::vector<uint64_t> sums(graph_.blocks.size() + 1, 0);  // sums of the contexts of the previous round
  for (int b : graph_.order)
    for (const Way& way : ways_[at(b)]) {
      const uint64_t hash = mixed(of_way(way, atoms_), contexts_[at(b)]);
      sums[at(way.to)] += hash;
      sums[at(behind_.parent[at(b)])] -= hash;
    }
  for (auto node = behind_.order.rbegin(); node != behind_.order.rend(); ++node)
    if (const int above = behind_.parent[at(*node)]; above >= 0) sums[at(above)] += sums[at(*node)];
  for (int b : graph_.order) contexts_[at(b)] = mixed(1, sums[at(b)]);
}

void Exact::refine() {
  constexpr int kMostRounds = 100;  // a limit that values in real loops do not reach
  contexts_.assign(graph_.blocks.size(), 0);
  atoms_.assign(at(values_.atoms()), 0);
  size_t told_apart = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    before_ = atoms_;
    for (int number : order_) atoms_[at(number)] = of_atom(number);
    find_contexts();
    std::vector<uint64_t> all = atoms_;
    all.insert(all.end(), contexts_.begin(), contexts_.end());
    std::sort(all.begin(), all.end());
    const auto count = static_cast<size_t>(std::unique(all.begin(), all.end()) - all.begin());
    if (round > 1 && count == told_apart) return;
    told_apart = count;
  }
}

uint64_t Exact::of(int operation) const {
  const Operation& o = code_.operations[at(operation)];
  uint64_t hash = mixed(hash_of(o.canonical()), context(graph_.block_of[at(operation)]));
  if (o.guard != kNone)
    hash = mixed(hash, of(condition_of(values_.before(operation, o.guard), !o.negated), atoms_));
  if (o.is("ret"))  // the results of a function may be in registers
    for (int reg : o.reads) hash = mixed(hash, of(values_.before(operation, reg)));
  for (size_t n = o.updates ? 0 : o.results; n < o.operands.size(); ++n) {
    hash = mixed(hash, of(values_.of(operation, o.operands[n])));
    for (size_t p = 1; p < o.operands[n].parts.size(); ++p)
      hash = mixed(hash, of(values_.of(operation, o.operands[n].parts[p])));
  }
  return hash;
}

uint64_t Exact::of_branch(int block) const {
  uint64_t hash = 0;
  for (const Way& way : ways_[at(block)]) hash += of_way(way, atoms_);
  return hash == 0 ? 0 : mixed(hash, context(block));
}

}  // namespace ptxbuilder::analysis
