#include "ptxbuilder/analysis/register_estimate.h"

#include <algorithm>

#include "ptxbuilder/analysis/block_schedule.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

using Registers = std::vector<bool>;

// The number of registers for the stack pointer, and for temporary values in addresses and waits.
constexpr int kFixed = 4;

// Longer blocks are skipped, because the time for scheduling is proportional to the square of a block's
// length.
constexpr int kMostScheduled = 8192;

// Returns the size of a PTX register in halves of 32-bit registers. Returns 0 for predicates, which have
// separate registers.
int halves_of(const RegisterName& r) {
  if (r.type == ".pred") return 0;
  return r.type.ends_with("128") ? 8 : r.type.ends_with("64") ? 4 : r.type.ends_with("32") ? 2 : 1;
}

// Returns the registers that are live at the end of each block.
std::vector<Registers> live_ends(const Code& code, const Graph& graph,
                                 const std::vector<RegisterEffect>& effects) {
  std::vector<Registers> ends(graph.blocks.size(), Registers(code.registers.size()));
  for (bool changes = true; changes;) {
    changes = false;
    for (auto b = graph.order.rbegin(); b != graph.order.rend(); ++b) {
      const Block& block = graph.blocks[at(*b)];
      Registers live = ends[at(*b)];
      for (int n = block.last - 1; n >= block.first; --n) {
        for (const int r : effects[at(n)].makes) live[at(r)] = false;
        for (const int r : effects[at(n)].needs) live[at(r)] = true;
      }
      for (const int before : block.predecessors)
        for (size_t r = 0; r < live.size(); ++r)
          if (live[r] && !ends[at(before)][r]) ends[at(before)][r] = changes = true;
    }
  }
  return ends;
}

bool reads_lane(const Value& v) {
  if (v.kind == Value::Kind::special)
    for (const std::string_view name : {"%tid", "%lane", "%clock", "%global"})
      if (v.text.starts_with(name)) return true;
  return std::any_of(v.parts.begin(), v.parts.end(), reads_lane);
}

// Returns whether the uniform datapath of an SM can execute an instruction. The uniform datapath supports
// only integer instructions.
bool may_be_uniform(const Operation& o) {
  if (o.is("shfl")) return o.has("idx");
  if (o.is("ld")) return o.has("param", "const");
  return o.is("add", "and", "bfe", "bfi", "cvt", "cvta", "div", "lop3", "mad", "mapa", "match", "max", "min",
              "mov", "mul", "not", "or", "prmt", "rem", "selp", "setp", "shf", "shl", "shr", "sub", "vote",
              "xor") &&
         !o.has("f32", "f64", "f16", "bf16", "f16x2", "bf16x2");
}

// Finds the values that are equal in all lanes, and may therefore be in uniform registers.
Registers uniform_registers(const Code& code) {
  Registers varies(code.registers.size());
  for (bool changes = true; changes;) {
    changes = false;
    for (const Operation& o : code.operations) {
      bool is_varying = !may_be_uniform(o);
      if (!o.is("shfl")) {  // shfl.idx distributes one lane's value to all lanes
        for (const int r : o.reads) is_varying |= varies[at(r)];
        is_varying |= o.guard != kNone && varies[at(o.guard)];
        is_varying |= std::any_of(o.operands.begin(), o.operands.end(), reads_lane);
      }
      if (!is_varying) continue;
      for (const int r : o.writes)
        if (!varies[at(r)]) varies[at(r)] = changes = true;
    }
  }
  varies.flip();
  return varies;
}

bool is_setmaxnreg(const Operation& o) {
  return o.is("setmaxnreg") && !o.operands.empty() && o.operands[0].kind == Value::Kind::integer;
}

// Returns the blocks that a role runs, without the blocks of the next role, which may follow them in the
// text.
std::vector<int> blocks_from(const Code& code, const Graph& graph, int block) {
  std::vector<bool> reached(graph.blocks.size());
  for (size_t n = 0; n < code.operations.size(); ++n)
    if (is_setmaxnreg(code.operations[n])) reached[at(graph.block_of[n])] = true;
  std::vector<int> all = {block};
  reached[at(block)] = true;
  for (size_t i = 0; i < all.size(); ++i)
    for (const int next : graph.blocks[at(all[i])].successors)
      if (!reached[at(next)]) {
        reached[at(next)] = true;
        all.push_back(next);
      }
  return all;
}

// The greatest number of registers that are live at once, in halves.
struct Peak {
  int accumulators = 0, others = 0;
  int operation = kNone;

  int all() const { return accumulators + others; }
};

// The code after an instruction, up to the next setmaxnreg.
class RoleCode {
 public:
  RoleCode(const Code& code, const Graph& graph, const std::vector<RegisterEffect>& effects,
           const Registers& uniform, int first)
      : code_(code),
        graph_(graph),
        effects_(effects),
        blocks_(blocks_from(code, graph, graph.block_of[at(first)])),
        halves_(code.registers.size()),
        is_accumulator_(code.registers.size()) {
    for (const int b : blocks_)
      for (int n = graph.blocks[at(b)].first; n < graph.blocks[at(b)].last; ++n) {
        const Operation& o = code.operations[at(n)];
        for (const auto* list : {&o.reads, &o.writes})
          for (const int r : *list) halves_[at(r)] = uniform[at(r)] ? 0 : halves_of(code.registers[at(r)]);
        if (o.is_wgmma())
          for (const int r : o.writes) is_accumulator_[at(r)] = true;
      }
  }

  RegisterEstimate estimate(const std::vector<Registers>& ends) const {
    Peak most;
    for (const int b : blocks_) {
      if (!graph_.reaches(b)) continue;
      const Block& block = graph_.blocks[at(b)];
      if (block.last - block.first > kMostScheduled) continue;
      const Peak as_written = peak(ends[at(b)], [&](auto, auto step) {
        for (int n = block.last - 1; n >= block.first; --n) step(n);
      });
      if (as_written.all() <= most.all()) continue;
      const Peak scheduled = peak(
          ends[at(b)], [&](auto gain, auto step) { schedule_from_end(code_, effects_, block, gain, step); });
      const Peak& least = scheduled.all() < as_written.all() ? scheduled : as_written;
      if (least.all() > most.all()) most = least;
    }
    RegisterEstimate e;
    e.accumulators = most.accumulators / 2;
    e.others = (most.others + 1) / 2;
    e.registers = e.accumulators + e.others + kFixed;
    e.operation = most.operation;
    if (e.operation != kNone) e.line = code_.operations[at(e.operation)].at.line;
    return e;
  }

 private:
  // Returns the peak of a block. `go(gain, step)` iterates over its instructions, and the registers `live`
  // are live at its end.
  template <class Go>
  Peak peak(Registers live, Go go) const {
    Peak now, most;
    auto set = [&](int r, bool is_live) {
      if (live[at(r)] == is_live) return;
      live[at(r)] = is_live;
      (is_accumulator_[at(r)] ? now.accumulators : now.others) += is_live ? halves_[at(r)] : -halves_[at(r)];
    };
    for (size_t r = 0; r < live.size(); ++r)
      if (live[r]) (is_accumulator_[r] ? now.accumulators : now.others) += halves_[r];
    // The gain of an instruction is the number of registers that it frees, minus the number of additional
    // registers that it needs.
    auto gain = [&](int n) {
      const RegisterEffect& e = effects_[at(n)];
      int freed = 0;
      for (const int r : e.makes) freed += live[at(r)] ? halves_[at(r)] : 0;
      for (const int r : e.needs)
        if (!live[at(r)] || std::find(e.makes.begin(), e.makes.end(), r) != e.makes.end())
          freed -= halves_[at(r)];
      return freed;
    };
    go(gain, [&](int n) {
      if (now.all() > most.all()) {
        most = now;
        most.operation = n;
      }
      for (const int r : effects_[at(n)].makes) set(r, false);
      for (const int r : effects_[at(n)].needs) set(r, true);
    });
    return most;
  }

  const Code& code_;
  const Graph& graph_;
  const std::vector<RegisterEffect>& effects_;
  const std::vector<int> blocks_;
  std::vector<int> halves_;  // for each register that counts, its number of halves
  Registers is_accumulator_;
};

}  // namespace

std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph) {
  std::vector<RegisterEstimate> all;
  if (code.operations.empty()) return all;
  const std::vector<RegisterEffect> effects = register_effects(code);
  const std::vector<Registers> ends = live_ends(code, graph, effects);
  const Registers uniform = uniform_registers(code);
  for (size_t n = 0; n < code.operations.size(); ++n) {
    const Operation& o = code.operations[n];
    if (!is_setmaxnreg(o) || !graph.reaches(graph.block_of[n])) continue;
    all.push_back(RoleCode(code, graph, effects, uniform, static_cast<int>(n)).estimate(ends));
    all.back().granted = static_cast<int>(o.operands[0].value);
  }
  if (!all.empty()) return all;
  all.push_back(RoleCode(code, graph, effects, uniform, 0).estimate(ends));
  const auto shape = code.cta_shape();
  if (const int64_t threads = shape[0] * shape[1] * shape[2]; threads > 0)
    all.back().granted =
        static_cast<int>(std::min<int64_t>(hopper::thread_registers, hopper::sm_registers / threads));
  return all;
}

}  // namespace ptxbuilder::analysis
