#include "runtime/emulator/machine/lane_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

void LaneOrder::part() {
  if (!known_) known_ = std::make_unique<std::array<uint32_t, 1024>>();
  if (!apart_) known_->fill(all_);
  apart_ = true;
}

void LaneOrder::meet_some(Lanes who) {
  part();
  std::array<uint32_t, 32> joined{};
  for_lanes(who, [&](int lane) {
    for (size_t k = 0; k < 32; ++k)
      joined[k] = std::max(joined[k], (*known_)[static_cast<size_t>(lane) * 32 + k]);
  });
  for_lanes(who, [&](int lane) { joined[static_cast<size_t>(lane)] = now_; });
  for_lanes(who, [&](int lane) { std::ranges::copy(joined, known_->begin() + lane * 32); });
  ++now_;
}

void LaneOrder::learn_some(Lanes who) {
  part();
  for_lanes(who, [&](int lane) { std::fill_n(known_->begin() + lane * 32, 32, now_); });
  ++now_;
}

static bool one_writer(const LaneMark& m) {
  return std::bit_cast<uint32_t>(m.writers) == m.writers[0] * 0x01010101u;
}

void Warp::touch_lanes(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, LaneAccess kind) {
  const Lanes bit = Lanes{1} << lane;
  const bool atomic = kind == LaneAccess::atomic_checked || kind == LaneAccess::atomic_recorded,
             checked = kind != LaneAccess::recorded && kind != LaneAccess::atomic_recorded,
             recorded = kind != LaneAccess::checked && kind != LaneAccess::atomic_checked;
  causality.accesses(lane, writes);
  const uint32_t pc_here = here();
  auto clash = [&](uint32_t at, int other, const char* verb, uint32_t pc_of_other) {
    find(Fault::race,
         fmt::format("this {} {}, but lane {} of this warp {} it at line {}, and nothing orders the two: no "
                     "bar.warp.sync (__syncwarp) or other barrier of both lanes stands between",
                     writes ? "writes" : "reads", owner.name(at), other, verb,
                     grid().kernel.lines[pc_of_other].ptx),
         lane);
  };
  for (uint32_t at = offset / 4 * 4; at < offset + bytes; at += 4) {
    LaneMark& m = owner.lane_mark(at);
    const uint32_t from = std::max(at, offset) - at, to = std::min(at + 4, offset + bytes) - at;
    const bool mine = m.wrote && m.writer_warp == index;
    if (checked && mine && m.wrote_pc != pc_here && !(atomic && m.atomic))
      for (uint32_t b = from; b < (one_writer(m) ? from + 1 : to); ++b)
        if (const int other = m.writers[b];
            other != LaneMark::nobody && other != lane && !causality.lanes().knows(lane, other, m.wrote)) {
          clash(at, other, "wrote", m.wrote_pc);
          break;
        }
    if (writes) {
      if (checked && m.read && m.reader_warp == index && m.read_pc != pc_here)
        for (Lanes rest = m.readers & ~bit; rest; rest &= rest - 1)
          if (const int other = __builtin_ctz(rest); !causality.lanes().knows(lane, other, m.read))
            clash(at, other, "read", m.read_pc);
      if (!recorded) continue;
      // Lanes that write parts of a word by one instruction are all known, else the last.
      const bool joins = mine && to - from < 4 && m.wrote == causality.lanes().now() && m.wrote_pc == pc_here;
      const auto writers = m.writers;
      m = {causality.lanes().now(), pc_here, 0, 0, 0, atomic, static_cast<uint8_t>(index), 0, {}};
      if (to - from == 4) {
        m.writers.fill(static_cast<uint8_t>(lane));
        continue;
      }
      for (uint32_t b = 0; b < 4; ++b)
        m.writers[b] = b >= from && b < to ? static_cast<uint8_t>(lane)
                       : joins             ? writers[b]
                                           : LaneMark::nobody;
    } else if (to - from == 4) {  // of readers of parts of a word it is not known which
      if (m.read != causality.lanes().now() || m.reader_warp != index) m.readers = 0;
      m.read = causality.lanes().now();
      m.read_pc = pc_here;
      m.readers |= bit;
      m.reader_warp = static_cast<uint8_t>(index);
    }
  }
}

// This says whether the earlier access is over for one who knows `k` since each lane that made it has
// released it since, by itself or by one that it had met, though not all lanes of its warp have.
bool Warp::released_since(const Clash& clash, Cta& owner, const Knowledge& k) const {
  if (clash.conflict != Conflict::unordered || k.told[clash.earlier.actor] < clash.earlier.time) return false;
  const ActorName& who = cluster().actors[clash.earlier.actor];
  if (who.kind != ActorName::Kind::warp || who.cta != &owner) return true;
  const Warp& other = *owner.warps[who.index];
  const LaneMark& m = owner.lane_mark(clash.offset);
  if (clash.earlier_wrote)
    return m.wrote == 0 || m.writer_warp != other.index || std::ranges::all_of(m.writers, [&](uint8_t lane) {
             return lane == LaneMark::nobody || other.causality.released(lane) >= m.wrote;
           });
  if (m.read == 0 || m.reader_warp != other.index) return true;
  for (Lanes rest = m.readers; rest; rest &= rest - 1)
    if (other.causality.released(static_cast<size_t>(__builtin_ctz(rest))) < m.read) return false;
  return true;
}

// The first clash that is one in spite of that; the others are recorded as accesses in order.
std::optional<Clash> Warp::without_released(std::optional<Clash> clash, Cta& owner, Access made,
                                            uint32_t begin, uint32_t end, bool writes) {
  auto touch = [&](uint32_t from, uint32_t to, const Knowledge& k) {
    return writes ? owner.shadow.write(made, from, to - from, k)
                  : owner.shadow.read(made, from, to - from, k);
  };
  while (clash && released_since(*clash, owner, causality.knowledge())) {
    Knowledge of_word = causality.knowledge();  // of the other words of that access this says nothing
    const uint32_t next = std::min(end, clash->offset + 4);
    std::optional<Clash> more = clash;
    for (; more && released_since(*more, owner, causality.knowledge());
         more = touch(std::max(begin, more->offset), next, of_word))
      of_word.seen.raise(more->earlier.actor, more->earlier.time);
    owner.shadow.forget_steps();
    if (more) return more;
    clash = next < end ? touch(next, end, causality.knowledge()) : std::nullopt;
  }
  return clash;
}

}  // namespace ptxbuilder::runtime::emulator
