// Undefined values: of registers that a thread reads before it has written them, and of memory that nothing
// has written. They may go from register to register; what they decide is reported. Most registers are known
// to be defined when the kernel is decoded: only the others are followed while it runs, until a load brings
// an undefined value.
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

// The registers that an instruction of the routine may read while they are undefined. A register is defined
// where all paths from the entry write it a defined value.
std::vector<Register> Decoder::read_undefined(const Routine& routine) const {
  const std::vector<Block> blocks = basic_blocks(kernel_.code, jumps_, routine.entry, routine.end);
  std::unordered_map<int32_t, size_t> numbers;  // by Register::at, of those that the routine names
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
  // What holds behind an instruction, from what holds before it.
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

// Something depends on the undefined value of a register in the lanes `who`. Memory that nothing has written
// is reported when the CTA ends: who comes to write it, unordered after the read, is the better culprit.
void Warp::decided_by(Register r, Lanes who, const char* how) {
  const Kernel& kernel = grid().kernel;
  const Origin origin = origin_of(r);
  const int lane = __builtin_ctz(who);
  set_undefined(r, who, 0, {});
  if (origin.pc == no_pc)
    return find(
        Fault::undefined_register,
        r == origin.r
            ? fmt::format("this {} {}, which this thread has not written", how, kernel.register_name(r))
            : fmt::format("this {} {}, whose value comes of {}, which this thread has not written", how,
                          kernel.register_name(r), kernel.register_name(origin.r)),
        lane);
  const std::string there = fmt::format("; line {} {} {}, whose value comes of it", kernel.lines[here()].ptx,
                                        how, kernel.register_name(r));
  if (!origin.shared)
    return find(error(Fault::undefined_register, origin.what + there, lane, origin.pc), origin.pc);
  add_uninitialised(cta, origin.pc, origin.what + there, lane);
}

void Warp::set_undefined(Register r, Lanes among, Lanes value, const Origin& origin) {
  const uint32_t n = grid().kernel.number(r);
  if (n == Kernel::no_number) return;
  undefined[n] = (undefined[n] & ~among) | (value & among);
  if (value & among) {
    origins[n] = origin;
    follows_all = true;
  }
}

namespace {

// The lanes in which a value decides a conjunction alone, by a zero, or a disjunction, by ones.
Lanes deciding(const Warp& w, Register r, uint8_t bytes, bool ones) {
  if (bytes == 0) return ones ? *w.at<uint32_t>(r) : ~*w.at<uint32_t>(r);
  Lanes lanes = 0;
  const std::byte decides{ones ? uint8_t{255} : uint8_t{0}};
  for (int lane = 0; lane < 32; ++lane) {
    const std::byte* at = w.at<std::byte>(r) + static_cast<ptrdiff_t>(lane) * bytes;
    lanes |= static_cast<Lanes>(std::all_of(at, at + bytes, [&](std::byte b) { return b == decides; }))
             << lane;
  }
  return lanes;
}

}  // namespace

void Warp::follow_undefined(Lanes executing) {
  if (!cluster_checks_) return;
  const Kernel& kernel = grid().kernel;
  const RegisterUse& use = kernel.uses[here()];
  stores_undefined = false;
  auto require = [&](Register r, Lanes who, const char* how) {
    if (const Lanes missing = undefined_in(r) & who) decided_by(r, missing, how);
  };
  require(instruction->guard, lanes, "is guarded by");
  for (Register r : use.needed) require(r, executing, "uses");
  Lanes result = 0;
  Register from = no_register;
  auto add = [&](Register r, Lanes which) {
    if (const Lanes more = undefined_in(r) & which) {
      result |= more;
      from = r;
    }
  };
  for (Register r : use.reads) add(r, all_lanes);
  switch (use.flow) {
    case Flow::uses:
      break;
    case Flow::copies: {
      Lanes all = use.passed.empty() ? 0 : all_lanes;
      for (Register r : use.passed) all &= undefined_in(r);
      if (all) add(use.passed[0], all);
      break;
    }
    case Flow::selects: {
      const Lanes which = truth(use.decides);
      add(use.decides.p, all_lanes);
      add(use.passed[0], which);
      add(use.passed[1], ~which);
      break;
    }
    case Flow::conjunction:
    case Flow::disjunction:
      for (size_t k = 0; k < 2; ++k) {
        const Register other = use.passed[1 - k];
        add(use.passed[k],
            undefined_in(other) | ~deciding(*this, other, use.bytes, use.flow == Flow::disjunction));
      }
      break;
    case Flow::collective:
      for (Register r : use.passed)
        if (undefined_in(r) & executing) {
          result = all_lanes;
          from = r;
        }
      break;
    case Flow::stores:
      for (size_t k = 0; k < use.passed.size(); ++k) {
        undefined_data[k] = undefined_in(use.passed[k]) & executing;
        stores_undefined |= undefined_data[k] != 0;
      }
      return;
    case Flow::handled:
      return;
    case Flow::accumulates:
      if (truth(use.decides) & executing)
        for (Register r : use.writes) require(r, executing, "adds to");
      break;
  }
  const Origin origin = from == no_register ? Origin{} : origin_of(from);
  for (Register r : use.writes) set_undefined(r, executing, result, origin);
  if (++followed_ < 4096) return;
  // Once nothing but the doubtful registers is undefined, only they need be followed.
  followed_ = 0;
  size_t left = 0;
  for (Lanes n : undefined) left += n != 0;
  for (Register r : kernel.doubtful) left -= undefined[kernel.number(r)] != 0;
  follows_all = left != 0;
}

}  // namespace ptxbuilder::runtime::emulator
