#include "ptxbuilder/analysis/dominators.h"

#include <algorithm>
#include <utility>

#include "ptxbuilder/analysis/code.h"

namespace ptxbuilder::analysis {
namespace {

// Computes dominators with the simple version of the algorithm of Lengauer and Tarjan (A Fast Algorithm for
// Finding Dominators in a Flowgraph, 1979). Nodes are identified by their positions in a depth-first order.
class Dominators {
 public:
  Dominators(const Edges& successors, const Edges& predecessors, int root) : place_(successors.size(), -1) {
    walk(successors, root);
    const size_t count = node_.size();
    label_.resize(count);
    ancestor_.assign(count, -1);
    dominator_.assign(count, 0);
    for (size_t i = 0; i < count; ++i) label_[i] = static_cast<int>(i);
    semi_ = label_;
    Edges waiting(count);  // for each semidominator, the nodes that wait for it
    for (int w = static_cast<int>(count) - 1; w > 0; --w) {
      for (int predecessor : predecessors[at(node_[at(w)])])
        if (const int v = place_[at(predecessor)]; v >= 0)
          semi_[at(w)] = std::min(semi_[at(w)], semi_[at(least(v))]);
      waiting[at(semi_[at(w)])].push_back(w);
      ancestor_[at(w)] = parent_[at(w)];
      for (int v : std::exchange(waiting[at(parent_[at(w)])], {})) {
        const int u = least(v);
        dominator_[at(v)] = semi_[at(u)] < semi_[at(v)] ? u : parent_[at(w)];
      }
    }
    for (size_t w = 1; w < count; ++w)
      if (dominator_[w] != semi_[w]) dominator_[w] = dominator_[at(dominator_[w])];
  }

  DominatorTree tree() const {
    const size_t nodes = place_.size();
    DominatorTree tree{.parent = std::vector<int>(nodes, -1),
                       .order = {},
                       .first = std::vector<int>(nodes, -1),
                       .last = std::vector<int>(nodes, -1)};
    Edges below(nodes);
    for (size_t w = 1; w < node_.size(); ++w) {
      const int above = node_[at(dominator_[w])];
      tree.parent[at(node_[w])] = above;
      below[at(above)].push_back(node_[w]);
    }
    for (std::vector<int> open = {node_[0]}; !open.empty();) {
      const int node = open.back();
      open.pop_back();
      tree.first[at(node)] = static_cast<int>(tree.order.size());
      tree.order.push_back(node);
      open.insert(open.end(), below[at(node)].rbegin(), below[at(node)].rend());
    }
    for (auto node = tree.order.rbegin(); node != tree.order.rend(); ++node) {
      int& last = tree.last[at(*node)];
      last = std::max(last, tree.first[at(*node)]);
      if (const int above = tree.parent[at(*node)]; above >= 0)
        tree.last[at(above)] = std::max(tree.last[at(above)], last);
    }
    return tree;
  }

 private:
  void walk(const Edges& successors, int root) {
    struct Step {
      int node, above;
    };
    for (std::vector<Step> open = {{root, -1}}; !open.empty();) {
      const Step step = open.back();
      open.pop_back();
      if (place_[at(step.node)] >= 0) continue;
      const int here = place_[at(step.node)] = static_cast<int>(node_.size());
      node_.push_back(step.node);
      parent_.push_back(step.above);
      const std::vector<int>& next = successors[at(step.node)];
      for (auto to = next.rbegin(); to != next.rend(); ++to)
        if (place_[at(*to)] < 0) open.push_back({*to, here});
    }
  }

  // Returns the node with the smallest semidominator among v and the linked nodes above v. Also compresses
  // the paths that it follows.
  int least(int v) {
    if (ancestor_[at(v)] < 0) return v;
    path_.clear();
    for (int u = v; ancestor_[at(ancestor_[at(u)])] >= 0; u = ancestor_[at(u)]) path_.push_back(u);
    for (auto u = path_.rbegin(); u != path_.rend(); ++u) {
      const int above = ancestor_[at(*u)];
      if (semi_[at(label_[at(above)])] < semi_[at(label_[at(*u)])]) label_[at(*u)] = label_[at(above)];
      ancestor_[at(*u)] = ancestor_[at(above)];
    }
    return label_[at(v)];
  }

  std::vector<int> place_;          // indexed by node
  std::vector<int> node_, parent_;  // indexed by position, like all members below
  std::vector<int> semi_, label_, ancestor_, dominator_, path_;
};

}  // namespace

DominatorTree DominatorTree::of(const Edges& successors, const Edges& predecessors, int root) {
  return Dominators(successors, predecessors, root).tree();
}

}  // namespace ptxbuilder::analysis
