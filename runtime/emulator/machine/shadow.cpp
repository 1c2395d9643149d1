#include "runtime/emulator/machine/shadow.h"

#include <utility>

namespace ptxbuilder::runtime::emulator {

uint64_t WordHistory::hash() const {
  uint64_t h = 0x9e3779b97f4a7c15;
  auto mix = [&](const Access& a) {
    h = (h ^ (uint64_t{a.actor} << 32 | a.time)) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
    h = (h ^ (uint64_t{a.pc} << 16 | (a.async ? 256u : 0u) | a.bytes)) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  };
  mix(write);
  h ^= initialised;
  for (const Access& a : reads) mix(a);
  return h;
}

namespace {

[[gnu::always_inline]] inline std::optional<Clash> check_write(const Access& earlier, const Access& now,
                                                               const Knowledge& k) {
  if (earlier.time == 0 || (earlier.bytes & now.bytes) == 0) return std::nullopt;
  if (k.seen[earlier.actor] < earlier.time) return Clash{Conflict::unordered, 0, earlier, true};
  if (now.async && !earlier.async && k.fenced[earlier.actor] < earlier.time)
    return Clash{Conflict::unfenced, 0, earlier, true};
  return std::nullopt;
}

[[gnu::always_inline]] inline std::optional<Clash> check_read(const Access& earlier, const Access& now,
                                                              const Knowledge& k) {
  if ((earlier.bytes & now.bytes) == 0 || k.seen[earlier.actor] >= earlier.time) return std::nullopt;
  return Clash{Conflict::unordered, 0, earlier, false};
}

// Returns whether a new read makes an earlier read redundant. This is the case if the earlier read happens
// before the new one, and the new one covers all bytes of the earlier one. An access that conflicts with the
// earlier read then also conflicts with the new one.
bool is_covered(const Access& earlier, const Access& now, const Knowledge& k) {
  return (earlier.bytes & ~now.bytes) == 0 && k.seen[earlier.actor] >= earlier.time && !now.async &&
         !earlier.async;
}

// Replaces an actor's last read with its new read.
void take_place(Access& earlier, const Access& now) {
  const uint8_t both = earlier.bytes | now.bytes;
  earlier = now;
  earlier.bytes = both;
}

}  // namespace

WordHistory Shadow::history(uint32_t at) const {
  const uint32_t cell = cells_[at / 4];
  if (cell != is_own) return histories_[cell];
  const OwnHistory& o = own(at);
  WordHistory h;
  h.write = o.write;
  h.initialised = o.initialised;
  if (o.read.time != 0) h.reads.push_back(o.read);
  return h;
}

bool Shadow::make_own(uint32_t at) {
  const WordHistory& h = histories_[cells_[at / 4]];
  if (h.reads.size() > 1) return false;
  auto& block = own_[at / 4 / block_words];
  if (!block) block = std::make_unique<OwnHistory[]>(block_words);
  own(at) = {h.write, h.reads.size() == 0 ? Access{} : *h.reads.begin(), h.initialised};
  cells_[at / 4] = is_own;
  return true;
}

void Shadow::share(uint32_t at) {
  if (cells_[at / 4] == is_own) cells_[at / 4] = histories_.intern(history(at));
}

// Applies `step` to the history of each word to get its next history. If the word has a history of its own,
// `own_step` changes it in place, or returns false if the word must share a history again.
template <class Check, class Own>
std::optional<Clash> Shadow::each(Access access, uint32_t offset, uint32_t bytes, const Knowledge* by,
                                  Step& last, Check&& step, Own&& own_step) {
  constexpr uint32_t of_a_thread = 16;
  const bool may_own = bytes <= of_a_thread && !access.async;
  for (uint32_t at = offset & ~3u; at < offset + bytes; at += 4) {
    const uint32_t from = at < offset ? offset - at : 0, to = std::min(4u, offset + bytes - at);
    access.bytes = static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
    uint32_t& cell = cells_[at / 4];
    at_ = at;
    const bool is_known = cell == last.state && access == last.access && by == last.by;
    if (cell == is_own || (!is_known && may_own && news_ >= most_news && make_own(at))) {
      std::optional<Clash> clash;
      if (own_step(own(at), access, clash)) {
        if (!clash) continue;
        clash->offset = at;
        return clash;
      }
      share(at);
    }
    if (cell != last.state || access != last.access || by != last.by) {
      uint32_t result = 0;
      const size_t size = histories_.size();
      if (auto clash = step(histories_[cell], access, result)) {
        clash->offset = at;
        last = {};
        return clash;
      }
      news_ = histories_.size() > size ? news_ + 1 : 0;
      last = {access, by, cell, result};
    }
    cell = last.result;
    if (access.bytes != 15) continue;
    // Whole words that follow in the same state have the same result.
    const size_t more = run_of(&cells_[at / 4 + 1], (offset + bytes - at) / 4 - 1, last.state);
    std::fill_n(&cells_[at / 4 + 1], more, last.result);
    at += static_cast<uint32_t>(more) * 4;
  }
  if (uninitialised) last = {};  // so that further reads of these bytes are reported again
  return std::nullopt;
}

void Shadow::agree(Access access, uint32_t offset, uint32_t bytes) {
  for (uint32_t at = offset & ~3u; at < offset + bytes; at += 4) {
    const uint32_t from = at < offset ? offset - at : 0, to = std::min(4u, offset + bytes - at);
    WordHistory next = history(at);
    access.bytes = static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
    next.initialised |= access.bytes;
    access.bytes |= next.write.bytes;
    next.write = access;
    cells_[at / 4] = histories_.intern(std::move(next));
  }
}

bool Shadow::any_initialised(uint32_t offset, uint32_t bytes) const {
  for (uint32_t at = offset; at < offset + bytes; ++at) {
    const uint32_t cell = cells_[at / 4];
    const uint8_t initialised = cell == is_own ? own(at).initialised : histories_[cell].initialised;
    if (initialised >> (at % 4) & 1) return true;
  }
  return false;
}

uint32_t Shadow::writer(uint32_t offset) const {
  const uint32_t cell = cells_[offset / 4];
  const Access& write = cell == is_own ? own(offset).write : histories_[cell].write;
  return write.time == 0 ? ~0u : write.pc;
}

void Shadow::forget(uint32_t offset, uint32_t bytes) {
  for (uint32_t at = offset; at < offset + bytes; ++at) {
    WordHistory next = history(at);
    next.initialised &= static_cast<uint8_t>(~(1u << (at % 4)));
    cells_[at / 4] = histories_.intern(std::move(next));
  }
}

std::optional<Clash> Shadow::read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& k) {
  auto note_uninitialised = [&](uint8_t initialised, const Access& now) {
    if ((initialised & now.bytes) != now.bytes && !uninitialised) uninitialised = at_;
  };
  return each(
      access, offset, bytes, &k, read_,
      [&](const WordHistory& state, const Access& now, uint32_t& result) -> std::optional<Clash> {
        if (auto clash = check_write(state.write, now, k)) return clash;
        note_uninitialised(state.initialised, now);
        WordHistory next = state;
        bool is_there = false;
        for (Access& r : next.reads)
          if (r.actor == now.actor && r.async == now.async && !is_there) {
            take_place(r, now);
            is_there = true;
          }
        if (!is_there) {
          next.reads.erase_if([&](const Access& r) { return is_covered(r, now, k); });
          next.reads.push_back(now);
        }
        result = histories_.intern(std::move(next));
        return std::nullopt;
      },
      [&](OwnHistory& h, const Access& now, std::optional<Clash>& clash) {
        Access& r = h.read;
        const bool is_same = r.actor == now.actor && r.async == now.async;
        if (now.async || (r.time != 0 && !is_same && !is_covered(r, now, k))) return false;
        if ((clash = check_write(h.write, now, k))) return true;
        note_uninitialised(h.initialised, now);
        if (r.time != 0 && is_same)
          take_place(r, now);
        else
          r = now;
        return true;
      });
}

std::optional<Clash> Shadow::write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& k) {
  return each(
      access, offset, bytes, &k, write_,
      [&](const WordHistory& state, const Access& now, uint32_t& result) -> std::optional<Clash> {
        if (auto clash = check_write(state.write, now, k)) return clash;
        for (const Access& r : state.reads)
          if (auto clash = check_read(r, now, k)) return clash;
        WordHistory next;
        next.write = now;
        next.initialised = state.initialised | now.bytes;
        for (const Access& r : state.reads)
          if ((r.bytes & now.bytes) == 0) next.reads.push_back(r);
        result = histories_.intern(std::move(next));
        return std::nullopt;
      },
      [&](OwnHistory& h, const Access& now, std::optional<Clash>& clash) {
        if (now.async) return false;
        if ((clash = check_write(h.write, now, k)) || (clash = check_read(h.read, now, k))) return true;
        h.write = now;
        h.initialised |= now.bytes;
        if ((h.read.bytes & now.bytes) != 0) h.read = {};
        return true;
      });
}

}  // namespace ptxbuilder::runtime::emulator
