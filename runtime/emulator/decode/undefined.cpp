// Finds the registers that a thread may read before it has written them, so that only these registers are
// tracked while the kernel runs (machine/undefined.h).
#include <algorithm>
#include <unordered_map>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// A set of the numbers of defined registers.
class Defined {
 public:
  Defined(size_t count, bool all) : words_((count + 63) / 64, all ? ~uint64_t{0} : 0) {}

  bool operator[](size_t n) const { return words_[n / 64] >> (n % 64) & 1; }
  void set(size_t n, bool defined) {
    const uint64_t bit = uint64_t{1} << (n % 64);
    words_[n / 64] = defined ? words_[n / 64] | bit : words_[n / 64] & ~bit;
  }
  // Removes the registers that are not in `other`. Returns true if that changes the set.
  bool meet(const Defined& other) {
    bool less = false;
    for (size_t w = 0; w < words_.size(); ++w) {
      less |= (words_[w] & ~other.words_[w]) != 0;
      words_[w] &= other.words_[w];
    }
    return less;
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace

void Decoder::number_registers() {
  kernel_.numbers.assign(kernel_.register_bytes / 4, Kernel::no_number);
  auto number = [&](Register r) {
    if (r.at < 0) return;
    uint32_t& n = kernel_.numbers[static_cast<size_t>(r.at) / 4];
    if (n == Kernel::no_number) n = kernel_.register_count++;
  };
  for (const RegisterUse& use : kernel_.uses)
    for (const auto* list : {&use.needed, &use.reads, &use.passed, &use.writes})
      for (Register r : *list) number(r);
  for (const Instruction& i : kernel_.code) number(i.guard);
}

// Returns the registers that an instruction of the routine may read while they are undefined. A register is
// defined if all paths from the entry write a defined value to it.
std::vector<Register> Decoder::read_undefined(const Routine& routine) const {
  const std::vector<Block> blocks = basic_blocks(kernel_.code, jumps_, routine.entry, routine.end);
  // The numbers of the registers that the routine names, indexed by Register::at.
  std::unordered_map<int32_t, size_t> numbers;
  auto number = [&](Register r) {
    if (r.at >= 0) numbers.try_emplace(r.at, numbers.size());
  };
  for (uint32_t pc = routine.entry; pc < routine.end; ++pc) {
    const RegisterUse& use = kernel_.uses[pc];
    for (const auto* list : {&use.needed, &use.reads, &use.passed, &use.writes})
      for (Register r : *list) number(r);
    number(kernel_.code[pc].guard);
  }
  auto is_defined = [&](const Defined& state, Register r) { return r.at < 0 || state[numbers.at(r.at)]; };
  // Changes the state before an instruction to the state after it.
  auto step = [&](Defined& state, uint32_t pc) {
    const RegisterUse& use = kernel_.uses[pc];
    auto defined = [&](Register r) { return is_defined(state, r); };
    bool result = std::ranges::all_of(use.reads, defined);
    if (use.flow == Flow::copies)
      result &= use.passed.empty() || std::ranges::any_of(use.passed, defined);
    else
      result &= std::ranges::all_of(use.passed, defined);
    const bool guarded = kernel_.code[pc].guard != no_register;
    for (Register r : use.writes) {
      const size_t n = numbers.at(r.at);
      state.set(n, result && (!guarded || state[n]));
    }
  };
  std::vector<Defined> before(blocks.size(), Defined(numbers.size(), true));
  before[0] = Defined(numbers.size(), false);
  for (const CallValue& v : routine.parameters)
    if (auto at = numbers.find(v.r.at); at != numbers.end()) before[0].set(at->second, true);
  std::vector<bool> waiting(blocks.size(), true);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (!waiting[b]) continue;
      waiting[b] = false;
      Defined state = before[b];
      for (uint32_t pc = blocks[b].from; pc < blocks[b].to; ++pc) step(state, pc);
      for (uint32_t s : blocks[b].successors)
        if (before[s].meet(state)) waiting[s] = changed = true;
    }
  }
  std::vector<Register> doubtful;
  for (size_t b = 0; b < blocks.size(); ++b) {
    Defined state = before[b];
    for (uint32_t pc = blocks[b].from; pc < blocks[b].to; ++pc) {
      const RegisterUse& use = kernel_.uses[pc];
      auto note = [&](Register r) {
        if (!is_defined(state, r)) doubtful.push_back(r);
      };
      for (const auto* list : {&use.needed, &use.reads, &use.passed})
        for (Register r : *list) note(r);
      if (use.flow == Flow::accumulates)
        for (Register r : use.writes) note(r);
      note(kernel_.code[pc].guard);
      step(state, pc);
    }
  }
  return doubtful;
}

void Decoder::find_doubtful() {
  std::vector<Register>& doubtful = kernel_.doubtful;
  for (const Routine& routine : kernel_.routines) {
    const auto more = read_undefined(routine);
    doubtful.insert(doubtful.end(), more.begin(), more.end());
  }
  std::sort(doubtful.begin(), doubtful.end());
  doubtful.erase(std::unique(doubtful.begin(), doubtful.end()), doubtful.end());
  if (doubtful.empty()) return;
  auto is_doubtful = [&](Register r) { return std::binary_search(doubtful.begin(), doubtful.end(), r); };
  for (uint32_t pc = 0; pc < kernel_.code.size(); ++pc) {
    const RegisterUse& use = kernel_.uses[pc];
    bool& watched = kernel_.code[pc].watched;
    watched = is_doubtful(kernel_.code[pc].guard);
    for (const auto* list : {&use.needed, &use.reads, &use.passed, &use.writes})
      watched = watched || std::ranges::any_of(*list, is_doubtful);
  }
}

}  // namespace ptxbuilder::runtime::emulator
