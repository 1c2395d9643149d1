#include "ptxbuilder/analysis/graph.h"

#include <algorithm>

namespace ptxbuilder::analysis {
namespace {

void make_blocks(const Code& code, Graph& graph) {
  const size_t count = code.operations.size();
  std::vector<bool> begins(count + 1, false);
  begins[0] = true;
  for (size_t i = 0; i < count; ++i) {
    const Operation& o = code.operations[i];
    for (int target : o.targets) begins[at(target)] = true;
    if (!o.targets.empty() || !o.falls_through) begins[i + 1] = true;
  }
  graph.block_of.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (begins[i]) graph.blocks.push_back({.first = static_cast<int>(i)});
    graph.block_of[i] = static_cast<int>(graph.blocks.size()) - 1;
    graph.blocks.back().last = static_cast<int>(i) + 1;
  }
  if (graph.blocks.empty()) graph.blocks.emplace_back();
  auto connect = [&](int from, int operation) {
    if (at(operation) >= count) return;  // a label behind the last instruction: the end
    const int to = graph.block_of[at(operation)];
    std::vector<int>& successors = graph.blocks[at(from)].successors;
    if (std::find(successors.begin(), successors.end(), to) != successors.end()) return;
    successors.push_back(to);
    graph.blocks[at(to)].predecessors.push_back(from);
  };
  for (int b = 0; at(b) < graph.blocks.size() && count > 0; ++b) {
    const int last = graph.blocks[at(b)].last - 1;
    const Operation& o = code.operations[at(last)];
    if (o.falls_through) connect(b, last + 1);
    for (int target : o.targets) connect(b, target);
  }
}

void make_order(Graph& graph) {
  std::vector<int> state(graph.blocks.size(), 0);  // the next successor to visit, or below 0 when done
  std::vector<bool> met(graph.blocks.size(), false);
  std::vector<int> stack = {0};
  met[0] = true;
  while (!stack.empty()) {
    const int b = stack.back();
    const std::vector<int>& successors = graph.blocks[at(b)].successors;
    if (at(state[at(b)]) < successors.size()) {
      const int next = successors[at(state[at(b)]++)];
      if (!met[at(next)]) {
        met[at(next)] = true;
        stack.push_back(next);
      }
      continue;
    }
    graph.order.push_back(b);
    stack.pop_back();
  }
  std::reverse(graph.order.begin(), graph.order.end());
}

// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001).
void find_dominators(Graph& graph) {
  std::vector<int> place(graph.blocks.size(), kNone);
  for (size_t i = 0; i < graph.order.size(); ++i) place[at(graph.order[i])] = static_cast<int>(i);
  std::vector<int> dominator(graph.order.size(), kNone);
  dominator[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 1; i < graph.order.size(); ++i) {
      int found = kNone;
      for (int predecessor : graph.blocks[at(graph.order[i])].predecessors) {
        int other = place[at(predecessor)];
        if (other == kNone || dominator[at(other)] == kNone) continue;
        if (found == kNone) found = other;
        while (found != other) {
          while (found > other) found = dominator[at(found)];
          while (other > found) other = dominator[at(other)];
        }
      }
      if (dominator[i] != found) dominator[i] = found, changed = true;
    }
  }
  for (size_t i = 1; i < graph.order.size(); ++i)
    graph.blocks[at(graph.order[i])].dominator = graph.order[at(dominator[i])];
}

void find_loops(Graph& graph) {
  for (int header : graph.order) {
    Loop loop{.header = header};
    for (int predecessor : graph.blocks[at(header)].predecessors)
      if (graph.reaches(predecessor) && graph.dominates(header, predecessor))
        loop.latches.push_back(predecessor);
    if (loop.latches.empty()) continue;
    std::vector<bool> inside(graph.blocks.size(), false);
    inside[at(header)] = true;
    std::vector<int> waiting = loop.latches;
    while (!waiting.empty()) {
      const int b = waiting.back();
      waiting.pop_back();
      if (inside[at(b)]) continue;
      inside[at(b)] = true;
      for (int predecessor : graph.blocks[at(b)].predecessors)
        if (graph.reaches(predecessor)) waiting.push_back(predecessor);
    }
    for (size_t b = 0; b < inside.size(); ++b)
      if (inside[b]) loop.blocks.push_back(static_cast<int>(b));
    // Headers come behind those that dominate them, so the last loop that has this header is the nearest.
    for (size_t outer = graph.loops.size(); outer-- > 0 && loop.parent == kNone;)
      if (graph.loops[outer].contains(header)) {
        loop.parent = static_cast<int>(outer);
        loop.depth = graph.loops[outer].depth + 1;
      }
    for (int b : loop.blocks) graph.blocks[at(b)].loop = static_cast<int>(graph.loops.size());
    graph.loops.push_back(std::move(loop));
  }
}

}  // namespace

bool Loop::contains(int block) const { return std::binary_search(blocks.begin(), blocks.end(), block); }

bool Graph::dominates(int above, int block) const {
  while (block != above && block != kNone) block = blocks[at(block)].dominator;
  return block == above;
}

Graph Graph::of(const Code& code) {
  Graph graph;
  make_blocks(code, graph);
  make_order(graph);
  find_dominators(graph);
  find_loops(graph);
  return graph;
}

}  // namespace ptxbuilder::analysis
