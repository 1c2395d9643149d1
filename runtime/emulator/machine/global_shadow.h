// The state of every word of global memory that a launch has accessed: the last write, and the reads after
// it. All clusters of a launch share this state, and so do launches that may overlap.
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

// An actor, identified across all clusters and launches.
struct GlobalActor {
  uint32_t launch = 0, device = 0;
  uint64_t cluster = 0, cta = 0;  // as in Party
  Actor local = 0;
  // The kind of actor that a report names: a warp, a warp's cp.async, or another copy of the CTA.
  enum class Kind : uint8_t { warp, cp_async, copy } kind = Kind::warp;
  uint32_t warp = 0;
  Dim3 id = {};              // number of the actor's CTA
  bool has_devices = false;  // whether several devices run launches
  uint32_t number = 0;       // number among all actors

  std::string name() const;  // for example "warp 3 of CTA (1, 0, 0)"
};

// One access to a word. It happens before everything that an actor does after it has learnt of this actor's
// `time`.
struct GlobalDeed {
  const GlobalActor* actor = nullptr;
  uint32_t time = 0;  // 0 if there was no access

  GlobalDeed() = default;
  // `scope` matters only for a strong access.
  GlobalDeed(const GlobalActor* by, uint32_t at, uint32_t line, bool is_async, bool is_strong, Scope scope)
      : actor(by),
        time(at),
        rest_(line << 8 | static_cast<uint32_t>(is_async) << 7 | static_cast<uint32_t>(is_strong) << 6 |
              static_cast<uint32_t>(scope) << 4) {}
  uint32_t line() const { return rest_ >> 8; }  // line of the PTX, modulo 2^24
  bool is_async() const { return (rest_ & 1u << 7) != 0; }
  bool is_strong() const { return (rest_ & 1u << 6) != 0; }
  Scope scope() const { return static_cast<Scope>(rest_ >> 4 & 3); }
  uint32_t bytes() const { return rest_ & 15; }  // the accessed bytes of the word, one bit each
  void set_bytes(uint32_t bytes) { rest_ = (rest_ & ~15u) | bytes; }

  bool operator==(const GlobalDeed&) const = default;
  uint64_t hash(uint64_t h) const {
    h = (h ^ reinterpret_cast<uintptr_t>(actor)) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
    h = (h ^ (uint64_t{time} << 32 | rest_)) * 0xff51afd7ed558ccd;
    return h ^ h >> 32;
  }

 private:
  uint32_t rest_ = 0;
};

// The order of an earlier access and a new one, as far as the new access's actor knows. The earlier access is
// `over` if it happens before the new one, `unfenced` if only a proxy fence is missing, and otherwise
// `unordered`.
enum class Standing : uint8_t { over, unfenced, unordered };

struct GlobalClash {
  Standing standing;
  Address address;  // address of the word's first byte
  GlobalDeed earlier;
  bool earlier_wrote;
};

// Host threads share this object. Each page has a lock, which may be shared with other pages.
class GlobalShadow {
 public:
  // A single host thread needs only one part. It can then use the cached step even if an access continues on
  // the next page.
  explicit GlobalShadow(int host_threads) : parts_(host_threads > 1 ? 64 : 1) {}

  static constexpr uint64_t page_bytes = 4096;  // a page does not contain parts of two allocations

  // Begins another launch. Accesses by earlier launches are ordered before it and forgotten, unless it
  // `may_overlap` the previous launch.
  void begin(bool may_overlap);

  const GlobalActor* add(GlobalActor actor);

  // Returns the lock of the address's page, which the caller of access() must hold. With a single host
  // thread, no lock is needed, so the result is empty.
  std::unique_lock<std::mutex> lock(Address address) {
    return parts_.size() == 1 ? std::unique_lock<std::mutex>() : std::unique_lock(part_of(address).mutex);
  }
  // Records an access to [address, address + bytes), which must be in one page. `standing` returns what the
  // accessing thread knows of an earlier access. Returns the first clash; words after the clashing word are
  // not recorded. Sets `meets_own` if the same actor has written one of the words, or has read one that it
  // now writes, unless both accesses are strong.
  template <class F>
  std::optional<GlobalClash> access(Address address, uint32_t bytes, GlobalDeed deed, bool writes, F standing,
                                    bool& meets_own);

  // keep() stores the bytes that a copy will write, and forget() drops them once the copy has written them.
  void keep(const GlobalDeed& deed, Address address, std::vector<std::byte> bytes);
  void forget(const GlobalActor& actor, uint32_t time);
  // Returns the byte that an access will write to an address, if the access has not written it yet.
  std::optional<std::byte> kept(const GlobalDeed& deed, Address address) const;

 private:
  using Reads = ShortList<GlobalDeed, 2>;
  struct State {
    GlobalDeed write;
    Reads reads;

    bool operator==(const State&) const = default;
    uint64_t hash() const;
  };
  // A cache of the last step of one kind, because the same access to a word in the same state has the same
  // result.
  struct Step {
    GlobalDeed deed;
    uint32_t state = ~0u, result = 0;
    bool meets_own = false;
  };
  using Page = std::array<uint32_t, page_bytes / 4>;  // number of a state for each word
  struct Part {
    std::mutex mutex;
    Interned<State> states;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;  // indexed by address / page_bytes
    struct Recent {
      uint64_t number = 0;
      Page* page = nullptr;
    };
    std::array<Recent, 64> recent;  // a cache of some pages
    Step read, write;
    size_t collect_at = least_states;
    std::vector<std::unique_ptr<Page>> spare;  // pages of earlier launches

    Page& page(uint64_t number) {
      const Recent& known = recent[slot(number)];
      return known.page && known.number == number ? *known.page : find_page(number);
    }
    Page& find_page(uint64_t number);
    static size_t slot(uint64_t number) { return (number ^ number >> 6) % 64; }
    void clear();
    void collect();  // forgets states that no word uses
  };
  static constexpr size_t least_states = 1 << 12;

  Part& part_of(Address address) { return parts_[address / page_bytes % parts_.size()]; }
  template <class F>
  static void add_read(const Reads& reads, const GlobalDeed& deed, F standing, Reads& next);

  std::vector<Part> parts_;
  struct Store {
    Address address;
    std::vector<std::byte> bytes;
  };
  mutable std::mutex mutex_;  // guards the members below
  std::deque<GlobalActor> actors_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Store>> in_flight_;  // indexed by actor and time
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
    deed.set_bytes(((1u << to) - 1) & ~((1u << from) - 1));
    uint32_t& cell = page[at / 4];
    if (cell != last.state || deed != last.deed) {
      std::optional<GlobalClash> clash;
      bool is_own = false;
      auto check = [&](const GlobalDeed& earlier, bool wrote) {
        if (clash || earlier.time == 0 || (earlier.bytes() & deed.bytes()) == 0) return;
        is_own |= earlier.actor == deed.actor && !(earlier.is_strong() && deed.is_strong());
        if (const Standing s = standing(earlier, wrote); s != Standing::over)
          clash = GlobalClash{s, first + at, earlier, wrote};
      };
      const State& state = part.states[cell];
      State next;
      check(state.write, true);
      if (writes) {
        next.write = deed;
        for (const GlobalDeed& read : state.reads) {
          check(read, false);
          if ((read.bytes() & ~deed.bytes()) != 0) next.reads.push_back(read);
        }
      } else {
        next.write = state.write;
        add_read(state.reads, deed, standing, next.reads);
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
    if (deed.bytes() != 15) continue;
    // Whole words that follow in the same state have the same result.
    const size_t more = run_of(&cell + 1, (end - at) / 4 - 1, last.state);
    std::fill_n(&cell + 1, more, last.result);
    at += static_cast<uint32_t>(more) * 4;
  }
  return std::nullopt;
}

// Adds a read to a word's reads. Reads that happen before the new read are dropped. If too many remain, only
// a few of them are stored, because a write that is not ordered after the reads usually races with these few
// as well.
template <class F>
void GlobalShadow::add_read(const Reads& reads, const GlobalDeed& deed, F standing, Reads& next) {
  for (const GlobalDeed& read : reads) {
    const bool is_needless =
        read.actor == deed.actor ||
        ((read.bytes() & ~deed.bytes()) == 0 && !deed.is_async() && standing(read, true) == Standing::over);
    if (!is_needless) next.push_back(read);
  }
  constexpr size_t kMost = 4;
  if (next.size() < kMost)
    next.push_back(deed);
  else if (const uint32_t number = deed.actor->number; number % 8 == 0)
    next[number / 8 % kMost] = deed;
}

}  // namespace ptxbuilder::runtime::emulator
