#include "ptxbuilder/analysis/graph.h"

#include <algorithm>

namespace ptxbuilder::analysis {
namespace {

// Divides the code into blocks. A guarded return ends its block, like a branch.
void make_blocks(const Code& code, Graph& graph) {
  const size_t count = code.operations.size();
  std::vector<bool> begins(count + 1, false);
  begins[0] = true;
  for (size_t i = 0; i < count; ++i) {
    const Operation& o = code.operations[i];
    for (int target : o.targets) begins[at(target)] = true;
    if (!o.targets.empty() || !o.falls_through || o.ends()) begins[i + 1] = true;
  }
  graph.block_of.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (begins[i]) graph.blocks.push_back({.first = static_cast<int>(i)});
    graph.block_of[i] = static_cast<int>(graph.blocks.size()) - 1;
    graph.blocks.back().last = static_cast<int>(i) + 1;
  }
  if (graph.blocks.empty()) graph.blocks.emplace_back();
  auto connect = [&](int from, int operation) {
    if (at(operation) >= count) return;  // a label after the last instruction denotes the exit
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
  std::vector<int> state(graph.blocks.size(), 0);  // next successor to visit; negative when done
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
  graph.place.assign(graph.blocks.size(), kNone);
  for (size_t i = 0; i < graph.order.size(); ++i) graph.place[at(graph.order[i])] = static_cast<int>(i);
}

void find_dominators(Graph& graph) {
  Edges successors, predecessors;
  for (const Block& b : graph.blocks) {
    successors.push_back(b.successors);
    predecessors.push_back(b.predecessors);
  }
  graph.dominators = DominatorTree::of(successors, predecessors, 0);
}

void find_loops(Graph& graph) {
  std::vector<int> inside(graph.blocks.size(), kNone);  // for each block, the last loop that was found to
                                                        // contain it
  for (int header : graph.order) {
    Loop loop{.header = header};
    for (int predecessor : graph.blocks[at(header)].predecessors)
      if (graph.reaches(predecessor) && graph.dominates(header, predecessor))
        loop.latches.push_back(predecessor);
    if (loop.latches.empty()) continue;
    const int number = static_cast<int>(graph.loops.size());
    inside[at(header)] = number;
    loop.blocks.push_back(header);
    std::vector<int> waiting = loop.latches;
    while (!waiting.empty()) {
      const int b = waiting.back();
      waiting.pop_back();
      if (inside[at(b)] == number) continue;
      inside[at(b)] = number;
      loop.blocks.push_back(b);
      for (int predecessor : graph.blocks[at(b)].predecessors)
        if (graph.reaches(predecessor)) waiting.push_back(predecessor);
    }
    std::sort(loop.blocks.begin(), loop.blocks.end());
    // Each header is visited after the headers that dominate it, so the last loop that was found to contain
    // this header is the innermost one.
    loop.parent = graph.blocks[at(header)].loop;
    if (loop.parent != kNone) loop.depth = graph.loops[at(loop.parent)].depth + 1;
    for (int b : loop.blocks) graph.blocks[at(b)].loop = number;
    graph.loops.push_back(std::move(loop));
  }
}

}  // namespace

bool Loop::contains(int block) const { return std::binary_search(blocks.begin(), blocks.end(), block); }

std::vector<int> Graph::in_order(const Loop& loop) const {
  std::vector<int> blocks = loop.blocks;
  std::sort(blocks.begin(), blocks.end(), [&](int x, int y) { return place[at(x)] < place[at(y)]; });
  return blocks;
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
