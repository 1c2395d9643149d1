// Finds the points at which the sides of branches meet again. Such a point is the immediate post-dominator of
// the branch's block.
#include <algorithm>
#include <set>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class PostDominators {
 public:
  // The exit is block number `blocks.size()`; every block reaches it or loops forever.
  explicit PostDominators(const std::vector<Block>& blocks)
      : exit_(static_cast<uint32_t>(blocks.size())),
        predecessors_(exit_ + 1),
        number_(exit_ + 1, none),
        parent_(exit_ + 1, none) {
    for (uint32_t b = 0; b < exit_; ++b) {
      if (blocks[b].successors.empty()) predecessors_[exit_].push_back(b);
      for (uint32_t s : blocks[b].successors) predecessors_[s].push_back(b);
    }
    order();
    parent_[exit_] = exit_;
    for (bool changed = true; changed;) {  // Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm"
      changed = false;
      for (auto b = order_.rbegin(); b != order_.rend(); ++b) {
        if (*b == exit_) continue;
        uint32_t best = none;
        auto meet = [&](uint32_t s) {
          if (parent_[s] != none) best = best == none ? s : common(best, s);
        };
        if (blocks[*b].successors.empty()) meet(exit_);
        for (uint32_t s : blocks[*b].successors) meet(s);
        if (best != parent_[*b]) {
          parent_[*b] = best;
          changed = true;
        }
      }
    }
  }

  // Returns the block's immediate post-dominator. Returns `none` for the exit, and for a block that never
  // reaches the exit.
  uint32_t of(uint32_t block) const { return parent_[block] == exit_ ? none : parent_[block]; }

  static constexpr uint32_t none = ~0u;

 private:
  // Computes the post order of the reversed graph, starting at the exit, without recursion.
  void order() {
    std::vector<std::pair<uint32_t, size_t>> stack{{exit_, 0}};
    std::vector<bool> seen(exit_ + 1);
    seen[exit_] = true;
    while (!stack.empty()) {
      auto& [block, next] = stack.back();
      if (next < predecessors_[block].size()) {
        uint32_t p = predecessors_[block][next++];
        if (!seen[p]) {
          seen[p] = true;
          stack.push_back({p, 0});
        }
      } else {
        number_[block] = static_cast<uint32_t>(order_.size());
        order_.push_back(block);
        stack.pop_back();
      }
    }
  }

  uint32_t common(uint32_t a, uint32_t b) const {
    while (a != b) {
      while (number_[a] < number_[b]) a = parent_[a];
      while (number_[b] < number_[a]) b = parent_[b];
    }
    return a;
  }

  uint32_t exit_;
  std::vector<std::vector<uint32_t>> predecessors_;
  std::vector<uint32_t> order_, number_, parent_;
};

}  // namespace

std::vector<Block> basic_blocks(const std::vector<Instruction>& code, const std::vector<Jump>& jumps,
                                uint32_t from, uint32_t to) {
  std::set<uint32_t> leaders{from};
  for (uint32_t pc = from; pc < to; ++pc) {
    leaders.insert(jumps[pc].targets.begin(), jumps[pc].targets.end());
    if (jumps[pc].leaves) leaders.insert(pc + 1);
  }
  leaders.erase(leaders.lower_bound(to), leaders.end());
  std::vector<uint32_t> starts(leaders.begin(), leaders.end());
  auto block_of = [&](uint32_t pc) {
    return static_cast<uint32_t>(std::lower_bound(starts.begin(), starts.end(), pc) - starts.begin());
  };
  std::vector<Block> blocks(starts.size());
  for (size_t b = 0; b < starts.size(); ++b) {
    blocks[b].from = starts[b];
    blocks[b].to = b + 1 < starts.size() ? starts[b + 1] : to;
    const uint32_t last = blocks[b].to - 1;
    for (uint32_t t : jumps[last].targets) blocks[b].successors.push_back(block_of(t));
    const bool falls = !jumps[last].leaves || code[last].guard != no_register;
    if (falls && b + 1 < starts.size()) blocks[b].successors.push_back(static_cast<uint32_t>(b + 1));
  }
  return blocks;
}

void find_reconvergence(Kernel& kernel, const std::vector<Jump>& jumps, uint32_t from, uint32_t to) {
  kernel.reconvergence.resize(kernel.code.size(), no_pc);
  const std::vector<Block> blocks = basic_blocks(kernel.code, jumps, from, to);
  PostDominators post(blocks);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const uint32_t last = blocks[b].to - 1;
    if (jumps[last].targets.empty()) continue;
    uint32_t meet = post.of(static_cast<uint32_t>(b));
    if (meet != PostDominators::none) kernel.reconvergence[last] = blocks[meet].from;
  }
}

}  // namespace ptxbuilder::runtime::emulator
