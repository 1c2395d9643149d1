#include "ptxbuilder/analysis/protocol_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {

void Clock::join(const Clock& other) {
  if (events_.size() < other.events_.size()) events_.resize(other.events_.size());
  for (size_t i = 0; i < other.events_.size(); ++i) events_[i] = std::max(events_[i], other.events_[i]);
}

void Clock::meet(const Clock& other) {
  events_.resize(std::min(events_.size(), other.events_.size()));
  for (size_t i = 0; i < events_.size(); ++i) events_[i] = std::min(events_[i], other.events_[i]);
}

uint64_t Boxes::bytes(const std::string& map) const {
  const auto found = bytes_.find(map);
  return found == bytes_.end() ? 0 : found->second;
}

void Boxes::add_copy(const std::string& map, uint64_t to, bool into_shared) {
  Copies& copies = copies_[map];
  copies.into_shared = into_shared;
  copies.places.insert(to);
  (into_shared ? loaded_ : stored_).insert(to);
}

void Boxes::add_phase(std::vector<std::string> maps, uint64_t expected, int operation) {
  std::sort(maps.begin(), maps.end());
  const auto [phase, is_new] = phases_.try_emplace(std::move(maps), expected, operation);
  if (!is_new && phase->second.first != expected)
    throw Refusal{operation,
                  fmt::format("{} bytes are expected from copies from which another phase expects {}",
                              expected, phase->second.first),
                  {phase->second.second},
                  false,
                  kNone,
                  false};
}

bool Boxes::find() {
  // A box ends before the next range begins, and contains all bytes that are read from it.
  std::map<std::string, uint64_t> room, read, exact;
  for (const auto& [map, copies] : copies_)
    for (uint64_t to : copies.places)
      if (const auto next = starts(copies).upper_bound(to); next != starts(copies).end())
        room[map] = std::min(room.contains(map) ? room[map] : ~uint64_t{0}, *next - to);
  // Returns the greatest end of the ranges that begin in a box of the map.
  const auto covered = [&](const Spans& spans, const std::string& map) {
    uint64_t most = 0;
    const Copies& copies = copies_.at(map);
    for (const auto& [first, bytes] : spans) {
      const auto next = copies.places.upper_bound(first);
      if (next == copies.places.begin()) continue;
      const uint64_t to = *std::prev(next);
      const auto other = starts(copies).upper_bound(to);
      const uint64_t end = other == starts(copies).end() ? ~uint64_t{0} : *other;
      if (first < end) most = std::max(most, std::min(first + bytes, end) - to);
    }
    return room.contains(map) ? std::min(most, room[map]) : most;
  };
  for (const auto& [map, copies] : copies_) read[map] = covered(reads_, map);
  // The expected bytes of a phase determine the size of a map's box if the sizes of all other copies of the
  // phase are known.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [maps, phase] : phases_) {
      std::set<std::string> open;
      uint64_t known = 0, times = 0;
      for (const std::string& map : maps)
        if (exact.contains(map))
          known += exact[map];
        else
          open.insert(map), ++times;
      if (open.size() != 1 && !(open.empty() && known != phase.first)) continue;
      if (known > phase.first || open.empty() || (phase.first - known) % times != 0)
        throw Refusal{
            phase.second,
            fmt::format(
                "{} bytes are expected, which does not match what other phases expect from the same copies",
                phase.first),
            {},
            false,
            kNone,
            false};
      exact[*open.begin()] = (phase.first - known) / times;
      changed = true;
    }
  }
  const std::map<std::string, uint64_t> before = bytes_;
  for (const auto& [maps, phase] : phases_) {
    uint64_t least = 0, most = 0, unbounded = 0;
    for (const std::string& map : maps) {
      least += read[map];
      most += room.contains(map) ? room[map] : 0;
      unbounded += room.contains(map) ? 0 : 1;
    }
    if (phase.first < least)
      throw Refusal{
          phase.second,
          fmt::format("{} bytes are expected, but {} of the bytes that its copies transfer are read",
                      phase.first, least),
          {},
          false,
          kNone,
          false};
    if (unbounded == 0 && phase.first > most)
      throw Refusal{phase.second,
                    fmt::format("{} bytes are expected, but its copies have room for {}", phase.first, most),
                    {},
                    false,
                    kNone,
                    false};
    for (const std::string& map : maps)
      bytes_[map] = exact.contains(map)  ? exact[map]
                    : room.contains(map) ? room[map]
                                         : (phase.first - most) / unbounded;
  }
  // Phases do not include stores. The boxes of their maps must cover the bytes that were written.
  for (const auto& [map, copies] : copies_)
    if (!bytes_.contains(map) || std::none_of(phases_.begin(), phases_.end(), [&](const auto& phase) {
          return std::find(phase.first.begin(), phase.first.end(), map) != phase.first.end();
        }))
      bytes_[map] = room.contains(map) ? room[map] : covered(writes_, map);
  return before != bytes_;
}

std::string Order::who(int cta, int warp) const {
  return memory_.size() == 1 ? fmt::format("warp {}", warp) : fmt::format("warp {} of CTA {}", warp, cta);
}

void Order::start(View& view) {
  view.own = component();
  tick(view);
  started_[at(view.cta)].push_back(view.own);
}

Moment Order::tick(View& view) {
  if (view.own == kNone) view.own = component(), view.ticks = 0;
  view.learn(view.own, ++view.ticks);
  return {view.own, view.ticks};
}

// Records an access to another CTA. The access must happen after that CTA has started, and before all of its
// threads have ended.
void Order::foreign(const View& view, int cta, Moment end, int operation) {
  foreign_.push_back({cta, end, operation});
  if (cta == view.cta) return;
  const auto& begun = started_[at(cta)];
  if (std::none_of(begun.begin(), begun.end(), [&](int c) { return view.came[c] > 0; }))
    throw Refusal{operation, fmt::format("CTA {} may not have begun yet when {} accesses its shared memory",
                                         cta, who(view.cta, view.warp))};
}

std::vector<Order::Part> Order::parts_of(const std::vector<Span>& spans) {
  std::vector<Part> parts;
  std::map<uint64_t, uint16_t> broken;  // for each unit that is only partly accessed, the accessed bytes
  const auto add = [&](uint64_t block, uint64_t units) {
    if (!parts.empty() && parts.back().block == block)
      parts.back().units |= units;
    else
      parts.push_back({block, units, 0xffff});
  };
  for (const Span& span : spans) {
    const uint64_t end = span.first + span.bytes;
    for (uint64_t at = span.first; at < end;) {
      const uint64_t next =
          std::min(end, at % kBlock == 0 && end - at >= kBlock ? at + kBlock : (at / kUnit + 1) * kUnit);
      if (next - at == kBlock)
        add(at / kBlock, ~uint64_t{0});
      else if (next - at == kUnit)
        add(at / kBlock, uint64_t{1} << at / kUnit % 64);
      else
        broken[at / kUnit] |= static_cast<uint16_t>((0xffffu >> (kUnit - (next - at))) << at % kUnit);
      at = next;
    }
  }
  for (const auto& [unit, bytes] : broken)
    if (bytes == 0xffff)
      add(unit / 64, uint64_t{1} << unit % 64);
    else
      parts.push_back({unit / 64, uint64_t{1} << unit % 64, bytes});
  return parts;
}

void Order::check(const View& view, const SharedAccess& access, const Part& part, const Mark& before) const {
  if ((before.units & part.units) == 0 || (before.bytes & part.bytes) == 0 ||
      (!before.writes && !access.writes) || (before.is_word && access.is_word) ||
      (before.data != 0 && before.data == access.data))
    return;
  // One instruction may store the same value in several warps.
  const bool may_be_same = before.writes && before.operation == access.operation && !access.is_async;
  const auto says = [](bool writes) { return writes ? "written" : "read"; };
  const auto where =
      part.block * kBlock + static_cast<uint64_t>(std::countr_zero(before.units & part.units)) * kUnit;
  if (!before.end.is_in(view.known))
    throw Refusal{
        access.operation,
        fmt::format("shared memory + {} may be {} by {} before {} has {} it", where, says(access.writes),
                    who(view.cta, view.warp), who(before.cta, before.warp), says(before.writes)),
        {before.operation},
        has_words_ || may_be_same,
        before.operation};
  if (access.is_async && !before.is_async && before.writes && !before.end.is_in(view.fenced))
    throw Refusal{access.operation,
                  fmt::format("shared memory + {} is {} through the async proxy, but {} has written it "
                              "without fence.proxy.async",
                              where, says(access.writes), who(before.cta, before.warp)),
                  {before.operation}};
}

void Order::touch(const View& view, const SharedAccess& access) {
  if (access.cta != view.cta || access.is_async) foreign(view, access.cta, access.end, access.operation);
  auto& blocks = memory_[at(access.cta)];
  for (const Part& part : parts_of(access.spans)) {
    if (part.block * kBlock > 2 * hopper::sm_shared_bytes)
      throw Refusal{access.operation,
                    fmt::format("the shared address {:#x} is outside of all variables", part.block * kBlock),
                    {},
                    true};
    if (blocks.size() <= part.block) blocks.resize(part.block + 1);
    auto& marks = blocks[part.block];
    for (const Mark& before : marks) check(view, access, part, before);
    // Removes an earlier access if each later access that has to follow it also has to follow this access.
    std::erase_if(marks, [&](const Mark& m) {
      const bool is_covered = (m.units & ~part.units) == 0 && (m.bytes & ~part.bytes) == 0;
      const bool is_before = m.end.is_in(view.known) || m.end.component == access.end.component;
      return is_covered && (access.writes || (!m.writes && is_before));
    });
    marks.push_back({access.end, access.operation, view.cta, view.warp, part.units, part.bytes, access.writes,
                     access.is_async, access.is_word, access.data});
  }
}

void Order::init(View& view, const Place& place, uint64_t count, int operation) {
  const Moment now = tick(view);
  Mbarrier& b = mbarriers_[place];
  if (b.component != kNone)
    throw Refusal{operation,
                  fmt::format("the mbarrier at shared memory + {} is initialised again", place.address),
                  {b.init},
                  true};
  if (count == 0) throw Refusal{operation, "an mbarrier is initialised for no arrivals", {}, false};
  b = {.component = component(), .init = operation, .count = count, .made = now};
  b.now.pending = count;
  boxes_.add_barrier(place.address);
  touch(view, {place.cta, {{place.address, 8}}, true, false, now, operation});
}

void Order::fence_inits(View& view) {
  const Moment now = tick(view);
  for (auto& [place, b] : mbarriers_)
    if (b.made.component == view.own && !b.fenced) b.fenced = now;
}

Order::Mbarrier& Order::used(const View& view, const Place& place, bool is_async, int operation) {
  const auto found = mbarriers_.find(place);
  if (found == mbarriers_.end())
    throw Refusal{operation,
                  fmt::format("the mbarrier at shared memory + {} may be used before it is initialised",
                              place.address)};
  Mbarrier& b = found->second;
  // fence.mbarrier_init publishes the mbarrier at a later barrier, which may be relaxed.
  const bool is_fenced = b.fenced && b.fenced->is_in(view.came),
             is_known = b.made.is_in(view.known) || is_fenced;
  const bool needs_fence = is_async || place.cta != view.cta;
  if (!is_known || (needs_fence && !is_fenced))
    throw Refusal{operation,
                  fmt::format("{} may use the mbarrier at shared memory + {} before its initialisation is {}",
                              who(view.cta, view.warp), place.address, is_known ? "fenced" : "known to it"),
                  {b.init},
                  false,
                  is_known ? kNone : b.init,
                  !is_known || place.cta != view.cta};
  return b;
}

void Order::arrive(View& view, const Place& place, uint64_t expected, bool releases, int operation) {
  Mbarrier& b = used(view, place, false, operation);
  const Moment now = tick(view);
  foreign(view, place.cta, now, operation);
  if (view.came[b.component] < b.completed)
    throw Refusal{operation,
                  fmt::format("{} may arrive at the mbarrier at shared memory + {} in an earlier phase than "
                              "intended: it is not ordered after the previous phase",
                              who(view.cta, view.warp), place.address),
                  {},
                  false,
                  b.completed_by};
  b.now.expected += expected;
  if (expected > 0) b.now.expect = operation;
  if (b.now.pending == 0)
    throw Refusal{
        operation,
        fmt::format("more than the {} arrivals of a phase are made at the mbarrier at shared memory + {}",
                    b.count, place.address),
        {b.init}};
  b.now.came.join(view.came);
  if (releases) b.now.arrived.join(view.known), b.now.arrived_fenced.join(view.fenced);
  --b.now.pending;
  b.now.last = operation;
  complete_if_due(place, b);
}

void Order::expect(View& view, const Place& place, uint64_t bytes, int operation) {
  Mbarrier& b = used(view, place, false, operation);
  if (view.came[b.component] < b.completed)
    throw Refusal{
        operation,
        fmt::format("{} may expect bytes in an earlier phase than intended", who(view.cta, view.warp)),
        {},
        false,
        b.completed_by};
  b.now.expects.push_back(tick(view));
  b.now.expected += bytes;
  b.now.expect = operation;
}

Moment Order::copy(View& view, const Place& place, uint64_t bytes, const std::string& map, int operation) {
  Mbarrier& b = used(view, place, true, operation);
  tick(view);
  if (view.came[b.component] < b.completed)
    throw Refusal{operation,
                  fmt::format("the copy may complete in an earlier phase than intended of the mbarrier at "
                              "shared memory + {}: {} is not ordered after the previous phase",
                              place.address, who(view.cta, view.warp)),
                  {},
                  false,
                  b.completed_by};
  if (map.empty())
    b.now.issued += bytes;
  else
    b.now.maps.push_back(map);
  b.now.copy = b.now.last = operation;
  b.now.begun.join(view.known);
  if (b.now.ahead_of_copies)
    b.now.ahead_of_copies->meet(view.known);
  else
    b.now.ahead_of_copies = view.known;
  b.now.came.join(view.came);
  const Moment end = {b.component, b.completed + 1};
  foreign(view, place.cta, end, operation);
  complete_if_due(place, b);
  return end;
}

void Order::complete_if_due(const Place& place, Mbarrier& b) {
  if (b.now.pending == 0 && b.now.maps.empty() && b.now.expected == b.now.issued) complete(place, b);
}

bool Order::complete_copies() {
  bool any = false;
  for (auto& [place, b] : mbarriers_) {
    if (b.component == kNone || b.now.pending != 0 || b.now.maps.empty()) continue;
    if (b.now.issued > b.now.expected)
      throw Refusal{
          b.now.expect,
          fmt::format("{} bytes are expected, but copies transfer {} or more", b.now.expected, b.now.issued),
          {b.now.copy},
          false,
          kNone,
          false};
    boxes_.add_phase(b.now.maps, b.now.expected - b.now.issued,
                     b.now.expect == kNone ? b.now.copy : b.now.expect);
    complete(place, b);
    any = true;
  }
  return any;
}

void Order::complete(const Place& place, Mbarrier& b) {
  for (const Moment& expect : b.now.expects)
    if (!expect.is_in(b.now.arrived) && !(b.now.ahead_of_copies && expect.is_in(*b.now.ahead_of_copies)))
      throw Refusal{
          b.now.expect,
          "bytes are expected without an arrival or all copies after it: the phase may complete before",
          {},
          false,
          b.now.expect};
  for (const Mbarrier::Waited& w : b.waited)
    if (!w.at.is_in(b.now.came))
      throw Refusal{w.operation,
                    fmt::format("the wait at the mbarrier at shared memory + {} may miss its phase: the next "
                                "one may complete before, since no arrival at it is ordered after the wait",
                                place.address),
                    {b.now.copy == kNone ? b.init : b.now.copy},
                    false,
                    w.operation};
  b.waited.clear();
  ++b.completed;
  b.completed_by = b.now.last;
  b.last.join(b.now.arrived);
  b.last.join(b.now.begun);
  b.last.raise(b.component, b.completed);
  b.last_came.join(b.now.came);
  b.last_came.raise(b.component, b.completed);
  b.last_fenced.join(b.now.arrived_fenced);
  b.now = {};
  b.now.pending = b.count;
}

bool Order::wait(View& view, const Place& place, uint64_t parity, bool acquires, int operation) {
  Mbarrier& b = used(view, place, false, operation);
  if (parity > 1) throw Refusal{operation, fmt::format("the parity is {}", parity)};
  // The wait is for phase `completed` - 1 or for phase `completed`. The phase before the awaited phase must
  // certainly be complete.
  const bool is_over = (b.completed & 1) != parity;
  const uint32_t behind = is_over ? b.completed - (b.completed == 0 ? 0 : 1) : b.completed;
  if (view.came[b.component] < behind)
    throw Refusal{operation,
                  fmt::format("the wait of {} at the mbarrier at shared memory + {} may end with an earlier "
                              "phase of the same parity",
                              who(view.cta, view.warp), place.address),
                  {},
                  false,
                  b.completed_by};
  if (!is_over) return false;
  b.waited.push_back({tick(view), operation});
  view.came.join(b.last_came);
  if (acquires) view.known.join(b.last), view.fenced.join(b.last_fenced);
  return true;
}

Order::Test Order::test(View& view, const Place& place, uint64_t parity, int operation) {
  Mbarrier& b = used(view, place, false, operation);
  const bool is_over = (b.completed & 1) != parity;
  const uint32_t behind = is_over && b.completed > 0 ? b.completed - 1 : b.completed;
  return {place, is_over, view.came[b.component] < behind, b.completed, tick(view)};
}

void Order::use(View& view, const Test& test, bool passes, int operation) {
  Mbarrier& b = mbarriers_.at(test.place);
  if (test.may_be_early)
    throw Refusal{operation,
                  fmt::format("the test of {} at the mbarrier at shared memory + {} may find an earlier "
                              "phase of the same parity",
                              who(view.cta, view.warp), test.place.address),
                  {},
                  false,
                  b.completed_by};
  if (!passes) return;
  if (b.completed != test.completed)
    throw Refusal{
        operation, "the result of a test of an mbarrier is used when the next phase is over", {}, true};
  b.waited.push_back({test.at, operation});
  view.came.join(b.last_came);
  view.known.join(b.last);
  view.fenced.join(b.last_fenced);
}

uint32_t Order::meet(View& view, std::pair<int, uint64_t> which, uint64_t threads, uint64_t expected,
                     bool releases, int operation) {
  Meeting& m = meetings_[which];
  if (m.component == kNone) m.component = component();
  tick(view);
  if (view.came[m.component] < m.completed)
    throw Refusal{operation,
                  fmt::format("{} may reach barrier {} while others are still there for an earlier phase",
                              who(view.cta, view.warp), which.second),
                  {m.operation},
                  false,
                  m.operation};
  if (m.arrived > 0 && m.expected != expected)
    throw Refusal{operation,
                  fmt::format("barrier {} waits for {} threads here, but for {} there", which.second,
                              expected, m.expected),
                  {m.operation}};
  m.expected = expected;
  m.operation = operation;
  m.arrived += threads;
  if (m.arrived > expected)
    throw Refusal{operation,
                  fmt::format("more than {} threads may reach barrier {}", expected, which.second)};
  m.came.join(view.came);
  if (releases) m.known.join(view.known), m.fenced.join(view.fenced);
  const uint32_t phase = m.completed;
  if (m.arrived == expected) {
    ++m.completed;
    m.arrived = 0;
    m.known.raise(m.component, m.completed);
    m.came.raise(m.component, m.completed);
    m.last = m.known, m.last_came = m.came, m.last_fenced = m.fenced;
  }
  return phase;
}

void Order::leave(View& view, std::pair<int, uint64_t> which) {
  const Meeting& m = meetings_[which];
  view.known.join(m.last);
  view.came.join(m.last_came);
  view.fenced.join(m.last_fenced);
}

std::string Order::missing(const Place& place) const {
  const auto found = mbarriers_.find(place);
  if (found == mbarriers_.end()) return "";
  const Mbarrier& b = found->second;
  if (b.now.pending > 0) return fmt::format("{} of {} arrivals are missing", b.now.pending, b.count);
  return fmt::format("of {} bytes, {} have arrived", b.now.expected, b.now.issued);
}

void Order::finish() {
  complete_copies();
  for (const Foreign& f : foreign_) {
    const auto& exits = exits_[at(f.cta)];
    if (std::none_of(exits.begin(), exits.end(), [&](const Clock& exit) { return f.end.is_in(exit); }))
      throw Refusal{
          f.operation,
          memory_.size() == 1
              ? "the CTA may end before this is complete: no thread waits for it"
              : fmt::format("CTA {} may end before this is complete: none of its threads is ordered after it",
                            f.cta),
          {},
          false,
          f.operation};
  }
}

}  // namespace ptxbuilder::analysis
