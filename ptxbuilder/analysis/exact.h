// Computes a number for each instruction from all code that determines the instruction's operands and the
// conditions under which it runs. Kernels with the same behaviour have equal numbers. Except for hash
// collisions, other kernels have different numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// Computes the number of each instruction from all of its inputs. In contrast, Values::hash follows inputs
// for only a few steps and treats the values of a meet as a set, so that one difference does not spread to
// many values. Exact also distinguishes the path from which each value of a meet comes, the load that is used
// if there are several from one address, and the conditions that decide whether a block runs. The source is
// Ferrante, Ottenstein, Warren, The Program Dependence Graph and Its Use in Optimization, 1987. The numbers
// are refined in rounds, until a round distinguishes no more values than the previous round.
class Exact {
 public:
  // All arguments must outlive this object.
  Exact(const Code& code, const Graph& graph, Values& values);

  uint64_t of(const Sum& sum) const { return of(sum, atoms_); }
  // Returns the number of the conditions under which a block runs.
  uint64_t context(int block) const { return contexts_[at(block)]; }
  // Returns the number of an instruction, computed from the instruction's meaning, the values that it reads,
  // and its conditions.
  uint64_t of(int operation) const;
  // Returns the number of the condition of the branch that ends a block, or 0 if the block does not end in a
  // branch.
  uint64_t of_branch(int block) const;

 private:
  struct Condition {
    Sum sum = {};
    bool is_opposite = false;  // true if the block runs when the condition is false
  };
  // An edge out of a block, and the condition under which control follows it.
  struct Way {
    int to;  // the block to which the edge leads; the exit is numbered after all blocks
    Condition condition = {};
    uint64_t place = 0;  // position in the list of targets of an indexed branch
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
  std::vector<std::vector<Way>> ways_;  // for each block, its outgoing edges, if there are several
  DominatorTree behind_;                // post-dominators: the blocks on every path from a block to the exit
  std::vector<int> order_;              // atoms, each after its inputs, except inputs from back edges
  std::vector<uint64_t> ordinals_;      // for each instruction, a number that distinguishes its results from
                                        // those of equal instructions
  std::vector<uint64_t> atoms_, contexts_;
  std::vector<uint64_t> before_;  // the atoms' numbers in the previous round, for back edges
};

}  // namespace ptxbuilder::analysis
