#include "runtime/emulator/machine/global_shadow.h"

#include <fmt/format.h>

namespace ptxbuilder::runtime::emulator {

std::string GlobalActor::name() const {
  std::string text = kind == Kind::warp       ? fmt::format("warp {} of ", warp)
                     : kind == Kind::cp_async ? fmt::format("a cp.async of warp {} of ", warp)
                                              : "a copy of ";
  text += fmt::format("CTA ({}, {}, {})", id.x, id.y, id.z);
  return has_devices ? text + fmt::format(" of device {}", device) : text;
}

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
  uint64_t h = write.hash(0x9e3779b97f4a7c15);
  for (const GlobalDeed& d : reads) h = d.hash(h);
  return h;
}

GlobalShadow::Page& GlobalShadow::Part::find_page(uint64_t number) {
  std::unique_ptr<Page>& page = pages[number];
  if (!page && spare.empty()) {
    page = std::make_unique<Page>();
  } else if (!page) {
    page = std::move(spare.back());
    spare.pop_back();
    page->fill(0);
  }
  recent[slot(number)] = {number, page.get()};
  return *page;
}

void GlobalShadow::Part::clear() {
  recent = {};
  states.clear();
  for (auto& [number, page] : pages) spare.push_back(std::move(page));
  pages.clear();
  read = write = {};
}

void GlobalShadow::Part::collect() {
  // A collection searches all pages, so the limit grows with their number.
  const size_t least = std::max(least_states, 16 * pages.size());
  if (states.size() <= least) {
    collect_at = least;
    return;
  }
  states.collect([&](auto renumber) {
    for (auto& [number, page] : pages)
      for (uint32_t& cell : *page) renumber(cell);
  });
  read = write = {};
  collect_at = std::max(least, 2 * states.size());
}

}  // namespace ptxbuilder::runtime::emulator
