#include "ptxbuilder/analysis/protocol_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <deque>

#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/analysis/protocol_values.h"

namespace ptxbuilder::analysis {
namespace {

// Lanes of a warp on their way.
struct Walker : Group {
  View view = {};
  int pc = 0;
  bool has_ended = false;
  uint64_t products = 0;               // wgmmas that its warp has begun
  std::vector<uint64_t> groups = {};   // how many had been when each group was committed
  std::optional<uint32_t> meets = {};  // the phase of the barrier that it waits at
  uint32_t cluster_phase = 0;          // that it has arrived at
  bool has_registers = false;          // that it has asked for
  std::optional<Scalar> open = {};     // a value that it needs to go on
};

// These are bulk copies out of shared memory, those of a thread in groups.
struct BulkGroups {
  int component = kNone;
  uint32_t begun = 0;  // groups that are committed
};

// The bytes that wgmma reads of lines of a matrix (PTX ISA, "Matrix Descriptor Format"), with all columns of
// K of what its swizzle keeps together, and all lines that lie beside each other in it.
std::vector<Span> spans_of_matrix(uint64_t descriptor, bool is_transposed, uint64_t from, uint64_t lines) {
  const uint64_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4,
                 stride = (descriptor >> 32 & 0x3fff) << 4, layout = descriptor >> 62;
  std::vector<Span> spans;
  if (layout == 0) {
    // Blocks of 8 times 16 bytes, two of them along K.
    for (uint64_t line = from / 8; line < (from + lines) / 8; ++line)
      for (uint64_t k = 0; k < 2; ++k) spans.push_back({start + line * stride + k * leading, 128});
    return spans;
  }
  const uint64_t width = uint64_t{256} >> layout, first = start / width * width;
  if (!is_transposed)
    for (uint64_t line = from / 8; line < (from + lines) / 8; ++line)
      spans.push_back({first + line * stride, 8 * width});
  else
    for (uint64_t panel = from * 2 / width; panel * width < (from + lines) * 2; ++panel)
      for (uint64_t k = 0; k < 2; ++k) spans.push_back({first + panel * leading + k * stride, 8 * width});
  return spans;
}

class Run {
 public:
  Run(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
      bool peeks_succeed)
      : code_(code),
        terms_(terms),
        choices_(choices),
        boxes_(boxes),
        turns_(turns),
        peeks_succeed_(peeks_succeed),
        values_(code, terms),
        order_(static_cast<int>(code.ctas()), boxes) {
    const auto warps = static_cast<int>((code.threads() + kLanes - 1) / kLanes);
    for (int cta = 0; cta < static_cast<int>(code.ctas()); ++cta)
      for (int warp = 0; warp < warps; ++warp) {
        const int64_t lanes = std::min<int64_t>(kLanes, code.threads() - int64_t{warp} * kLanes);
        Walker w;
        w.cta = w.view.cta = cta;
        w.warp = w.view.warp = warp;
        w.lanes = lanes == kLanes ? ~Lanes{0} : (Lanes{1} << lanes) - 1;
        w.registers.resize(at(code.counted_registers));
        order_.start(w.view);
        warps_.push_back({std::move(w)});
      }
  }

  void run() {
    terms_.ask = [this](int term) { return outcome(term); };
    for (;;) {
      bool moves = false;
      for (auto& warp : warps_)
        while (advance(warp)) moves = true;
      if (moves || order_.complete_copies() || grant_registers() || choose_values()) continue;
      break;
    }
    refuse_hang();
    order_.finish();
  }

 private:
  using Warp = std::deque<Walker>;  // which stay where they are when lanes part

  const Operation& operation(int i) const { return code_.code.operations[at(i)]; }
  uint32_t line(int i) const { return operation(i).at.line; }
  int64_t rank(const Walker& w) const {
    return int64_t{code_.graph.place[at(code_.graph.block_of[at(w.pc)])]} << 32 | w.pc;
  }

  // Lets the lanes of a warp go on that are behind the others and can; false where none can.
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

  // Lanes that have come to the same place by ways without a deed are as if they had never parted.
  void join(Warp& warp, Walker& w) {
    for (Walker& other : warp) {
      if (&other == &w || other.has_ended || other.pc != w.pc || other.view.known != w.view.known ||
          other.view.came != w.view.came || other.view.fenced != w.view.fenced || other.groups != w.groups ||
          other.cluster_phase != w.cluster_phase || other.products != w.products || other.meets || w.meets)
        continue;
      unite(w, other);
    }
  }

  void unite(Walker& into, Walker& other) {
    for (size_t r = 0; r < into.registers.size(); ++r) {
      if (into.registers[r] == other.registers[r] && into.registers[r].is_one()) continue;
      std::array<Scalar, kLanes> each;
      for (int lane = 0; lane < kLanes; ++lane)
        each[at(lane)] = (other.lanes >> lane & 1) != 0 ? other.registers[r][lane] : into.registers[r][lane];
      into.registers[r] = LaneValues(each);
    }
    into.lanes |= other.lanes;
    if (into.view.own == kNone) into.view.own = other.view.own, into.view.ticks = other.view.ticks;
    other.has_ended = true;
    other.lanes = 0;
  }

  // To the end of a block, or to where it has to wait; false where it could not go at all.
  bool go(Warp& warp, Walker& w) {
    current_ = &w;
    bool any = false;
    for (;;) {
      const int pc = w.pc;
      if (at(pc) >= code_.code.operations.size()) {
        end(w);
        return true;
      }
      if (++steps_ > kMostSteps) throw Refusal{pc, "a loop may not end, for all that is known", {}, true};
      const bool is_last = pc + 1 == code_.graph.blocks[at(code_.graph.block_of[at(pc)])].last;
      w.open.reset();
      if (!step(warp, w)) return any;
      any = true;
      if (w.has_ended || is_last) return true;
    }
  }

  void end(Walker& w) {
    order_.exit(w.view);
    w.has_ended = true;
  }

  // The lanes in which an instruction runs; a guard that parameters decide is decided.
  Lanes guarded(const Walker& w, const Operation& o, bool may = false) {
    if (o.guard == kNone || code_.registers[at(o.guard)] == kNone) return w.lanes;
    const LaneValues& guard = values_.in_register(w, o.guard);
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

  // This says whether a guard is known in all lanes.
  bool is_guard_known(const Walker& w, const Operation& o) {
    if (o.guard == kNone) return true;
    const LaneValues& guard = values_.in_register(w, o.guard);
    for (int lane = 0; lane < kLanes; ++lane)
      if ((w.lanes >> lane & 1) != 0 && !terms_.resolved(guard[lane]).is_known()) return false;
    return true;
  }

  // A number that a lane has; where it is not known yet the lanes wait for it.
  std::optional<uint64_t> number(Walker& w, const LaneValues& v, int lane) {
    const Scalar s = terms_.resolved(v[lane]);
    if (s.is_known()) return s.value;
    w.open = s;
    return std::nullopt;
  }
  std::optional<uint64_t> number(Walker& w, const Value& v) {
    return number(w, values_.operand(w, v), std::countr_zero(w.lanes));
  }

  // Parts lanes that go another way.
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
    if (!perform(warp, w, i, deed, lanes)) return false;
    ++w.pc;
    return true;
  }

  void compute(Walker& w, int i, const Operation& o) {
    if (is_guard_known(w, o)) {
      const Lanes lanes = guarded(w, o);
      if (lanes != 0) values_.compute(w, i, lanes);
      return;
    }
    // The register's value then depends on the guard.
    const Walker before = w;
    values_.compute(w, i, w.lanes);
    const LaneValues& guard = values_.in_register(before, o.guard);
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

  // A loop turns once more since that was chosen, or turns and what it does in a turn was chosen.
  void count_turn(int block, int to) {
    const int loop = code_.graph.blocks[at(block)].loop;
    if (loop == kNone || at(to) >= code_.code.operations.size()) return;
    const bool stays = code_.graph.loops[at(loop)].contains(code_.graph.block_of[at(to)]);
    if (stays && ++chosen_[block] > turns_.most[at(loop)]) throw Beyond();
  }

  // The operands that are addresses, in order.
  std::vector<const Value*> addresses(const Operation& o) const {
    std::vector<const Value*> all;
    for (const Value& v : o.operands)
      if (v.kind == Value::Kind::address) all.push_back(&v);
    return all;
  }
  // The operand behind the last address; null where there is none.
  static const Value* behind_address(const Operation& o) {
    for (size_t n = o.operands.size(); n-- > 0;)
      if (o.operands[n].kind == Value::Kind::address)
        return n + 1 < o.operands.size() ? &o.operands[n + 1] : nullptr;
    return nullptr;
  }

  Order::Place place(const Walker& w, uint64_t address) const {
    address &= 0xffffffff;
    const uint64_t cta = address >> kCtaBits;
    return {cta == 0 ? w.cta : static_cast<int>(cta - 1), address & ((uint64_t{1} << kCtaBits) - 1)};
  }

  // Calls f(address, lanes) for each address that lanes have, with how many; false where one is not known.
  bool for_addresses(Walker& w, const Value& v, Lanes lanes, const auto& f) {
    const LaneValues all = values_.operand(w, v);
    if (all.is_one()) {
      const auto address = number(w, all, 0);
      if (!address) return false;
      f(place(w, *address), lanes);
      return true;
    }
    std::vector<std::pair<Order::Place, Lanes>> each;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const auto address = number(w, all, lane);
      if (!address) return false;
      each.emplace_back(place(w, *address), Lanes{1} << lane);
    }
    for (const auto& [to, of] : each) f(to, of);
    return true;
  }

  // Calls f for the two addresses of each lane; false where one is not known.
  bool for_pairs(Walker& w, const Value& a, const Value& b, Lanes lanes, const auto& f) {
    const LaneValues first = values_.operand(w, a), second = values_.operand(w, b);
    std::vector<std::pair<Order::Place, Order::Place>> each;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const auto x = number(w, first, lane), y = number(w, second, lane);
      if (!x || !y) return false;
      each.emplace_back(place(w, *x), place(w, *y));
    }
    for (const auto& [x, y] : each) f(x, y);
    return true;
  }

  bool perform(Warp& warp, Walker& w, int i, Deed deed, Lanes lanes) {
    const Operation& o = operation(i);
    switch (deed) {
      case Deed::trap:
        throw Refusal{i, "a trap may be reached", {}, true};
      case Deed::unknown:
        throw Refusal{
            i, fmt::format("what '{}' does to the protocol is not known", o.text->opcode), {}, true};
      case Deed::init: {
        const auto count = number(w, *behind_address(o));
        return count && for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& to, Lanes of) {
                 for (int n = 0; n < std::popcount(of); ++n) order_.init(w.view, to, *count, i);
               });
      }
      case Deed::fence_init:
        return order_.fence_inits(w.view), true;
      case Deed::fence_proxy:
        order_.fence_inits(w.view);
        w.view.fenced.join(w.view.known);
        return true;
      case Deed::arrive:
      case Deed::expect:
        return arrive(w, i, deed, lanes);
      case Deed::wait:
        return wait(w, i, lanes);
      case Deed::load:
      case Deed::store:
        return access(w, i, deed, lanes);
      case Deed::copy_in:
        return copy_in(w, i, lanes);
      case Deed::copy_out:
        return copy_out(w, i, lanes);
      case Deed::bulk_commit:
        for_lanes(lanes, [&](int lane) { ++bulk(w, lane).begun; });
        return true;
      case Deed::bulk_wait: {
        const uint64_t left = o.operands.empty() ? 0 : static_cast<uint64_t>(o.operands[0].value);
        for_lanes(lanes, [&](int lane) {
          const BulkGroups& b = bulk(w, lane);
          if (b.begun > left) w.view.learn(b.component, static_cast<uint32_t>(b.begun - left));
        });
        return true;
      }
      case Deed::wgmma:
        if (!all_here(warp, w)) return false;
        meet(warp, w.pc);
        for (Walker& other : warp)
          if (!other.has_ended && &other != &w && multiply(other, i)) ++other.pc;
        return multiply(w, i);
      case Deed::wgmma_commit:
        w.groups.push_back(w.products);
        return true;
      case Deed::wgmma_wait: {
        const auto left = static_cast<uint64_t>(o.operands.empty() ? 0 : o.operands[0].value);
        return w.groups.size() <= left || leave_products(w, w.groups[w.groups.size() - 1 - left]);
      }
      case Deed::barrier:
        return barrier(w, i, lanes);
      case Deed::cluster_arrive: {
        w.cluster_phase =
            order_.meet(w.view, kCluster, static_cast<uint64_t>(std::popcount(lanes)),
                        static_cast<uint64_t>(code_.threads() * code_.ctas()), !o.has("relaxed"), i);
        return true;
      }
      case Deed::cluster_wait:
        if (!order_.is_met(kCluster, w.cluster_phase)) return false;
        order_.leave(w.view, kCluster);
        return true;
      case Deed::registers_more:
        return w.has_registers;
      case Deed::registers_less:
        if (gave_registers_)
          throw Refusal{i, "registers are given back after others wait for them", {}, true};
        return true;
      case Deed::warp_sync:
        return sync_warp(warp, w, i);
      case Deed::none:
      case Deed::compute:
      case Deed::branch:
      case Deed::end:
        return true;
    }
    return true;
  }

  static void for_lanes(Lanes lanes, const auto& f) {
    for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
  }

  BulkGroups& bulk(const Walker& w, int lane) {
    BulkGroups& b = bulk_[{w.cta, w.warp * kLanes + lane}];
    if (b.component == kNone) b.component = order_.component();
    return b;
  }

  // The products of a warpgroup. They are over in all of its warps when they are in one, so that all have
  // begun.
  struct Products {
    int component = kNone;
    std::array<uint64_t, 4> begun = {};  // by each warp
    std::vector<Clock> came = {};        // what came before the begin of each product, in all warps
  };

  Products& products(const Walker& w) {
    Products& p = products_[{w.cta, w.warp / 4}];
    if (p.component == kNone) p.component = order_.component();
    return p;
  }

  // To behind the first `count` products; false while a warp has not begun them.
  bool leave_products(Walker& w, uint64_t count) {
    Products& p = products(w);
    if (std::any_of(p.begun.begin(), p.begun.end(), [&](uint64_t begun) { return begun < count; }))
      return false;
    w.view.learn(p.component, static_cast<uint32_t>(count));
    if (count > 0) w.view.came.join(p.came[count - 1]);
    return true;
  }

  bool arrive(Walker& w, int i, Deed deed, Lanes lanes) {
    const Operation& o = operation(i);
    if (o.results > 0 && o.operands[0].kind == Value::Kind::reg &&
        code_.registers[at(o.operands[0].number)] != kNone)
      throw Refusal{i, "a state of an mbarrier is used", {}, true};
    const Value* behind = behind_address(o);
    const auto value = behind ? number(w, *behind) : std::optional<uint64_t>(1);
    if (!value) return false;
    return for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& to, Lanes of) {
      for (int n = 0; n < std::popcount(of); ++n) {
        if (deed == Deed::expect) {
          order_.expect(w.view, to, *value, i);
        } else if (o.has("expect_tx")) {
          order_.arrive(w.view, to, *value, !o.has("relaxed"), i);
        } else {
          for (uint64_t times = 0; times < *value; ++times)
            order_.arrive(w.view, to, 0, !o.has("relaxed"), i);
        }
      }
    });
  }

  bool wait(Walker& w, int i, Lanes lanes) {
    const Operation& o = operation(i);
    const auto parity = number(w, *behind_address(o));
    if (!parity) return false;
    bool is_over = true;
    const bool known = for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& at_place, Lanes) {
      if (const int loop = code_.loop_of_wait(i);
          loop != kNone && waited_[{i, w.cta, w.warp}].insert(at_place.address).second)
        turns_.widen(loop, waited_[{i, w.cta, w.warp}].size());
      last_wait_[{w.cta, w.warp}] = at_place;
      if (!code_.spins[at(i)]) {
        values_.set(w, o.operands[0], tested(order_.test(w.view, at_place, *parity, i), i), lanes);
        return;
      }
      is_over = order_.wait(w.view, at_place, *parity, !o.has("relaxed"), i) && is_over;
    });
    if (!known || !is_over) return false;
    if (code_.spins[at(i)]) values_.set(w, o.operands[0], Scalar{.value = 1}, lanes);
    return true;
  }

  // The outcome of a test, which is asked for where something depends on it.
  Scalar tested(const Order::Test& test, int i) {
    const std::string name = fmt::format("test {} of line {}", tests_.size(), line(i));
    const Scalar outcome = terms_.made({.kind = TermKind::outcome, .bits = 1, .name = name}, {});
    tests_.emplace(outcome.term, std::pair(test, i));
    return outcome;
  }

  std::optional<bool> outcome(int term) {
    const auto found = tests_.find(term);
    if (found == tests_.end() || !current_) return std::nullopt;
    const auto& [test, operation] = found->second;
    const bool passes = peeks_succeed_ && test.is_over;
    order_.use(current_->view, test, passes, operation);
    return passes;
  }

  bool access(Walker& w, int i, Deed deed, Lanes lanes) {
    const Operation& o = operation(i);
    uint64_t bytes = static_cast<uint64_t>(access_bytes(o));
    if (o.has("m8n8")) {
      bytes = 16;
      lanes &= o.has("x4") ? ~Lanes{0} : o.has("x2") ? 0xffffu : 0xffu;
    }
    const bool writes = deed == Deed::store;
    std::map<int, std::vector<Span>> spans;
    if (!for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& from, Lanes) {
          spans[from.cta].push_back({from.address, bytes});
        }))
      return false;
    const Moment now = order_.tick(w.view);
    for (auto& [cta, of] : spans) {
      for (const Span& span : of)
        if (writes)
          boxes_.add_write(span);
        else
          boxes_.add_read(span);
      order_.touch(w.view, {cta, std::move(of), writes, false, now, i});
    }
    values_.compute(w, i, lanes);
    return true;
  }

  // The tensor map of a copy, by its address.
  std::string map_of(Walker& w, const Value& v) {
    return terms_.text(terms_.resolved(values_.operand(w, v)[std::countr_zero(w.lanes)]));
  }

  bool copy_in(Walker& w, int i, Lanes lanes) {
    const Operation& o = operation(i);
    const auto all = addresses(o);
    const bool is_tensor = o.has("tensor"), is_multicast = o.has("multicast::cluster");
    if (all.size() < 3) throw Refusal{i, "this copy has too few addresses", {}, true};
    // [to], [from or map], bytes where it says them, [mbarrier], the mask of CTAs
    std::optional<uint64_t> bytes = 0, mask = 0;
    if (!is_tensor) bytes = number(w, o.operands[2]);
    if (is_multicast) {
      for (size_t n = o.operands.size(); n-- > 3;)
        if (o.operands[n - 1].kind == Value::Kind::address || o.operands[n - 1].kind == Value::Kind::vector) {
          mask = number(w, o.operands[n]);
          break;
        }
    }
    if (!bytes || !mask) return false;
    const std::string map = is_tensor ? map_of(w, *all[1]) : "";
    return for_pairs(w, *all[0], *all[2], lanes, [&](const Order::Place& to, const Order::Place& at_place) {
      if (is_tensor) boxes_.add_copy(map, to.address, true);
      for (int cta = 0; cta < static_cast<int>(code_.ctas()); ++cta) {
        if (is_multicast ? (*mask >> cta & 1) == 0 : cta != to.cta) continue;
        const Moment end =
            order_.copy(w.view, {is_multicast ? cta : at_place.cta, at_place.address}, *bytes, map, i);
        order_.touch(w.view,
                     {cta, {{to.address, is_tensor ? boxes_.bytes(map) : *bytes}}, true, true, end, i});
      }
    });
  }

  bool copy_out(Walker& w, int i, Lanes lanes) {
    const Operation& o = operation(i);
    const auto all = addresses(o);
    const bool is_tensor = o.has("tensor");
    if (all.size() < 2) throw Refusal{i, "this copy has too few addresses", {}, true};
    const auto bytes = is_tensor ? std::optional<uint64_t>(0) : number(w, o.operands[2]);
    if (!bytes) return false;
    const std::string map = is_tensor ? map_of(w, *all[0]) : "";
    const LaneValues from = values_.operand(w, *all[1]);
    for (int lane = 0; lane < kLanes; ++lane)
      if ((lanes >> lane & 1) != 0 && !number(w, from, lane)) return false;
    for_lanes(lanes, [&](int lane) {
      const Order::Place source = place(w, *number(w, from, lane));
      if (is_tensor) boxes_.add_copy(map, source.address, false);
      const BulkGroups& b = bulk(w, lane);
      order_.tick(w.view);
      order_.touch(w.view, {source.cta,
                            {{source.address, is_tensor ? boxes_.bytes(map) : *bytes}},
                            false,
                            true,
                            {b.component, b.begun + 1},
                            i});
    });
    return true;
  }

  bool multiply(Walker& w, int i) {
    const Operation& o = operation(i);
    uint64_t columns = 0;
    for (std::string_view word : o.words)
      if (word.starts_with("m64n")) std::from_chars(word.data() + 4, word.data() + word.size(), columns);
    const bool has_a = o.operands[1].kind != Value::Kind::vector;
    const auto a = has_a ? number(w, o.operands[1]) : std::optional<uint64_t>(0),
               b = number(w, o.operands[2]);
    if (!a || !b) return false;
    // ..., scale-d, imm-scale-a, imm-scale-b, and whether A and B are transposed, of which A in registers has
    // none
    const auto is_transposed = [&](size_t n) {
      const size_t last = o.operands.size() - 1;
      const bool says = o.operands.size() > (has_a ? 7u : 6u);
      return says && o.operands[n == 1 ? last - 1 : last].value != 0;
    };
    std::vector<Span> spans;
    if (has_a) spans = spans_of_matrix(*a, is_transposed(1), static_cast<uint64_t>(w.warp % 4) * 16, 16);
    const std::vector<Span> of_b = spans_of_matrix(*b, is_transposed(2), 0, columns);
    spans.insert(spans.end(), of_b.begin(), of_b.end());
    for (const Span& span : spans) boxes_.add_read(span);
    order_.tick(w.view);
    Products& p = products(w);
    ++w.products;
    p.begun[at(w.warp % 4)] = std::max(p.begun[at(w.warp % 4)], w.products);
    if (p.came.size() < w.products) p.came.resize(w.products);
    p.came[w.products - 1].join(w.view.came);
    order_.touch(w.view,
                 {w.cta, std::move(spans), false, true, {p.component, static_cast<uint32_t>(w.products)}, i});
    return true;
  }

  bool barrier(Walker& w, int i, Lanes lanes) {
    const Operation& o = operation(i);
    const auto which = o.operands.empty() ? std::optional<uint64_t>(0) : number(w, o.operands[0]);
    const auto count = o.operands.size() < 2 ? std::optional<uint64_t>(static_cast<uint64_t>(code_.threads()))
                                             : number(w, o.operands[1]);
    if (!which || !count) return false;
    const std::pair<int, uint64_t> key = {w.cta, *which};
    if (!w.meets) {
      const uint32_t phase =
          order_.meet(w.view, key, static_cast<uint64_t>(std::popcount(lanes)), *count, true, i);
      if (o.has("arrive")) return true;
      w.meets = phase;
    }
    if (!order_.is_met(key, *w.meets)) return false;
    order_.leave(w.view, key);
    w.meets.reset();
    return true;
  }

  // This says whether all lanes of the warp that have not ended are here.
  static bool all_here(const Warp& warp, const Walker& w) {
    return std::all_of(warp.begin(), warp.end(),
                       [&](const Walker& other) { return other.has_ended || other.pc == w.pc; });
  }

  // Lanes that come to one instruction together are all behind what each has done, and see no more of it.
  void meet(Warp& warp, int pc) {
    Clock came;
    for (const Walker& w : warp)
      if (!w.has_ended && w.pc == pc) came.join(w.view.came);
    for (Walker& w : warp)
      if (!w.has_ended && w.pc == pc) w.view.came.join(came);
  }

  bool sync_warp(Warp& warp, Walker& w, int i) {
    const auto mask = number(w, operation(i).operands[0]);
    if (!mask) return false;
    Lanes here = 0;
    for (const Walker& other : warp)
      if (!other.has_ended && other.pc == w.pc) here |= other.lanes;
    if ((static_cast<Lanes>(*mask) & ~here) != 0) return false;
    order_.tick(w.view);
    for (Walker& other : warp) {
      if (&other == &w || other.has_ended || other.pc != w.pc || (other.lanes & *mask) == 0) continue;
      order_.tick(other.view);
      w.view.known.join(other.view.known);
      w.view.came.join(other.view.came);
      w.view.fenced.join(other.view.fenced);
      unite(w, other);
    }
    return true;
  }

  // setmaxnreg.inc goes on when all that can give back registers have.
  bool grant_registers() {
    bool any = false;
    for (auto& warp : warps_)
      for (Walker& w : warp)
        if (!w.has_ended && !w.has_registers && at(w.pc) < code_.deeds.size() &&
            code_.deeds[at(w.pc)] == Deed::registers_more)
          w.has_registers = any = gave_registers_ = true;
    return any;
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
    for (auto& warp : warps_)
      for (Walker& w : warp) {
        if (w.has_ended) continue;
        if (first == kNone) first = w.pc;
        if (std::find(others.begin(), others.end(), w.pc) != others.end()) continue;
        others.push_back(w.pc);
        const auto at_place = last_wait_.find({w.cta, w.warp});
        const bool is_wait = code_.deeds[at(w.pc)] == Deed::wait && at_place != last_wait_.end();
        if (others.size() < 5)
          what +=
              fmt::format("{}{} waits at line {}{}", what.empty() ? "" : "; ",
                          code_.ctas() == 1 ? fmt::format("warp {}", w.warp)
                                            : fmt::format("warp {} of CTA {}", w.warp, w.cta),
                          line(w.pc),
                          is_wait ? fmt::format(" for the mbarrier at shared memory + {}, of which {}",
                                                at_place->second.address, order_.missing(at_place->second))
                                  : "");
      }
    if (first != kNone) throw Refusal{first, fmt::format("it hangs: {}", what), others};
  }

  static constexpr std::pair<int, uint64_t> kCluster = {-1, 0};
  static constexpr size_t kMostSteps = 1'000'000;  // of a run

  const ProtocolCode& code_;
  Terms& terms_;
  Choices& choices_;
  Boxes& boxes_;
  Turns& turns_;
  const bool peeks_succeed_;
  ProtocolValues values_;
  Order order_;
  std::vector<Warp> warps_;
  std::map<std::pair<int, int>, BulkGroups> bulk_;           // by CTA and thread
  std::map<std::pair<int, int>, Products> products_;         // by CTA and warpgroup
  std::map<int, int> chosen_;                                // turns, by block
  std::map<std::array<int, 3>, std::set<uint64_t>> waited_;  // by wait, CTA and warp, the mbarriers
  std::map<std::pair<int, int>, Order::Place> last_wait_;
  std::map<int, std::pair<Order::Test, int>> tests_;  // by the term of the outcome, with the instruction
  Walker* current_ = nullptr;                         // whose instruction is run
  bool gave_registers_ = false;
  size_t steps_ = 0;
};

}  // namespace

void run_protocol(const ProtocolCode& code, Terms& terms, Choices& choices, Boxes& boxes, Turns& turns,
                  bool peeks_succeed) {
  Run(code, terms, choices, boxes, turns, peeks_succeed).run();
}

}  // namespace ptxbuilder::analysis
