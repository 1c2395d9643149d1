#include "ptxbuilder/analysis/protocol_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <deque>

namespace ptxbuilder::analysis {
namespace {

class Run {
 public:
  Run(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
      bool peeks_succeed, size_t& steps_left)
      : code_(code),
        terms_(terms),
        choices_(choices),
        turns_(turns),
        deeds_(code, terms, boxes, turns, peeks_succeed),
        steps_left_(steps_left) {
    const auto warps = static_cast<int>((code.threads() + kLanes - 1) / kLanes);
    for (int cta = 0; cta < static_cast<int>(code.ctas()); ++cta)
      for (int warp = 0; warp < warps; ++warp) {
        const int64_t lanes = std::min<int64_t>(kLanes, code.threads() - int64_t{warp} * kLanes);
        Walker w;
        w.cta = w.view.cta = cta;
        w.warp = w.view.warp = warp;
        w.lanes = lanes == kLanes ? ~Lanes{0} : (Lanes{1} << lanes) - 1;
        w.registers.resize(at(code.counted_registers));
        deeds_.order().start(w.view);
        warps_.push_back({std::move(w)});
      }
  }

  void run() {
    terms_.ask = [this](int term) { return current_ ? deeds_.outcome(term, *current_) : std::nullopt; };
    for (;;) {
      bool moves = false;
      for (auto& warp : warps_)
        while (advance(warp)) moves = true;
      if (moves || deeds_.order().complete_copies() || deeds_.grant_registers(warps_) || choose_values())
        continue;
      break;
    }
    refuse_hang();
    deeds_.order().finish();
  }

 private:
  const Operation& operation(int i) const { return code_.code.operations[at(i)]; }
  uint32_t line(int i) const { return operation(i).at.line; }
  int64_t rank(const Walker& w) const {
    if (at(w.pc) >= code_.code.operations.size()) return w.pc;  // the end
    return int64_t{code_.graph.place[at(code_.graph.block_of[at(w.pc)])]} << 32 | w.pc;
  }

  // Continues one of the groups of lanes that can run: the group that is first in the order of the code.
  // Returns false if no group can run.
  bool advance(Warp& warp) {
    if (warp.size() > kLanes) std::erase_if(warp, [](const Walker& w) { return w.has_ended; });
    std::vector<Walker*> ready;
    for (Walker& w : warp)
      if (!w.has_ended) ready.push_back(&w);
    std::sort(ready.begin(), ready.end(),
              [&](const Walker* a, const Walker* b) { return rank(*a) < rank(*b); });
    for (Walker* w : ready) {
      if (w->has_ended) continue;
      join(warp, *w);
      if (go(warp, *w)) return true;
    }
    return false;
  }

  // Reunites lanes that reach the same instruction on paths without an effect on the protocol, as if they had
  // never separated.
  void join(Warp& warp, Walker& w) {
    for (Walker& other : warp) {
      if (&other == &w || other.has_ended || other.pc != w.pc || other.view.known != w.view.known ||
          other.view.came != w.view.came || other.view.fenced != w.view.fenced || other.groups != w.groups ||
          other.cluster_phase != w.cluster_phase || other.products != w.products || other.meets || w.meets)
        continue;
      unite(w, other);
    }
  }

  // Runs the lanes to the end of a block, or to a wait. Returns false if the lanes could not run any
  // instruction.
  bool go(Warp& warp, Walker& w) {
    current_ = &w;
    bool any = false;
    for (;;) {
      const int pc = w.pc;
      if (at(pc) >= code_.code.operations.size()) {
        end(w);
        return true;
      }
      if (++steps_ > kMostSteps) throw Refusal{pc, "it is not known whether a loop ends", {}, true};
      if (steps_left_ == 0) throw Refusal{kNone, "following all paths takes too many steps", {}, true};
      --steps_left_;
      const bool is_last = pc + 1 == code_.graph.blocks[at(code_.graph.block_of[at(pc)])].last;
      w.open.reset();
      if (!step(warp, w)) return any;
      any = true;
      if (w.has_ended || is_last) return true;
    }
  }

  void end(Walker& w) {
    has_exits_ = true;
    deeds_.order().exit(w.view);
    w.has_ended = true;
  }

  // Returns the lanes in which an instruction runs. Decides guards that depend on parameters.
  Lanes guarded(const Walker& w, const Operation& o, bool may = false) {
    if (o.guard == kNone || code_.registers[at(o.guard)] == kNone) return w.lanes;
    const LaneValues& guard = deeds_.values().in_register(w, o.guard);
    Lanes lanes = 0;
    std::optional<std::pair<Scalar, bool>> last;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((w.lanes >> lane & 1) == 0) continue;
      const Scalar p = terms_.resolved(guard[lane]);
      if (!last || last->first != p)
        last = {p, p.is_known() ? (p.value & 1) != 0 : may ? !o.negated : terms_.decide(p)};
      if (last->second != o.negated) lanes |= Lanes{1} << lane;
    }
    return lanes;
  }

  // Returns whether a guard is known in all lanes.
  bool is_guard_known(const Walker& w, const Operation& o) {
    if (o.guard == kNone) return true;
    const LaneValues& guard = deeds_.values().in_register(w, o.guard);
    for (int lane = 0; lane < kLanes; ++lane)
      if ((w.lanes >> lane & 1) != 0 && !terms_.resolved(guard[lane]).is_known()) return false;
    return true;
  }

  // Moves lanes that follow another path to a new walker, and returns the new walker.
  Walker& part(Warp& warp, Walker& w, Lanes lanes) {
    Walker& other = warp.emplace_back(w);
    other.lanes = lanes;
    other.view.own = kNone;
    w.lanes &= ~lanes;
    return other;
  }

  bool step(Warp& warp, Walker& w) {
    const int i = w.pc;
    const Operation& o = operation(i);
    const Deed deed = code_.deeds[at(i)];
    if (deed == Deed::branch) return branch(warp, w, i);
    if (deed == Deed::end) {
      const Lanes lanes = code_.counts[at(i)] ? guarded(w, o) : w.lanes;
      if (o.guard != kNone && !code_.counts[at(i)]) return ++w.pc, true;
      if (lanes == w.lanes) return end(w), true;
      if (lanes != 0) end(part(warp, w, lanes));
      return ++w.pc, true;
    }
    if (!code_.counts[at(i)] || deed == Deed::none) return ++w.pc, true;
    if (deed == Deed::compute) {
      compute(w, i, o);
      return ++w.pc, true;
    }
    const Lanes lanes = guarded(w, o, deed == Deed::load || deed == Deed::store);
    if (lanes == 0) return ++w.pc, true;
    if (!deeds_.perform(warp, w, lanes)) return false;
    ++w.pc;
    return true;
  }

  void compute(Walker& w, int i, const Operation& o) {
    if (is_guard_known(w, o)) {
      const Lanes lanes = guarded(w, o);
      if (lanes != 0) deeds_.values().compute(w, i, lanes);
      return;
    }
    // The value of the register depends on the guard.
    const Walker before = w;
    deeds_.values().compute(w, i, w.lanes);
    const LaneValues& guard = deeds_.values().in_register(before, o.guard);
    for (int reg : o.writes) {
      const int n = code_.registers[at(reg)];
      if (n == kNone) continue;
      std::array<Scalar, kLanes> each;
      for (int lane = 0; lane < kLanes; ++lane) {
        const Scalar p = o.negated ? terms_.negated(guard[lane]) : guard[lane];
        each[at(lane)] = terms_.made({.kind = TermKind::select},
                                     {p, w.registers[at(n)][lane], before.registers[at(n)][lane]});
      }
      w.registers[at(n)] = LaneValues(each);
    }
  }

  bool branch(Warp& warp, Walker& w, int i) {
    const Operation& o = operation(i);
    if (o.guard == kNone) return w.pc = o.targets[0], true;
    const int block = code_.graph.block_of[at(i)];
    if (!code_.counts[at(i)]) {
      w.pc = code_.graph.blocks[at(code_.joins[at(block)])].first;
      return true;
    }
    const size_t before = choices_.made();
    const Lanes lanes = guarded(w, o);
    if (choices_.made() != before) count_turn(block, lanes != 0 ? o.targets[0] : i + 1);
    if (lanes == w.lanes) return w.pc = o.targets[0], true;
    if (lanes != 0) part(warp, w, lanes).pc = o.targets[0];
    return ++w.pc, true;
  }

  // Counts an iteration of a loop if a choice decided that it runs, or if a choice was made in it.
  void count_turn(int block, int to) {
    const int loop = code_.graph.blocks[at(block)].loop;
    if (loop == kNone || at(to) >= code_.code.operations.size()) return;
    const bool stays = code_.graph.loops[at(loop)].contains(code_.graph.block_of[at(to)]);
    if (stays && ++chosen_[block] > turns_.most[at(loop)]) throw Beyond();
  }

  bool choose_values() {
    for (auto& warp : warps_)
      for (Walker& w : warp)
        if (!w.has_ended && w.open) {
          current_ = &w;
          if (terms_.number(*w.open)) return true;
          throw Refusal{
              w.pc, fmt::format("this depends on {}, which is not known", terms_.text(*w.open)), {}, true};
        }
    return false;
  }

  void refuse_hang() {
    std::vector<int> others;
    std::string what;
    int first = kNone;
    bool may_go_on = has_exits_;  // true if threads can continue because others have ended; a barrier of all
                                  // threads of a CTA does not wait for threads that have ended
    for (auto& warp : warps_)
      for (Walker& w : warp) {
        if (w.has_ended) continue;
        if (first == kNone) first = w.pc;
        may_go_on =
            may_go_on && code_.deeds[at(w.pc)] == Deed::barrier && operation(w.pc).operands.size() < 2;
        if (std::find(others.begin(), others.end(), w.pc) != others.end()) continue;
        others.push_back(w.pc);
        if (others.size() < 5)
          what += fmt::format("{}{} waits at line {}{}", what.empty() ? "" : "; ",
                              code_.ctas() == 1 ? fmt::format("warp {}", w.warp)
                                                : fmt::format("warp {} of CTA {}", w.warp, w.cta),
                              line(w.pc), deeds_.waits_for(w));
      }
    if (first != kNone) throw Refusal{first, fmt::format("it hangs: {}", what), others, may_go_on};
  }

  static constexpr size_t kMostSteps = 1'000'000;  // limit for each run

  const ProtocolCode& code_;
  Terms& terms_;
  Choices& choices_;
  Turns& turns_;
  ProtocolDeeds deeds_;
  std::deque<Warp> warps_;
  std::map<int, int> chosen_;  // number of iterations with choices, for each block
  Walker* current_ = nullptr;  // the walker whose instruction is running
  bool has_exits_ = false;
  size_t steps_ = 0;
  size_t& steps_left_;
};

}  // namespace

void run_protocol(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
                  bool peeks_succeed, size_t& steps_left) {
  Run(code, terms, choices, boxes, turns, peeks_succeed, steps_left).run();
}

}  // namespace ptxbuilder::analysis
