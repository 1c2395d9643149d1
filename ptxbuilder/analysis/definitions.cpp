#include "ptxbuilder/analysis/definitions.h"

#include <algorithm>

namespace ptxbuilder::analysis {

// Constructs pruned SSA form: a meet exists only if its register is needed afterwards (Cytron and others,
// Efficiently Computing Static Single Assignment Form and the Control Dependence Graph, 1991).
Definitions::Definitions(const Code& code, const Graph& graph)
    : code_(code),
      graph_(graph),
      registers_(code.registers.size()),
      uses_(code.registers.size()),
      frontier_(graph.blocks.size()),
      live_(graph.blocks.size(), kNone),
      met_(graph.blocks.size(), kNone) {
  for (int b : graph.order)
    for (int i = graph.blocks[at(b)].first; i < graph.blocks[at(b)].last; ++i)
      for (int reg : code.operations[at(i)].writes) {
        std::vector<int>& writers = registers_[at(reg)].writers;
        if (writers.empty() || writers.back() != i) writers.push_back(i);
      }
  for (Register& r : registers_) std::sort(r.writers.begin(), r.writers.end());
  find_uses();
  for (int b : graph.order)
    for (int predecessor : graph.blocks[at(b)].predecessors)
      if (graph.reaches(predecessor))
        for (int above = predecessor; above >= 0 && above != graph.dominators.parent[at(b)];
             above = graph.dominators.parent[at(above)]) {
          std::vector<int>& frontier = frontier_[at(above)];
          if (!frontier.empty() && frontier.back() == b)
            break;  // b is already in this frontier and in the frontiers of the dominators above
          frontier.push_back(b);
        }
  for (int reg = 0; at(reg) < registers_.size(); ++reg) {
    if (!is_single(reg)) find_meets(reg);
    find_changes(reg);
  }
  uses_ = {};
  frontier_ = {};
  live_ = met_ = {};
}

void Definitions::find_uses() {
  std::vector<int> written(registers_.size(), kNone);  // last block that certainly writes each register
  const auto use = [&](int block, int reg) {
    std::vector<int>& uses = uses_[at(reg)];
    if (written[at(reg)] != block && (uses.empty() || uses.back() != block)) uses.push_back(block);
  };
  for (int b : graph_.order)
    for (int i = graph_.blocks[at(b)].first; i < graph_.blocks[at(b)].last; ++i) {
      const Operation& o = code_.operations[at(i)];
      if (o.guard != kNone) use(b, o.guard);
      for (int reg : o.reads) use(b, reg);
      for (int reg : o.writes) {
        if (o.guard != kNone) use(b, reg);  // if the guard is false, the earlier value remains
        written[at(reg)] = b;
      }
    }
}

// Returns whether a single instruction writes the register, before all instructions that read it.
bool Definitions::is_single(int reg) const {
  const std::vector<int>& writers = registers_[at(reg)].writers;
  if (writers.empty()) return true;
  if (writers.size() > 1) return false;
  const int writer = graph_.block_of[at(writers[0])];
  return std::all_of(uses_[at(reg)].begin(), uses_[at(reg)].end(),
                     [&](int use) { return use != writer && graph_.dominates(writer, use); });
}

void Definitions::find_meets(int reg) {
  Register& r = registers_[at(reg)];
  // Finds the blocks that need the register, by searching backward from each reader up to a writer.
  std::vector<int> waiting;
  const auto need = [&](int block) {
    if (live_[at(block)] == reg) return;
    live_[at(block)] = reg;
    waiting.push_back(block);
  };
  for (int use : uses_[at(reg)]) need(use);
  while (!waiting.empty()) {
    const int block = waiting.back();
    waiting.pop_back();
    for (int predecessor : graph_.blocks[at(block)].predecessors)
      if (graph_.reaches(predecessor) && !writer_in(reg, predecessor, graph_.blocks[at(predecessor)].last))
        need(predecessor);
  }
  for (int writer : r.writers) waiting.push_back(graph_.block_of[at(writer)]);
  while (!waiting.empty()) {
    const int block = waiting.back();
    waiting.pop_back();
    for (int meet : frontier_[at(block)]) {
      if (live_[at(meet)] != reg || met_[at(meet)] == reg) continue;
      met_[at(meet)] = reg;
      r.meets.push_back({meet, kNone});
      waiting.push_back(meet);
    }
  }
  std::sort(r.meets.begin(), r.meets.end(), [](const Start& x, const Start& y) { return x.block < y.block; });
  for (Start& start : r.meets) {
    start.meet = static_cast<int>(meets_.size());
    meets_.push_back({start.block, reg});
  }
}

// The blocks that a block dominates follow it in the order of the dominator tree. The block's value is valid
// in all of these blocks, except in the subtrees of blocks that define another value.
void Definitions::find_changes(int reg) {
  Register& r = registers_[at(reg)];
  struct Own {
    int first, last;
    Definition at_end;
  };
  std::vector<Own> all;
  const auto add = [&](int block, Definition d) {
    all.push_back({graph_.dominators.first[at(block)], graph_.dominators.last[at(block)], d});
  };
  for (size_t w = 0; w < r.writers.size(); ++w) {
    const int block = graph_.block_of[at(r.writers[w])];
    if (w + 1 == r.writers.size() || graph_.block_of[at(r.writers[w + 1])] != block)
      add(block, {Definition::Kind::result, r.writers[w]});
  }
  for (const Start& start : r.meets)
    if (!writer_in(reg, start.block, graph_.blocks[at(start.block)].last))
      add(start.block, {Definition::Kind::meet, start.meet});
  std::sort(all.begin(), all.end(), [](const Own& x, const Own& y) { return x.first < y.first; });
  std::vector<Own> open = {{0, static_cast<int>(graph_.blocks.size()), {}}};
  const auto close = [&](int place) {
    while (open.size() > 1 && open.back().last < place) {
      const int behind = open.back().last + 1;
      open.pop_back();
      if (!r.changes.empty() && r.changes.back().place == behind)
        r.changes.back().at_end = open.back().at_end;
      else
        r.changes.push_back({behind, open.back().at_end});
    }
  };
  for (const Own& own : all) {
    close(own.first);
    if (!r.changes.empty() && r.changes.back().place == own.first)
      r.changes.back().at_end = own.at_end;
    else
      r.changes.push_back({own.first, own.at_end});
    open.push_back(own);
  }
  close(static_cast<int>(graph_.blocks.size()) + 1);
}

// Returns the last writer in a block before an instruction, or null if there is none.
const int* Definitions::writer_in(int reg, int block, int before) const {
  const std::vector<int>& writers = registers_[at(reg)].writers;
  const auto behind = std::lower_bound(writers.begin(), writers.end(), before);
  if (behind == writers.begin() || *(behind - 1) < graph_.blocks[at(block)].first) return nullptr;
  return &*(behind - 1);
}

Definition Definitions::at_start(int block, int reg) const {
  const Register& r = registers_[at(reg)];
  const auto meet = std::lower_bound(r.meets.begin(), r.meets.end(), block,
                                     [](const Start& start, int b) { return start.block < b; });
  if (meet != r.meets.end() && meet->block == block) return {Definition::Kind::meet, meet->meet};
  const int above = graph_.dominators.parent[at(block)];
  return above < 0 ? Definition{} : behind(above, reg);
}

Definition Definitions::behind(int block, int reg) const {
  const Register& r = registers_[at(reg)];
  if (!graph_.reaches(block)) return {};
  const auto next = std::upper_bound(r.changes.begin(), r.changes.end(), graph_.dominators.first[at(block)],
                                     [](int place, const Change& change) { return place < change.place; });
  return next == r.changes.begin() ? Definition{} : (next - 1)->at_end;
}

Definition Definitions::before(int operation, int reg) const {
  const int block = graph_.block_of[at(operation)];
  if (!graph_.reaches(block)) return {};
  if (const int* writer = writer_in(reg, block, operation)) return {Definition::Kind::result, *writer};
  return at_start(block, reg);
}

}  // namespace ptxbuilder::analysis
