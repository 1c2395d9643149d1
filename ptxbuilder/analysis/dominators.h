// Finds the nodes of a flow graph that every path to a node goes through.
#pragma once

#include <cstddef>
#include <vector>

namespace ptxbuilder::analysis {

// A flow graph's edges by node, in both directions.
using Edges = std::vector<std::vector<int>>;

// The dominators of the nodes that can be reached from a root, as a tree.
struct DominatorTree {
  std::vector<int> parent;       // the immediate dominator; below 0 of the root and of what it does not reach
  std::vector<int> order;        // the nodes that are reached, in a preorder of the tree
  std::vector<int> first, last;  // by node: its place in the order, and that of the last node below it

  // Takes time in proportion to the edges, times a logarithm.
  static DominatorTree of(const Edges& successors, const Edges& predecessors, int root);

  bool reaches(int node) const { return first[static_cast<size_t>(node)] >= 0; }
  // This says whether `above` is `node` or dominates it; both have to be reached.
  bool dominates(int above, int node) const {
    const auto a = static_cast<size_t>(above), n = static_cast<size_t>(node);
    return first[a] <= first[n] && first[n] <= last[a];
  }
};

}  // namespace ptxbuilder::analysis
