#include "runtime/emulator/machine/global_shadow.h"

namespace ptxbuilder::runtime::emulator {

void GlobalShadow::begin(bool may_overlap) {
  if (may_overlap) return;
  for (Part& part : parts_) part.clear();
  const std::lock_guard lock(mutex_);
  actors_.clear();
  in_flight_.clear();
}

void GlobalShadow::keep(const GlobalDeed& deed, Address address, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_[{deed.actor->number, deed.time}].push_back({address, std::move(bytes)});
}

void GlobalShadow::forget(const GlobalActor& actor, uint32_t time) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase({actor.number, time});
}

std::optional<std::byte> GlobalShadow::kept(const GlobalDeed& deed, Address address) const {
  const std::lock_guard lock(mutex_);
  const auto stores = in_flight_.find({deed.actor->number, deed.time});
  if (stores == in_flight_.end()) return std::nullopt;
  for (const Store& store : stores->second)
    if (address - store.address < store.bytes.size()) return store.bytes[address - store.address];
  return std::nullopt;
}

const GlobalActor* GlobalShadow::add(GlobalActor actor) {
  const std::lock_guard lock(mutex_);
  actor.number = static_cast<uint32_t>(actors_.size() + 1);
  return &actors_.emplace_back(std::move(actor));
}

uint64_t GlobalShadow::State::hash() const {
  uint64_t h = 0x9e3779b97f4a7c15;
  auto mix = [&](const GlobalDeed& d) {
    const uint64_t number = d.actor ? d.actor->number : 0;
    for (const uint64_t x :
         {number << 32 | d.time, uint64_t{d.line} << 16 | uint64_t{d.bytes} << 8 | uint64_t{d.is_async} << 4 |
                                     uint64_t{d.is_strong} << 3 | static_cast<uint64_t>(d.scope)}) {
      h = (h ^ x) * 0xff51afd7ed558ccd;
      h ^= h >> 32;
    }
  };
  mix(write);
  for (const GlobalDeed& d : reads) mix(d);
  return h;
}

GlobalShadow::Page& GlobalShadow::Part::page(uint64_t number) {
  if (last_page && last_number == number) return *last_page;
  std::unique_ptr<Page>& page = pages[number];
  if (!page) page = std::make_unique<Page>();
  last_number = number;
  return *(last_page = page.get());
}

void GlobalShadow::Part::clear() {
  last_page = nullptr;
  states.clear();
  pages.clear();
  read = write = {};
}

void GlobalShadow::Part::collect() {
  states.collect([&](auto renumber) {
    for (auto& [number, page] : pages)
      for (uint32_t& cell : *page) renumber(cell);
  });
  read = write = {};
  collect_at = std::max(least_states, 2 * states.size());
}

}  // namespace ptxbuilder::runtime::emulator
