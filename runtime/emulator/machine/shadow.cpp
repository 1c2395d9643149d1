#include "runtime/emulator/machine/shadow.h"

namespace ptxbuilder::runtime::emulator {

size_t Histories::hash(const State& s) {
  uint64_t h = 0x9e3779b97f4a7c15;
  auto mix = [&](uint64_t x) {
    h = (h ^ x) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  };
  auto mix_access = [&](const Access& a) {
    mix((uint64_t{a.actor} << 32) | a.time);
    mix((uint64_t{a.pc} << 16) | (a.async ? 256u : 0u) | a.bytes);
  };
  mix_access(s.write);
  mix(s.initialised);
  for (const Access& a : s.reads) mix_access(a);
  return h;
}

uint32_t Histories::intern(State state) {
  size_t h = hash(state);
  auto [from, to] = ids_.equal_range(h);
  for (auto i = from; i != to; ++i)
    if (states_[i->second] == state) return i->second;
  states_.push_back(std::move(state));
  auto id = static_cast<uint32_t>(states_.size() - 1);
  ids_.emplace(h, id);
  return id;
}

void Histories::collect(const std::vector<std::vector<uint32_t>*>& cells) {
  std::vector<uint32_t> renamed(states_.size(), ~0u);
  std::vector<State> kept(1);
  renamed[0] = 0;
  ids_.clear();
  for (std::vector<uint32_t>* list : cells)
    for (uint32_t& cell : *list) {
      if (renamed[cell] == ~0u) {
        renamed[cell] = static_cast<uint32_t>(kept.size());
        ids_.emplace(hash(states_[cell]), renamed[cell]);
        kept.push_back(std::move(states_[cell]));
      }
      cell = renamed[cell];
    }
  states_ = std::move(kept);
}

template <class Check>
std::optional<Clash> Shadow::each(Access access, uint32_t offset, uint32_t bytes, const Knowledge* by,
                                  Step& last, Check&& step) {
  for (uint32_t at = offset & ~3u; at < offset + bytes; at += 4) {
    uint32_t from = at < offset ? offset - at : 0, to = std::min(4u, offset + bytes - at);
    access.bytes = static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
    uint32_t& cell = cells_[at / 4];
    if (cell != last.state || access != last.access || by != last.by) {
      at_ = at;
      uint32_t result = 0;
      if (auto clash = step(histories_[cell], access, result)) {
        clash->offset = at;
        last = {};
        return clash;
      }
      last = {access, by, cell, result};
    }
    cell = last.result;
    if (access.bytes != 15) continue;
    // Whole words of the same state behind it have the same result.
    for (; at + 8 <= offset + bytes && cells_[at / 4 + 1] == last.state; at += 4)
      cells_[at / 4 + 1] = last.result;
  }
  if (uninitialised) last = {};  // whoever reads more of it is to be told again
  return std::nullopt;
}

namespace {

std::optional<Clash> check_write(const Access& earlier, const Access& now, const Knowledge& k) {
  if (earlier.time == 0 || (earlier.bytes & now.bytes) == 0) return std::nullopt;
  if (k.seen[earlier.actor] < earlier.time) return Clash{Conflict::unordered, 0, earlier, true};
  if (now.async && !earlier.async && k.fenced[earlier.actor] < earlier.time)
    return Clash{Conflict::unfenced, 0, earlier, true};
  return std::nullopt;
}

}  // namespace

void Shadow::agree(Access access, uint32_t offset, uint32_t bytes) {
  Step step;
  each(access, offset, bytes, nullptr, step,
       [&](const Histories::State& state, const Access& now, uint32_t& result) -> std::optional<Clash> {
         Histories::State next = state;
         const uint8_t covered = state.write.bytes;
         next.write = now;
         next.write.bytes |= covered;
         next.initialised |= now.bytes;
         result = histories_.intern(std::move(next));
         return std::nullopt;
       });
}

bool Shadow::any_initialised(uint32_t offset, uint32_t bytes) const {
  for (uint32_t at = offset; at < offset + bytes; ++at)
    if (histories_[cells_[at / 4]].initialised >> (at % 4) & 1) return true;
  return false;
}

uint32_t Shadow::writer(uint32_t offset) const {
  const Access& write = histories_[cells_[offset / 4]].write;
  return write.time == 0 ? ~0u : write.pc;
}

void Shadow::forget(uint32_t offset, uint32_t bytes) {
  for (uint32_t at = offset; at < offset + bytes; ++at) {
    Histories::State state = histories_[cells_[at / 4]];
    state.initialised &= static_cast<uint8_t>(~(1u << (at % 4)));
    cells_[at / 4] = histories_.intern(std::move(state));
  }
}

std::optional<Clash> Shadow::read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& k) {
  return each(
      access, offset, bytes, &k, read_,
      [&](const Histories::State& state, const Access& now, uint32_t& result) -> std::optional<Clash> {
        if (auto clash = check_write(state.write, now, k)) return clash;
        const bool uninitialised_word = (state.initialised & now.bytes) != now.bytes;
        if (uninitialised_word && !uninitialised) uninitialised = at_;
        Histories::State next = state;
        for (Access& r : next.reads)
          if (r.actor == now.actor && r.async == now.async) {
            uint8_t both = r.bytes | now.bytes;
            r = now;
            r.bytes = both;
            result = histories_.intern(std::move(next));
            return std::nullopt;
          }
        // A read that the reader itself knows to be over is no longer needed: who conflicts with it would
        // conflict with this one, if both cover the same bytes.
        std::erase_if(next.reads, [&](const Access& r) {
          return (r.bytes & ~now.bytes) == 0 && k.seen[r.actor] >= r.time && !now.async && !r.async;
        });
        next.reads.push_back(now);
        result = histories_.intern(std::move(next));
        return std::nullopt;
      });
}

std::optional<Clash> Shadow::write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& k) {
  return each(
      access, offset, bytes, &k, write_,
      [&](const Histories::State& state, const Access& now, uint32_t& result) -> std::optional<Clash> {
        if (auto clash = check_write(state.write, now, k)) return clash;
        for (const Access& r : state.reads)
          if ((r.bytes & now.bytes) != 0 && k.seen[r.actor] < r.time)
            return Clash{Conflict::unordered, 0, r, false};
        Histories::State next;
        next.write = now;
        next.initialised = state.initialised | now.bytes;
        for (const Access& r : state.reads)
          if ((r.bytes & now.bytes) == 0) next.reads.push_back(r);
        result = histories_.intern(std::move(next));
        return std::nullopt;
      });
}

}  // namespace ptxbuilder::runtime::emulator
