// Global memory that is as weak as PTX's model allows: a load may read a store that a later one has replaced,
// and a store may be ordered before one that is already in memory, unless something that the warp knows
// forbids it. The warp's own accesses, its knowledge from releases and barriers (Knowledge), and the stores
// that a fence.sc has settled forbid it. Loads do not read what is stored later: load buffering's weak
// outcome does not appear.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/machine/global_memory_order.h"

namespace ptxbuilder::runtime::emulator {

class Warp;

// Memory itself holds the newest value of everything. This class keeps older values of the most recently
// stored lines of 16 B, the longest access: a line that is forgotten has only its newest value.
class WeakMemory {
 public:
  // Picks one of these stores, the newest last, for a load to read; or decides whether a store is ordered
  // first of two or last.
  using Choice = std::function<size_t(std::span<const uint64_t> stores, bool loads)>;
  WeakMemory(GlobalMemoryOrder& order, Choice choice) : order_(order), choice_(std::move(choice)) {}
  void choose_by(Choice choice) { choice_ = std::move(choice); }

  struct Value {
    const std::byte* bytes;
    PassedOnPointer passed;  // to who acquires the value
  };
  // Returns what the warp loads from an address at which memory holds `newest`.
  Value load(const Warp& w, Address address, const std::byte* newest);
  // A store writes its bytes to what this returns, which is `newest` or an older value of the line. After the
  // bytes, the caller calls end_store(), and then released() with what the store passes on as a release.
  std::byte* begin_store(const Warp& w, Address address, uint32_t bytes, std::byte* newest);
  void end_store(const Warp& w, Address address, bool is_atomic);
  // Attaches a release to the value that end_store() has finished.
  void release(Address address, const Party& who, Scope scope, const Knowledge& k);
  // An atomic operation changes the newest value, or only reads it.
  void load_newest(const Warp& w, Address address);
  void begin_atomic(Address address, uint32_t bytes, const std::byte* newest);
  // Called after something else has stored to [address, address + bytes).
  void forget(Address address, uint64_t bytes);
  uint64_t stores() const { return stores_; }

 private:
  struct Reader {
    uint64_t cluster;
    Actor actor;
    uint32_t time;
  };
  struct Store {
    uint64_t number = 0;  // among all stores; 0 for the initial value
    uint16_t mask = 0;    // of the line's bytes
    bool is_atomic = false;
    Reader by = {};
    std::array<std::byte, 16> line = {};  // after the store
    std::vector<Reader> readers = {};     // that nothing but the load tells of the store
    uint64_t word = 0;                    // address / 4 of a store that may release
    // The word passed this on ahead of the store; and after it, of one that was not the newest.
    PassedOnPointer before = {}, own = {};
  };
  struct Line {
    std::deque<Store> stores;  // in the order of coherence
    size_t least = 0;          // no one reads earlier stores any more
    const std::byte* memory = nullptr;
  };

  Line* line_of(Address address);
  Line& make_line(Address address, const std::byte* newest);
  static bool knows(const Warp& w, const Reader& deed, uint64_t store);
  size_t choose(const Line& line, size_t from) const;
  static size_t floor(const Warp& w, const Line& line);
  static void note_reader(const Warp& w, Line& line, size_t which);
  void forget_oldest(Line& line);

  GlobalMemoryOrder& order_;
  Choice choice_;
  uint64_t stores_ = 0;
  std::unordered_map<uint64_t, Line> lines_;  // by address / 16
  std::deque<uint64_t> age_;                  // of lines, the oldest first
  // The store under way.
  Line* at_ = nullptr;
  size_t which_ = 0;
  uint16_t mask_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator
