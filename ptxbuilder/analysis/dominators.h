// Finds the dominators of each node of a flow graph, which are the nodes on every path from the root to the
// node.
#pragma once

#include <cstddef>
#include <vector>

namespace ptxbuilder::analysis {

// The successors, or the predecessors, of each node of a flow graph.
using Edges = std::vector<std::vector<int>>;

// The dominator tree of the nodes that are reachable from a root.
struct DominatorTree {
  std::vector<int> parent;       // immediate dominator; negative for the root and for unreachable nodes
  std::vector<int> order;        // reachable nodes, in a preorder of the tree
  std::vector<int> first, last;  // for each node, its position in `order`, and the last position in its
                                 // subtree

  // Runs in O(n log n) time for n edges.
  static DominatorTree of(const Edges& successors, const Edges& predecessors, int root);

  bool reaches(int node) const { return first[static_cast<size_t>(node)] >= 0; }
  // Returns whether `above` is `node`, or dominates `node`. The two nodes must be reachable.
  bool dominates(int above, int node) const {
    const auto a = static_cast<size_t>(above), n = static_cast<size_t>(node);
    return first[a] <= first[n] && first[n] <= last[a];
  }
};

}  // namespace ptxbuilder::analysis
