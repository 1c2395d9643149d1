// Computes one number from everything that determines an instruction's operands and the conditions under
// which it runs. Kernels that do the same have equal numbers, and, except for hash collisions, others do not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// Exact takes everything into account. Values::hash, in contrast, looks only a few steps deep and treats the
// values of a meet as a set, so that one difference does not become many. Exact distinguishes which path
// brings which value to a meet, which of several loads from one address is read, and what decides whether a
// block runs (Ferrante, Ottenstein, Warren, The Program Dependence Graph and Its Use in Optimization, 1987).
// The numbers are refined until a round no longer distinguishes more values.
class Exact {
 public:
  // All arguments must outlive this object.
  Exact(const Code& code, const Graph& graph, Values& values);

  uint64_t of(const Sum& sum) const { return of(sum, atoms_); }
  // Returns the number of the conditions under which a block runs.
  uint64_t context(int block) const { return contexts_[at(block)]; }
  // Returns the number of an instruction, made from its meaning, everything that it reads, and its
  // conditions.
  uint64_t of(int operation) const;
  // Returns the number of the condition of the branch that ends a block, or 0 if it does not branch.
  uint64_t of_branch(int block) const;

 private:
  struct Condition {
    Sum sum = {};
    bool is_opposite = false;  // whether the condition does not hold
  };
  // An edge out of a block, and the condition that holds on it.
  struct Way {
    int to;  // a block or, numbered after all blocks, the exit
    Condition condition = {};
    uint64_t place = 0;  // for an indexed branch
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
  // Returns the number of an edge.
  uint64_t of_edge(int from, int to) const;

  const Code& code_;
  const Graph& graph_;
  Values& values_;
  std::vector<std::vector<Way>> ways_;  // edges out of a block, if there are several
  DominatorTree behind_;                // post-dominators: the blocks on every path from a block to the exit
  std::vector<int> order_;              // of atoms, each after its inputs, except inputs from back edges
  std::vector<uint64_t> ordinals_;      // by instruction: distinguishes its new values from those of equal
                                        // instructions
  std::vector<uint64_t> atoms_, contexts_;
  std::vector<uint64_t> before_;  // the atoms' numbers of the previous round, for back edges
};

}  // namespace ptxbuilder::analysis
