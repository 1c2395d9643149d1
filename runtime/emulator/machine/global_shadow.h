// The state of every word of global memory that a launch has accessed: who wrote it last, and who has read it
// since. Clusters of one launch share this state, and so do launches that may overlap.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/interned.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// An actor of a cluster, among those of all clusters and launches.
struct GlobalActor {
  uint32_t launch = 0, device = 0;
  uint64_t cluster = 0, cta = 0;  // as in Party
  Actor local = 0;
  std::string name = {};  // "warp 3 of CTA (1, 0, 0)"
  uint32_t number = 0;    // among all
};

// One access to a word. It is over for everyone who has seen `time` of the actor.
struct GlobalDeed {
  const GlobalActor* actor = nullptr;
  uint32_t time = 0;  // 0: there was none
  uint32_t line = 0;  // of the PTX
  uint8_t bytes = 0;  // of the word's four, one bit for each
  bool is_async = false, is_strong = false;
  Scope scope = Scope::gpu;  // of a strong access

  bool operator==(const GlobalDeed&) const = default;
};

// The one who accesses knows an earlier access to be one of these.
enum class Standing : uint8_t { over, unfenced, unordered };

struct GlobalClash {
  Standing standing;
  Address address;  // of the first byte of the word
  GlobalDeed earlier;
  bool earlier_wrote;
};

// Host threads share this object: each page has a lock, which it may share with others.
class GlobalShadow {
 public:
  static constexpr uint64_t page_bytes = 4096;  // no page has parts of two allocations

  // Begins another launch. What earlier launches did is over for the new one and forgotten, unless the new
  // launch `may_overlap` the last one.
  void begin(bool may_overlap);

  const GlobalActor* add(GlobalActor actor);

  // The caller of access() must hold the lock of the page.
  std::mutex& lock_of(Address address) { return part_of(address).mutex; }
  // Records an access of [address, address + bytes) of one page. `standing` returns what the one who accesses
  // knows of an earlier access. Returns the first clash; the rest after the clash's word is not recorded.
  // Sets `meets_own` if the same actor has written one of the words, or has read one that it now writes,
  // unless both accesses are strong.
  template <class F>
  std::optional<GlobalClash> access(Address address, uint32_t bytes, GlobalDeed deed, bool writes, F standing,
                                    bool& meets_own);

  // These functions keep the bytes that a copy will store, until it has stored them.
  void keep(const GlobalDeed& deed, Address address, std::vector<std::byte> bytes);
  void forget(const GlobalActor& actor, uint32_t time);
  // Returns the byte that the access will store at an address, if it has not stored it yet.
  std::optional<std::byte> kept(const GlobalDeed& deed, Address address) const;

 private:
  struct State {
    GlobalDeed write;
    ShortList<GlobalDeed, 2> reads;

    bool operator==(const State&) const = default;
    uint64_t hash() const;
  };
  // The last step of one kind: the same access to a word in the same state has the same result.
  struct Step {
    GlobalDeed deed;
    uint32_t state = ~0u, result = 0;
    bool meets_own = false;
  };
  using Page = std::array<uint32_t, page_bytes / 4>;  // a state for each word
  struct Part {
    std::mutex mutex;
    Interned<State> states;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;  // by address / page_bytes
    Page* last_page = nullptr;
    uint64_t last_number = 0;
    Step read, write;
    size_t collect_at = least_states;

    Page& page(uint64_t number);
    void clear();
    void collect();  // forgets states that no word is in any more
  };
  static constexpr size_t least_states = 1 << 12;

  Part& part_of(Address address) { return parts_[address / page_bytes % parts_.size()]; }
  template <class F>
  static void add_read(State& state, const GlobalDeed& deed, F standing);

  std::array<Part, 64> parts_;
  struct Store {
    Address address;
    std::vector<std::byte> bytes;
  };
  mutable std::mutex mutex_;  // of what follows
  std::deque<GlobalActor> actors_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Store>> in_flight_;  // by actor and time
};

template <class F>
std::optional<GlobalClash> GlobalShadow::access(Address address, uint32_t bytes, GlobalDeed deed, bool writes,
                                                F standing, bool& meets_own) {
  Part& part = part_of(address);
  if (part.states.size() > part.collect_at) part.collect();
  Page& page = part.page(address / page_bytes);
  Step& last = writes ? part.write : part.read;
  const Address first = address / page_bytes * page_bytes;
  const auto begin = static_cast<uint32_t>(address - first), end = begin + bytes;
  for (uint32_t at = begin / 4 * 4; at < end; at += 4) {
    const uint32_t from = at < begin ? begin - at : 0, to = std::min(4u, end - at);
    deed.bytes = static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
    uint32_t& cell = page[at / 4];
    if (cell != last.state || deed != last.deed) {
      std::optional<GlobalClash> clash;
      bool is_own = false;
      auto check = [&](const GlobalDeed& earlier, bool wrote) {
        if (clash || earlier.time == 0 || (earlier.bytes & deed.bytes) == 0) return;
        is_own |= earlier.actor == deed.actor && !(earlier.is_strong && deed.is_strong);
        if (const Standing s = standing(earlier, wrote); s != Standing::over)
          clash = GlobalClash{s, first + at, earlier, wrote};
      };
      State next = part.states[cell];
      check(next.write, true);
      if (writes) {
        for (const GlobalDeed& read : next.reads) check(read, false);
        next.reads.erase_if([&](const GlobalDeed& read) { return (read.bytes & ~deed.bytes) == 0; });
        next.write = deed;
      } else {
        add_read(next, deed, standing);
      }
      const uint32_t before = cell;
      cell = part.states.intern(std::move(next));
      meets_own |= is_own;
      if (clash) {
        last = {};
        return clash;
      }
      last = {deed, before, cell, is_own};
    } else {
      cell = last.result;
      meets_own |= last.meets_own;
    }
    if (deed.bytes != 15) continue;
    // Whole words that follow in the same state have the same result.
    const size_t more = run_of(&cell + 1, (end - at) / 4 - 1, last.state);
    std::fill_n(&cell + 1, more, last.result);
    at += static_cast<uint32_t>(more) * 4;
  }
  return std::nullopt;
}

// Some of the reads that the reader does not know to be over represent all of them: a write that is not
// ordered after any of them races.
template <class F>
void GlobalShadow::add_read(State& state, const GlobalDeed& deed, F standing) {
  state.reads.erase_if([&](const GlobalDeed& read) {
    return read.actor == deed.actor ||
           ((read.bytes & ~deed.bytes) == 0 && standing(read, true) == Standing::over && !deed.is_async);
  });
  constexpr size_t kMost = 4;
  const uint32_t number = deed.actor->number;
  if (state.reads.size() < kMost)
    state.reads.push_back(deed);
  else if (number % 8 == 0)
    state.reads[number / 8 % kMost] = deed;
}

}  // namespace ptxbuilder::runtime::emulator
