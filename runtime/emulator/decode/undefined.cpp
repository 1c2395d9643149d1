// Registers that a thread uses before it has written them. Most are known not to be when the kernel is
// decoded: only the others, and the instructions that name them, are followed while it runs.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// Which registers are defined, by their numbers.
class Defined {
 public:
  Defined(size_t count, bool all) : words_((count + 63) / 64, all ? ~uint64_t{0} : 0) {}

  bool operator[](size_t n) const { return words_[n / 64] >> (n % 64) & 1; }
  void set(size_t n, bool defined) {
    const uint64_t bit = uint64_t{1} << (n % 64);
    words_[n / 64] = defined ? words_[n / 64] | bit : words_[n / 64] & ~bit;
  }
  // Keeps what `other` has as well; true where that is less.
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

// The registers that an instruction of code[from, to) may read before anything has written them, and of each
// such instruction those that may be undefined there. A register is defined
// where all paths from the entry write it; a copy is as defined as what it copies.
std::vector<Register> Decoder::read_undefined(const Routine& routine,
                                              std::map<uint32_t, UndefinedUse>& undefined) const {
  const uint32_t from = routine.entry, to = routine.end;
  const std::vector<Block> blocks = basic_blocks(kernel_.code, jumps_, from, to);
  std::unordered_map<int32_t, size_t> numbers;  // by Register::at
  auto number = [&](Register r) { return numbers.try_emplace(r.at, numbers.size()).first->second; };
  for (uint32_t pc = from; pc < to; ++pc) {
    const RegisterUse& use = uses_[pc];
    for (const auto* list : {&use.reads, &use.writes, &use.passed})
      for (Register r : *list)
        if (r != no_register) number(r);
    if (kernel_.code[pc].guard != no_register) number(kernel_.code[pc].guard);
  }
  auto is_defined = [&](const Defined& state, Register r) {
    return r == no_register || state[numbers.at(r.at)];
  };
  // What holds behind an instruction, from what holds before it.
  auto step = [&](Defined& state, uint32_t pc) {
    const RegisterUse& use = uses_[pc];
    auto defined = [&](Register r) { return is_defined(state, r); };
    bool result = true;
    if (use.flow == Flow::copies)
      result = std::any_of(use.passed.begin(), use.passed.end(), defined);
    else if (use.flow == Flow::selects || use.flow == Flow::shuffles)
      result = std::all_of(use.passed.begin(), use.passed.end(), defined);
    const bool guarded = kernel_.code[pc].guard != no_register;
    for (Register r : use.writes) {
      const size_t n = numbers.at(r.at);
      state.set(n, result && (!guarded || state[n]));
    }
  };
  std::vector<Defined> before(blocks.size(), Defined(numbers.size(), true));
  before[0] = Defined(numbers.size(), false);
  for (const CallValue& v : routine.parameters)
    if (auto at = numbers.find(v.r.at); v.r != no_register && at != numbers.end())
      before[0].set(at->second, true);
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
      const RegisterUse& use = uses_[pc];
      auto note = [&](Register r, bool needed) {
        if (is_defined(state, r)) return;
        doubtful.push_back(r);
        if (needed) undefined[pc].used.push_back(r);
      };
      for (Register r : use.reads) note(r, true);
      for (Register r : use.passed) note(r, false);
      if (use.flow == Flow::accumulates)
        for (Register r : use.writes) note(r, false);
      if (const Register guard = kernel_.code[pc].guard; !is_defined(state, guard)) {
        doubtful.push_back(guard);
        undefined[pc].guard = guard;
      }
      step(state, pc);
    }
  }
  return doubtful;
}

void Decoder::find_doubtful() {
  std::vector<Register>& doubtful = kernel_.doubtful;
  std::map<uint32_t, UndefinedUse> undefined;  // by program counter
  for (const Routine& routine : kernel_.routines) {
    const auto more = read_undefined(routine, undefined);
    doubtful.insert(doubtful.end(), more.begin(), more.end());
  }
  std::sort(doubtful.begin(), doubtful.end());
  doubtful.erase(std::unique(doubtful.begin(), doubtful.end()), doubtful.end());
  if (doubtful.empty()) return;
  auto number = [&](Register r) {
    auto at = std::lower_bound(doubtful.begin(), doubtful.end(), r);
    return at == doubtful.end() || *at != r ? not_doubtful : static_cast<uint32_t>(at - doubtful.begin());
  };
  for (uint32_t pc = 0; pc < kernel_.code.size(); ++pc) {
    const RegisterUse& use = uses_[pc];
    Watch watch;
    watch.flow = use.flow;
    watch.decides = use.decides;
    for (Register r : use.writes)
      if (const uint32_t n = number(r); n != not_doubtful) watch.written.push_back(n);
    for (Register r : use.passed) watch.passed.push_back(number(r));
    if (auto found = undefined.find(pc); found != undefined.end()) {
      for (Register r : found->second.used) watch.used.push_back(number(r));
      watch.guard = number(found->second.guard);
    }
    if (watch.written.empty() && watch.used.empty() && watch.guard == not_doubtful) continue;
    kernel_.code[pc].watched = true;
    kernel_.watches[pc] = std::move(watch);
  }
}

void Warp::follow_undefined(Lanes executing) {
  if (!cluster().checks) return;
  const Kernel& kernel = grid().kernel;
  const Watch& watch = kernel.watches.at(here());
  auto require = [&](uint32_t n, Lanes who, const char* verb) {
    if (const Lanes missing = undefined[n] & who)
      fail(Fault::undefined_register,
           fmt::format("this {} {}, which this thread has not written", verb,
                       kernel.register_name(kernel.doubtful[n])),
           __builtin_ctz(missing));
  };
  if (watch.guard != not_doubtful) require(watch.guard, lanes, "is guarded by");
  for (uint32_t n : watch.used) require(n, executing, "uses");
  auto missing = [&](uint32_t n) { return n == not_doubtful ? Lanes{0} : undefined[n]; };
  Lanes result = 0;
  switch (watch.flow) {
    case Flow::uses:
      break;
    case Flow::copies:
      result = all_lanes;
      for (uint32_t n : watch.passed) result &= missing(n);
      break;
    case Flow::selects: {
      const Lanes which = truth(watch.decides);
      result = (which & missing(watch.passed[0])) | (~which & missing(watch.passed[1]));
      break;
    }
    case Flow::shuffles:  // surely undefined where it is so in every lane
      result = (missing(watch.passed[0]) & executing) == executing ? all_lanes : 0;
      break;
    case Flow::accumulates:
      if (truth(watch.decides) & executing)
        for (uint32_t n : watch.written) require(n, executing, "adds to");
      break;
  }
  for (uint32_t n : watch.written) undefined[n] = (undefined[n] & ~executing) | (result & executing);
}

}  // namespace ptxbuilder::runtime::emulator
