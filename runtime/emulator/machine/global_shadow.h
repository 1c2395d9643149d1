// This is known of every word of global memory that a launch has accessed: who wrote it last, and who has
// read it since. Clusters of one launch share it, and so do launches that may overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// An actor of a cluster, among those of all clusters and launches.
struct GlobalActor {
  uint32_t launch = 0;
  uint64_t cluster = 0, cta = 0;  // of the launch
  Actor local = 0;
  std::string name = {};  // "warp 3 of CTA (1, 0, 0)"
};

// One deed on a word. It is over for whoever has seen `time` of the actor.
struct GlobalDeed {
  uint32_t actor = 0;  // index of a GlobalActor
  uint32_t time = 0;   // 0: there was none
  uint32_t line = 0;   // of the PTX
  uint8_t bytes = 0;   // of the word's four, one bit for each
  bool is_async = false, is_strong = false;
  Scope scope = Scope::gpu;  // of a strong one

  bool operator==(const GlobalDeed&) const = default;
};

// The one who accesses knows this of an earlier deed.
enum class Standing : uint8_t { over, unfenced, unordered };

struct GlobalClash {
  Standing standing;
  Address address;  // of the first byte of the word
  GlobalDeed earlier;
  bool earlier_wrote;
};

class GlobalShadow {
 public:
  // Another launch accesses from now on. What launches did before is over for it and forgotten, unless it
  // `may_overlap` the last one.
  void begin(bool may_overlap);

  uint32_t add(GlobalActor actor);
  const GlobalActor& operator[](uint32_t actor) const { return actors_[actor]; }

  // Records an access of [address, address + bytes) of an allocation. `standing` says what the one who
  // accesses knows of an earlier deed. Returns the first clash, behind whose word the rest is not recorded.
  template <class F>
  std::optional<GlobalClash> access(Address allocation, size_t size, Address address, uint32_t bytes,
                                    GlobalDeed deed, bool writes, F standing);
  std::mutex& mutex() { return mutex_; }

  // These keep what a copy is to store, until it has done so.
  void keep(uint32_t actor, uint32_t time, Address address, std::vector<std::byte> bytes);
  void forget(uint32_t actor, uint32_t time);
  // The byte that the deed is to store at an address, if it has not yet.
  std::optional<std::byte> kept(const GlobalDeed& deed, Address address) const;

 private:
  struct State {
    GlobalDeed write;
    std::vector<GlobalDeed> reads;

    bool operator==(const State&) const = default;
  };
  // The last step of one kind: the same deed on a word of the same state has the same result.
  struct Step {
    GlobalDeed deed;
    uint32_t state = ~0u, result = 0;
  };
  template <class F>
  static void add_read(State& state, const GlobalDeed& deed, F standing);
  static size_t hash(const State& state);
  uint32_t intern(State state);
  void collect();  // forgets states that no word has

  std::mutex mutex_;
  std::vector<GlobalActor> actors_ = std::vector<GlobalActor>(1);  // actor 0 is nobody
  std::vector<State> states_ = std::vector<State>(1);
  std::unordered_multimap<size_t, uint32_t> ids_;
  std::unordered_map<Address, std::vector<uint32_t>> cells_;  // of each allocation, a state for each word
  Step read_, write_;
  struct Store {
    Address address;
    std::vector<std::byte> bytes;
  };
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Store>> in_flight_;  // by actor and time
  size_t collect_at_ = 1 << 17;
};

template <class F>
std::optional<GlobalClash> GlobalShadow::access(Address allocation, size_t size, Address address,
                                                uint32_t bytes, GlobalDeed deed, bool writes, F standing) {
  if (states_.size() > collect_at_) collect();
  std::vector<uint32_t>& cells = cells_[allocation];
  if (cells.empty()) cells.resize(size / 4 + 1);
  Step& last = writes ? write_ : read_;
  const uint64_t begin = address - allocation, end = begin + bytes;
  for (uint64_t at = begin / 4 * 4; at < end; at += 4) {
    const uint32_t from = at < begin ? static_cast<uint32_t>(begin - at) : 0,
                   to = static_cast<uint32_t>(std::min<uint64_t>(4, end - at));
    deed.bytes = static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
    uint32_t& cell = cells[at / 4];
    if (cell != last.state || deed != last.deed) {
      const uint32_t before = cell;
      std::optional<GlobalClash> clash;
      auto check = [&](const GlobalDeed& earlier, bool wrote) {
        if (clash || earlier.time == 0 || (earlier.bytes & deed.bytes) == 0) return;
        if (const Standing s = standing(earlier, wrote); s != Standing::over)
          clash = GlobalClash{s, allocation + at, earlier, wrote};
      };
      State next = states_[before];
      check(next.write, true);
      if (writes) {
        for (const GlobalDeed& read : next.reads) check(read, false);
        std::erase_if(next.reads, [&](const GlobalDeed& read) { return (read.bytes & ~deed.bytes) == 0; });
        next.write = deed;
      } else {
        add_read(next, deed, standing);
      }
      cell = intern(std::move(next));
      if (clash) {
        last = {};
        return clash;
      }
      last = {deed, before, cell};
      continue;
    }
    cell = last.result;
  }
  return std::nullopt;
}

// Some of the reads that the reader does not know to be over stand for all: a write that is not ordered
// behind any of them races.
template <class F>
void GlobalShadow::add_read(State& state, const GlobalDeed& deed, F standing) {
  std::erase_if(state.reads, [&](const GlobalDeed& read) {
    return read.actor == deed.actor ||
           ((read.bytes & ~deed.bytes) == 0 && standing(read, true) == Standing::over && !deed.is_async);
  });
  constexpr size_t kMost = 4;
  if (state.reads.size() < kMost)
    state.reads.push_back(deed);
  else if (deed.actor % 8 == 0)
    state.reads[deed.actor / 8 % kMost] = deed;
}

}  // namespace ptxbuilder::runtime::emulator
