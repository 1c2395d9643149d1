// All that an instruction's operands and the conditions under which it runs are made of, as one number: what
// two kernels that do the same have alike, and, but for a clash of hashes, no others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// This looks at everything, while Values::hash looks some steps deep and takes what comes together as a set,
// so that one difference does not become many: which way brings which value to where paths meet, which of
// several loads of one address is read, and what decides whether a block runs (Ferrante, Ottenstein, Warren,
// The Program Dependence Graph and Its Use in Optimization, 1987). Numbers are refined until they tell no
// more values apart.
class Exact {
 public:
  // All have to live as long as this does.
  Exact(const Code& code, const Graph& graph, Values& values);

  uint64_t of(const Sum& sum) const { return of(sum, atoms_); }
  // This is for the conditions under which a block runs.
  uint64_t context(int block) const { return contexts_[at(block)]; }
  // This is for an instruction: its meaning, all that it reads, and its conditions.
  uint64_t of(int operation) const;
  // This is for what decides the branch that ends a block; 0 where nothing does.
  uint64_t of_branch(int block) const;

 private:
  struct Condition {
    Sum sum = {};
    bool is_opposite = false;  // the sum does not hold
  };
  // A way out of a block, and what holds on it.
  struct Way {
    int to;  // a block, or after all of them the end
    Condition condition = {};
    uint64_t place = 0;  // of an indexed branch
  };

  void find_ways();
  void add_way(int block, int to, const Sum& predicate, bool holds);
  void find_ends();
  void find_order();
  void find_ordinals();
  bool is_brought_back(const Atom& meet, size_t input) const;
  void refine();
  void find_contexts();
  Condition condition_of(Sum predicate, bool holds) const;
  uint64_t of(const Sum& sum, const std::vector<uint64_t>& atoms) const;
  uint64_t of(const Condition& condition, const std::vector<uint64_t>& atoms) const;
  uint64_t of_atom(int number) const;
  uint64_t of_way(const Way& way, const std::vector<uint64_t>& atoms) const;
  // This is for the way along an edge.
  uint64_t of_edge(int from, int to) const;

  const Code& code_;
  const Graph& graph_;
  Values& values_;
  std::vector<std::vector<Way>> ways_;  // out of a block, where there are several
  DominatorTree behind_;                // which blocks every way from a block to the end goes through
  std::vector<int> order_;          // of atoms, each after what it is made of but for what loops bring back
  std::vector<uint64_t> ordinals_;  // of what each instruction reads anew, among those that look alike
  std::vector<uint64_t> atoms_, contexts_;
  std::vector<uint64_t> before_;  // the atoms in the round before, which is all that loops bring back
};

}  // namespace ptxbuilder::analysis
