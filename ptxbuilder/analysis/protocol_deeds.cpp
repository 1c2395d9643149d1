#include "ptxbuilder/analysis/protocol_deeds.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder::analysis {
namespace {

// Returns whether all lanes of the warp, except those that have ended, are at this instruction.
bool all_here(const Warp& warp, const Walker& w) {
  return std::all_of(warp.begin(), warp.end(),
                     [&](const Walker& other) { return other.has_ended || other.pc == w.pc; });
}

// If lanes meet at an instruction, orders each of them after the earlier events of the others, without making
// further writes visible to them.
void meet(Warp& warp, int pc) {
  Clock came;
  for (const Walker& w : warp)
    if (!w.has_ended && w.pc == pc) came.join(w.view.came);
  for (Walker& w : warp)
    if (!w.has_ended && w.pc == pc) w.view.came.join(came);
}

bool lacks_operands(Deed deed, const Operation& o) {
  const auto is_address = [](const Value& v) { return v.kind == Value::Kind::address; };
  const auto address = std::find_if(o.operands.begin(), o.operands.end(), is_address);
  const auto behind = o.operands.end() - address;
  switch (deed) {
    case Deed::arrive:
    case Deed::load:
      return behind < 1;
    case Deed::init:
    case Deed::store:
    case Deed::expect:
    case Deed::wait:
      return behind < 2 || is_address(o.operands.back());
    case Deed::thread_copy:
      return o.operands.size() < 3 || behind < 1;
    default:
      return false;
  }
}

}  // namespace

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

Order::Place ProtocolDeeds::place(const Walker& w, uint64_t address) const {
  address &= 0xffffffff;
  const uint64_t cta = address >> kCtaBits;
  if (cta > static_cast<uint64_t>(code_.ctas()))
    throw Refusal{w.pc,
                  fmt::format("the shared address {:#x} does not belong to a CTA of the cluster", address),
                  {},
                  true};
  return {cta == 0 ? w.cta : static_cast<int>(cta - 1), address & ((uint64_t{1} << kCtaBits) - 1)};
}

bool ProtocolDeeds::perform(Warp& warp, Walker& w, Lanes lanes) {
  const int i = w.pc;
  const Deed deed = code_.deeds[at(i)];
  const Operation& o = operation(i);
  if (lacks_operands(deed, o)) throw Refusal{i, "this instruction has too few operands", {}, true};
  switch (deed) {
    case Deed::trap:
      throw Refusal{i, "a trap may be reached", {}, true};
    case Deed::unknown:
      throw Refusal{
          i, fmt::format("the effect of '{}' on the protocol is not known", o.text->opcode), {}, true};
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
    case Deed::store_async:
      return store_async(w, i, lanes);
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
    case Deed::thread_copy:
      return copy_in_threads(warp, w, lanes);
    case Deed::thread_commit:
      ++copies(warp, w).begun;
      return true;
    case Deed::thread_wait: {
      BulkGroups& c = copies(warp, w);
      if (o.has("wait_all")) ++c.begun;  // wait_all also waits for copies that are not in a group yet
      const uint64_t left = o.operands.empty() ? 0 : static_cast<uint64_t>(o.operands[0].value);
      if (c.begun > left) w.view.learn(c.component, static_cast<uint32_t>(c.begun - left));
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
        throw Refusal{i, "registers are released only after others wait for them", {}, true};
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

ProtocolDeeds::Products& ProtocolDeeds::products(const Walker& w) {
  Products& p = products_[{w.cta, w.warp / 4}];
  if (p.component == kNone) p.component = order_.component();
  return p;
}

// Orders the lanes after the first `count` products. Returns false if a warp has not issued all of these
// products yet.
bool ProtocolDeeds::leave_products(Walker& w, uint64_t count) {
  Products& p = products(w);
  if (std::any_of(p.begun.begin(), p.begun.end(), [&](uint64_t begun) { return begun < count; }))
    return false;
  w.view.learn(p.component, static_cast<uint32_t>(count));
  if (count > 0) w.view.came.join(p.came[count - 1]);
  return true;
}

bool ProtocolDeeds::arrive(Walker& w, int i, Deed deed, Lanes lanes) {
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
        for (uint64_t times = 0; times < *value; ++times) order_.arrive(w.view, to, 0, !o.has("relaxed"), i);
      }
    }
  });
}

bool ProtocolDeeds::wait(Walker& w, int i, Lanes lanes) {
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

// Returns a term for the outcome of a test. The outcome is requested only if an instruction depends on it.
Scalar ProtocolDeeds::tested(const Order::Test& test, int i) {
  const std::string name = fmt::format("test {} of line {}", tests_.size(), operation(i).at.line);
  const Scalar outcome = terms_.made({.kind = TermKind::outcome, .bits = 1, .name = name}, {});
  tests_.emplace(outcome.term, std::pair(test, i));
  return outcome;
}

std::optional<bool> ProtocolDeeds::outcome(int term, Walker& w) {
  const auto found = tests_.find(term);
  if (found == tests_.end()) return std::nullopt;
  const auto& [test, operation] = found->second;
  const bool passes = peeks_succeed_ && test.is_over;
  order_.use(w.view, test, passes, operation);
  return passes;
}

bool ProtocolDeeds::barrier(Walker& w, int i, Lanes lanes) {
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

bool ProtocolDeeds::sync_warp(Warp& warp, Walker& w, int i) {
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

bool ProtocolDeeds::grant_registers(std::deque<Warp>& warps) {
  bool any = false;
  for (auto& warp : warps)
    for (Walker& w : warp)
      if (!w.has_ended && !w.has_registers && at(w.pc) < code_.deeds.size() &&
          code_.deeds[at(w.pc)] == Deed::registers_more)
        w.has_registers = any = gave_registers_ = true;
  return any;
}

std::string ProtocolDeeds::waits_for(const Walker& w) const {
  const auto place = last_wait_.find({w.cta, w.warp});
  if (code_.deeds[at(w.pc)] != Deed::wait || place == last_wait_.end()) return "";
  return fmt::format(" for the mbarrier at shared memory + {}: {}", place->second.address,
                     order_.missing(place->second));
}

}  // namespace ptxbuilder::analysis
