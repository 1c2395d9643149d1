// Walks along the paths that a class of threads can follow. Omits paths on which the same undecided condition
// would be true in one place and false in another. Also omits paths that a flag, set earlier on the path,
// excludes.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "ptxbuilder/analysis/lint_kernel.h"

namespace ptxbuilder::analysis {

using Known = std::map<int, int64_t>;  // the values of atoms on a path, indexed by the numbers of the atoms

class Paths {
 public:
  // Both arguments must outlive this object.
  Paths(LintKernel& kernel, const ThreadClass& c);

  // Returns whether an instruction runs, given the `known` values.
  bool runs(int i, const Known& known);
  // Returns the values that are known after an edge, or nothing if the path cannot continue along the edge.
  std::optional<Known> along(int block, int next, const Known& known);

 private:
  static constexpr int kDepth = 64;  // depth to which nested functions are followed
  std::optional<int64_t> value(const Sum& sum, const Known& known, int depth = kDepth);
  std::optional<int64_t> value(int atom, const Known& known, int depth);
  void find_opposites();
  int positive(int number) const;  // returns the number of the comparison or, if it is a negation, the number
                                   // of the comparison that it negates
  void find_conditions();
  void find_sensitive();
  void find_live();
  void add_cone(const Sum& sum, std::set<int>& to) const;
  void assume(const Sum& predicate, bool holds, Known& known, int depth = kDepth) const;

  LintKernel& kernel_;
  const ThreadClass& class_;
  ThreadValues& in_;
  std::map<int, Sum> guards_;                // undecided guards, indexed by instruction
  std::map<int, int> opposite_;              // for each comparison, its negation
  std::set<int> tracked_;                    // atoms whose values Known may hold
  std::map<int, std::set<int>> meets_;       // for each block, the tracked atoms that are meets
  std::map<int, std::set<int>> changed_in_;  // for each block, the tracked atoms that it redefines
  std::set<int> sensitive_;                  // atoms that depend on tracked atoms
  std::vector<std::set<int>> live_;          // for each block, the tracked atoms that are still used
};

// Calls `step(state, instruction, is_last)` for each instruction that runs, on paths that certainly exist.
// `is_last` is true after all states that can be merged have been merged. A State needs ==, a size, and bool
// join(const State&), which returns whether the state changed. States may only grow. Paths that reach a block
// in the same state are merged, and only facts known on all of them are retained (Das, Lerner, Seigle: ESP,
// Path-Sensitive Program Verification in Polynomial Time, 2002).
template <typename State, typename Step>
void follow(LintKernel& kernel, const ThreadClass& c, const State& start, const Step& step) {
  constexpr size_t kMostWays = 24;  // limit on the number of paths that are distinguished at a block
  struct Way {
    Known known;
    State state;
    bool is_due = true;
    bool is_blurred = false;  // merged from several paths, so it may not be a path of the kernel
  };
  const Graph& graph = kernel.graph;
  Paths& paths = kernel.paths(c);
  std::vector<std::vector<Way>> in(graph.blocks.size());
  std::vector<bool> is_one(graph.blocks.size(), false);  // for each block, true if all paths to it are merged
  in[0].push_back({{}, start});
  const auto through = [&](int block, const Way& way, bool is_last) {
    State state = way.state;
    kernel.spend(state.size() + at(graph.blocks[at(block)].last - graph.blocks[at(block)].first));
    for (int i = graph.blocks[at(block)].first; i < graph.blocks[at(block)].last; ++i)
      if (c.runs[at(i)] != Runs::no && paths.runs(i, way.known)) step(state, i, is_last);
    return state;
  };
  const auto unite = [](Way& into, const Way& other) {
    const size_t forgotten = std::erase_if(into.known, [&](const auto& entry) {
      const auto found = other.known.find(entry.first);
      return found == other.known.end() || found->second != entry.second;
    });
    const bool clears = into.is_blurred && !other.is_blurred;
    into.is_blurred &= other.is_blurred;
    into.is_due |= into.state.join(other.state) || forgotten > 0 || clears;
  };
  const auto arrive = [&](int block, Way way) {
    std::vector<Way>& ways = in[at(block)];
    kernel.spend((ways.size() + 1) * (way.state.size() / 4 + 1));
    const auto same = std::find_if(ways.begin(), ways.end(), [&](const Way& other) {
      return is_one[at(block)] || other.state == way.state;
    });
    way.is_blurred |= is_one[at(block)];
    if (same != ways.end()) return unite(*same, way);
    ways.push_back(std::move(way));
    if (ways.size() <= kMostWays) return;
    is_one[at(block)] = true;
    for (size_t i = 1; i < ways.size(); ++i) unite(ways[0], ways[i]);
    ways.erase(ways.begin() + 1, ways.end());
    ways[0].is_due = ways[0].is_blurred = true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int block : graph.order)
      for (size_t w = 0; w < in[at(block)].size(); ++w) {
        if (!in[at(block)][w].is_due) continue;
        in[at(block)][w].is_due = false;
        changed = true;
        const Way way = in[at(block)][w];
        const State state = through(block, way, false);
        for (int next : c.successors[at(block)])
          if (auto known = paths.along(block, next, way.known))
            arrive(next, {std::move(*known), state, true, way.is_blurred});
      }
  }
  for (int block : graph.order)
    for (const Way& way : in[at(block)]) through(block, way, !way.is_blurred);
}

}  // namespace ptxbuilder::analysis
