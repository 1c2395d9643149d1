// Finds plain loads that only guess a value. A compare-and-swap loop may begin with a plain load of the word
// that other threads swap, as in the CUDA guide. If the guess is wrong, the swap stores nothing, so the
// result of the guess is discarded. Such a load is not a race. A load is a guess if its value is used only in
// swaps that compare it with the word, and in tests of whether the swap found that value there.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {
namespace {

bool has(std::string_view opcode, std::string_view word) {
  return opcode.find(word) != std::string_view::npos;
}

bool is_plain_load(std::string_view opcode) {
  if (!opcode.starts_with("ld.")) return false;
  for (const char* word :
       {".volatile", ".mmio", ".relaxed", ".acquire", ".param", ".global", ".local", ".const"})
    if (has(opcode, word)) return false;
  return true;
}

bool is_swap(std::string_view opcode) { return opcode.starts_with("atom.") && has(opcode, ".cas."); }

// The registers that hold the value of the load, values computed from it, or the value that a swap has found.
struct Carriers {
  std::set<int32_t> copies, computed, found;

  bool carry(Register r) const { return copies.contains(r.at) || computed.contains(r.at); }
  void write(Register r, bool always, std::set<int32_t>* into) {
    if (always)
      for (auto* set : {&copies, &computed, &found}) set->erase(r.at);
    if (into) into->insert(r.at);
  }
  // Merges the state of another path that reaches the same block. Returns true if that changes this state.
  bool join(const Carriers& other) {
    const size_t before = copies.size() + computed.size() - found.size();
    copies.insert(other.copies.begin(), other.copies.end());
    computed.insert(other.computed.begin(), other.computed.end());
    std::erase_if(found, [&](int32_t r) { return !other.found.contains(r); });
    return copies.size() + computed.size() - found.size() != before;
  }
};

// Follows the value of one load through a routine, to find out whether the load only guesses.
class Guess {
 public:
  // The registers of a swap: `compared` decides whether the swap stores, and `fresh` is the value that it
  // stores.
  struct Swap {
    Register compared, fresh;
  };
  using SwapOf = std::function<Swap(uint32_t)>;

  Guess(const Kernel& kernel, const std::vector<std::string_view>& opcodes, const SwapOf& swap_of,
        uint32_t load, size_t& steps)
      : kernel_(kernel), opcodes_(opcodes), swap_of_(swap_of), load_(load), steps_(steps) {}

  bool holds(const std::vector<Block>& blocks) {
    std::vector<std::optional<Carriers>> before(blocks.size());
    std::vector<size_t> waiting;
    for (size_t b = 0; b < blocks.size(); ++b)
      if (load_ >= blocks[b].from && load_ < blocks[b].to) before[b].emplace(), waiting.push_back(b);
    while (!waiting.empty()) {
      const size_t b = waiting.back();
      waiting.pop_back();
      Carriers state = *before[b];
      for (uint32_t pc = blocks[b].from; pc < blocks[b].to; ++pc)
        if (steps_ == 0 || (--steps_, !step(state, pc))) return false;
      if (state.copies.empty() && state.computed.empty()) continue;
      for (uint32_t s : blocks[b].successors) {
        const bool is_new = !before[s];
        if (is_new) before[s] = state;
        if (is_new || before[s]->join(state)) waiting.push_back(s);
      }
    }
    return is_compared_;
  }

 private:
  // Processes one instruction. Returns false if the load's value may affect anything except the outcome of a
  // swap.
  bool step(Carriers& state, uint32_t pc) {
    const RegisterUse& use = kernel_.uses[pc];
    const std::string_view opcode = opcodes_[pc];
    const Register guard = kernel_.code[pc].guard;
    if (state.carry(guard)) return false;
    std::vector<Register> sources;
    for (const auto* list : {&use.needed, &use.reads, &use.passed})
      sources.insert(sources.end(), list->begin(), list->end());
    const auto carries = [&](Register r) { return state.carry(r); };
    std::set<int32_t>* into = nullptr;
    if (pc == load_) {
      if (std::ranges::any_of(sources, carries)) return false;
      into = &state.copies;
    } else if (is_swap(opcode)) {
      const auto [compared, fresh] = swap_of_(pc);
      const bool is_compared = state.copies.contains(compared.at);
      for (Register r : sources)
        if (state.carry(r) && (!is_compared || (r != compared && r != fresh))) return false;
      is_compared_ |= is_compared;
      into = &state.found;
    } else if (std::ranges::any_of(sources, carries)) {
      const bool tests = opcode.starts_with("setp.eq.") || opcode.starts_with("setp.ne.");
      const bool is_answer =
          tests && sources.size() == 2 &&
          std::ranges::any_of(sources, [&](Register r) { return state.found.contains(r.at); }) &&
          std::ranges::any_of(sources, [&](Register r) { return state.copies.contains(r.at); });
      const bool only_computes = !use.writes.empty() && !std::ranges::any_of(use.needed, carries) &&
                                 use.flow != Flow::stores && use.flow != Flow::handled &&
                                 use.flow != Flow::collective;
      if (!only_computes || opcode.starts_with("call")) return false;
      if (!is_answer)
        into = opcode.starts_with("mov.") && sources.size() == 1 ? &state.copies : &state.computed;
    } else if (opcode.starts_with("mov.") && sources.size() == 1 && state.found.contains(sources[0].at)) {
      into = &state.found;
    } else if (opcode.starts_with("call")) {
      return false;  // the call may pass the value, but the instruction does not name the arguments
    }
    if (into == &state.copies && pc != load_ && !state.copies.contains(sources[0].at)) into = &state.computed;
    for (Register r : use.writes) state.write(r, guard == no_register, into);
    return true;
  }

  const Kernel& kernel_;
  const std::vector<std::string_view>& opcodes_;
  const SwapOf& swap_of_;
  const uint32_t load_;
  size_t& steps_;
  bool is_compared_ = false;
};

}  // namespace

// Finds the registers whose values reach the compared register of a swap through moves only.
std::set<int32_t> Decoder::compared_by_swaps() const {
  std::set<int32_t> met;
  std::unordered_multimap<int32_t, int32_t> moves;  // from destination to source
  std::vector<int32_t> waiting;
  for (uint32_t pc = 0; pc < placed_.size(); ++pc) {
    const std::string_view opcode = placed_[pc].text->opcode;
    const RegisterUse& use = kernel_.uses[pc];
    if (is_swap(opcode))
      for (Register r : use.needed) waiting.push_back(r.at);
    if (opcode.starts_with("mov.") && use.writes.size() == 1)
      for (const auto* list : {&use.reads, &use.passed})
        for (Register r : *list) moves.emplace(use.writes[0].at, r.at);
  }
  while (!waiting.empty()) {
    const int32_t r = waiting.back();
    waiting.pop_back();
    if (!met.insert(r).second) continue;
    const auto [from, to] = moves.equal_range(r);
    for (auto i = from; i != to; ++i) waiting.push_back(i->second);
  }
  return met;
}

void Decoder::find_guesses() {
  const std::set<int32_t> compared = compared_by_swaps();
  if (compared.empty()) return;
  std::vector<std::string_view> opcodes;
  for (const Placed& p : placed_) opcodes.push_back(p.text->opcode);
  const Guess::SwapOf swap_of = [&](uint32_t pc) {
    const auto& operands = placed_[pc].text->operands;
    const auto at = [&](size_t n) {
      const Symbol* symbol = n < operands.size() && operands[n].kind == ptx_text::Operand::Kind::name
                                 ? find(operands[n].text, placed_[pc].scope)
                                 : nullptr;
      return symbol && symbol->kind == Symbol::Kind::reg ? symbol->at : no_register;
    };
    return Guess::Swap{at(2), at(3)};
  };
  size_t steps = 1 << 22;  // a limit on the work: the remaining loads count as ordinary loads
  for (const Routine& routine : kernel_.routines) {
    const std::vector<Block> blocks = basic_blocks(kernel_.code, jumps_, routine.entry, routine.end);
    for (uint32_t pc = routine.entry; pc < routine.end; ++pc)
      if (const auto& writes = kernel_.uses[pc].writes;
          is_plain_load(opcodes[pc]) && writes.size() == 1 && compared.contains(writes[0].at))
        kernel_.code[pc].guesses = Guess(kernel_, opcodes, swap_of, pc, steps).holds(blocks);
  }
}

}  // namespace ptxbuilder::runtime::emulator
