// Finds the nodes of a flow graph that are on every path to a node.
#pragma once

#include <cstddef>
#include <vector>

namespace ptxbuilder::analysis {

// The edges of a flow graph by node, in both directions.
using Edges = std::vector<std::vector<int>>;

// The tree of dominators of the nodes that are reachable from a root.
struct DominatorTree {
  std::vector<int> parent;       // the immediate dominator; negative for the root and for unreachable nodes
  std::vector<int> order;        // the reachable nodes, in a preorder of the tree
  std::vector<int> first, last;  // by node: its place in the order, and that of the last node below it

  // Takes time proportional to the number of edges, times a logarithm.
  static DominatorTree of(const Edges& successors, const Edges& predecessors, int root);

  bool reaches(int node) const { return first[static_cast<size_t>(node)] >= 0; }
  // Returns whether `above` is `node` or dominates it; both must be reachable.
  bool dominates(int above, int node) const {
    const auto a = static_cast<size_t>(above), n = static_cast<size_t>(node);
    return first[a] <= first[n] && first[n] <= last[a];
  }
};

}  // namespace ptxbuilder::analysis
