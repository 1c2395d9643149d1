#include "runtime/emulator/machine/weak_memory.h"

#include <algorithm>
#include <cstring>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

constexpr size_t most_lines = 4096, most_stores = 5, most_readers = 8;

uint16_t mask_of(Address address, uint32_t bytes) {
  return static_cast<uint16_t>(((1u << bytes) - 1) << address % 16);
}

}  // namespace

WeakMemory::Line* WeakMemory::line_of(Address address) {
  const auto at = lines_.find(address / 16);
  return at == lines_.end() ? nullptr : &at->second;
}

WeakMemory::Line& WeakMemory::make_line(Address address, const std::byte* newest) {
  if (Line* known = line_of(address)) return *known;
  if (age_.size() >= most_lines) {
    lines_.erase(age_.front());
    age_.pop_front();
  }
  age_.push_back(address / 16);
  Line& line = lines_[address / 16];
  line.memory = newest - address % 16;
  line.stores.emplace_back();
  std::memcpy(line.stores[0].line.data(), line.memory, 16);
  return line;
}

bool WeakMemory::knows(const Warp& w, const Reader& deed, uint64_t store) {
  const Knowledge& k = w.causality.knowledge();
  if (k.global && store <= k.global->settled) return true;
  return k.covers(deed.cluster == w.party().cluster, deed.cluster, deed.actor, deed.time);
}

// Returns the index of the oldest store that the warp may still read.
size_t WeakMemory::floor(const Warp& w, const Line& line) {
  for (size_t i = line.stores.size() - 1; i > line.least; --i) {
    const Store& s = line.stores[i];
    if (knows(w, s.by, s.number)) return i;
    for (const Reader& r : s.readers)
      if (knows(w, r, ~uint64_t{0})) return i;
  }
  return line.least;
}

size_t WeakMemory::choose(const Line& line, size_t from) const {
  std::array<uint64_t, most_stores> stores;
  size_t count = 0;
  for (size_t i = from; i < line.stores.size(); ++i) stores[count++] = line.stores[i].number;
  return from + choice_(std::span(stores).first(count), true);
}

void WeakMemory::note_reader(const Warp& w, Line& line, size_t which) {
  Store& s = line.stores[which];
  if (which <= line.least || knows(w, s.by, s.number)) return;
  const Party me = w.party();
  for (const Reader& r : s.readers)
    if (r.cluster == me.cluster && r.actor == w.causality.actor()) return;
  if (s.readers.size() < most_readers)
    s.readers.push_back({me.cluster, w.causality.actor(), w.causality.time()});
  else
    line.least = which;
}

void WeakMemory::forget_oldest(Line& line) {
  if (line.stores.size() <= most_stores) return;
  line.stores.pop_front();
  line.least = line.least > 0 ? line.least - 1 : 0;
}

WeakMemory::Value WeakMemory::load(const Warp& w, Address address, const std::byte* newest) {
  Line* line = line_of(address);
  if (!line) return {newest, order_.passed(address)};
  const size_t last = line->stores.size() - 1, from = floor(w, *line);
  const size_t which = from == last ? last : choose(*line, from);
  note_reader(w, *line, which);
  if (which == last) return {newest, order_.passed(address)};
  Value value{line->stores[which].line.data() + address % 16, nullptr};
  if (const Store& s = line->stores[which]; s.own && s.word == address / 4) {
    value.passed = s.own;
    return value;
  }
  for (size_t i = which + 1; i <= last; ++i)
    if (const Store& s = line->stores[i]; !s.own && s.word == address / 4) {
      value.passed = s.before;
      return value;
    }
  value.passed = order_.passed(address);
  return value;
}

void WeakMemory::load_newest(const Warp& w, Address address) {
  if (Line* line = line_of(address)) note_reader(w, *line, line->stores.size() - 1);
}

void WeakMemory::begin_atomic(Address address, uint32_t bytes, const std::byte* newest) {
  at_ = &make_line(address, newest);
  which_ = at_->stores.size();
  mask_ = mask_of(address, bytes);
}

std::byte* WeakMemory::begin_store(const Warp& w, Address address, uint32_t bytes, std::byte* newest) {
  Line& line = make_line(address, newest);
  at_ = &line;
  mask_ = mask_of(address, bytes);
  which_ = line.stores.size();
  const Store& last = line.stores.back();
  const bool may_precede =
      which_ > 1 && !last.is_atomic && (mask_ & ~last.mask) == 0 && floor(w, line) < which_ - 1;
  if (!may_precede || choice_(std::array<uint64_t, 2>{}, false) == 1) return newest;
  --which_;
  Store store;
  store.line = line.stores[which_ - 1].line;
  line.stores.insert(line.stores.begin() + static_cast<std::ptrdiff_t>(which_), std::move(store));
  return line.stores[which_].line.data() + address % 16;
}

void WeakMemory::end_store(const Warp& w, Address address, bool is_atomic) {
  Line& line = *at_;
  const bool is_newest = which_ == line.stores.size();
  if (is_newest) {
    line.stores.emplace_back();
    std::memcpy(line.stores.back().line.data(), line.memory, 16);
  }
  Store& store = line.stores[which_];
  store.number = ++stores_;
  store.mask = mask_;
  store.is_atomic = is_atomic;
  store.by = {w.party().cluster, w.causality.actor(), w.causality.time()};
  store.word = address / 4;
  if (is_newest)
    store.before = order_.passed(address);
  else if (const Store& next = line.stores[which_ + 1]; next.word == store.word)
    store.own = next.before;
  if (line.stores.size() > most_stores) {
    forget_oldest(line);
    --which_;
  }
}

void WeakMemory::release(Address address, const Party& who, Scope scope, const Knowledge& k) {
  if (which_ + 1 == at_->stores.size()) return order_.release(address, who, scope, k);
  emulator::release(at_->stores[which_].own, who, scope, k);
}

void WeakMemory::forget(Address address, uint64_t bytes) {
  if (lines_.empty()) return;
  for (uint64_t line = address / 16; line <= (address + bytes - 1) / 16; ++line)
    if (lines_.erase(line)) std::erase(age_, line);
}

}  // namespace ptxbuilder::runtime::emulator
