#include "runtime/emulator/machine/global_shadow.h"

namespace ptxbuilder::runtime::emulator {

void GlobalShadow::begin(bool may_overlap) {
  const std::lock_guard lock(mutex_);
  if (may_overlap) return;
  actors_.resize(1);
  states_.resize(1);
  ids_.clear();
  cells_.clear();
  in_flight_.clear();
  read_ = write_ = {};
}

void GlobalShadow::keep(uint32_t actor, uint32_t time, Address address, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_[{actor, time}].push_back({address, std::move(bytes)});
}

void GlobalShadow::forget(uint32_t actor, uint32_t time) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase({actor, time});
}

std::optional<std::byte> GlobalShadow::kept(const GlobalDeed& deed, Address address) const {
  const auto stores = in_flight_.find({deed.actor, deed.time});
  if (stores == in_flight_.end()) return std::nullopt;
  for (const Store& store : stores->second)
    if (address - store.address < store.bytes.size()) return store.bytes[address - store.address];
  return std::nullopt;
}

uint32_t GlobalShadow::add(GlobalActor actor) {
  const std::lock_guard lock(mutex_);
  actors_.push_back(std::move(actor));
  return static_cast<uint32_t>(actors_.size() - 1);
}

size_t GlobalShadow::hash(const State& s) {
  uint64_t h = 0x9e3779b97f4a7c15;
  auto mix = [&](const GlobalDeed& d) {
    for (const uint64_t x : {uint64_t{d.actor} << 32 | d.time,
                             uint64_t{d.line} << 16 | uint64_t{d.bytes} << 8 | uint64_t{d.is_async} << 4 |
                                 uint64_t{d.is_strong} << 3 | static_cast<uint64_t>(d.scope)}) {
      h = (h ^ x) * 0xff51afd7ed558ccd;
      h ^= h >> 32;
    }
  };
  mix(s.write);
  for (const GlobalDeed& d : s.reads) mix(d);
  return h;
}

uint32_t GlobalShadow::intern(State state) {
  const size_t h = hash(state);
  const auto [from, to] = ids_.equal_range(h);
  for (auto i = from; i != to; ++i)
    if (states_[i->second] == state) return i->second;
  states_.push_back(std::move(state));
  const auto id = static_cast<uint32_t>(states_.size() - 1);
  ids_.emplace(h, id);
  return id;
}

void GlobalShadow::collect() {
  std::vector<uint32_t> renamed(states_.size(), 0);
  std::vector<State> kept(1);
  ids_.clear();
  for (auto& [allocation, cells] : cells_)
    for (uint32_t& cell : cells) {
      if (cell == 0) continue;
      if (renamed[cell] == 0) {
        renamed[cell] = static_cast<uint32_t>(kept.size());
        ids_.emplace(hash(states_[cell]), renamed[cell]);
        kept.push_back(std::move(states_[cell]));
      }
      cell = renamed[cell];
    }
  states_ = std::move(kept);
  read_ = write_ = {};
  collect_at_ = std::max<size_t>(size_t{1} << 17, 2 * states_.size());
}

}  // namespace ptxbuilder::runtime::emulator
