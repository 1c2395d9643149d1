// Global memory that is as weak as PTX's model allows. A load may read a store that a later store has
// replaced, and a store may be ordered before one that is already in memory, unless something that the warp
// knows forbids it. The warp's own accesses, its knowledge from releases and barriers (Knowledge), and the
// stores that a fence.sc has settled forbid it. A load never reads a store that is executed later, so the
// weak outcome of load buffering does not occur.
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

// The device's memory holds the newest value of everything. This class also stores older values of the most
// recently stored lines. A line has 16 B, the size of the largest access. Once a line is forgotten, only its
// newest value exists.
class WeakMemory {
 public:
  // If `loads` is true, chooses which of these stores a load reads; the newest store is the last. Otherwise
  // chooses whether a store is ordered before the newest store (0) or after it (1).
  using Choice = std::function<size_t(std::span<const uint64_t> stores, bool loads)>;
  WeakMemory(GlobalMemoryOrder& order, Choice choice) : order_(order), choice_(std::move(choice)) {}
  void choose_by(Choice choice) { choice_ = std::move(choice); }

  struct Value {
    const std::byte* bytes;
    PassedOnPointer passed;  // what a thread that acquires the value learns
  };
  // Returns what the warp loads from an address at which memory holds `newest`.
  Value load(const Warp& w, Address address, const std::byte* newest);
  // Returns the memory to which a store writes its bytes: `newest`, or an older value of the line. After the
  // store, the caller calls end_store(), and then release() with what the store passes on if it is a release.
  std::byte* begin_store(const Warp& w, Address address, uint32_t bytes, std::byte* newest);
  void end_store(const Warp& w, Address address, bool is_atomic);
  // Attaches a release to the value that end_store() has finished.
  void release(Address address, const Party& who, Scope scope, const Knowledge& k);
  // An atomic operation uses the newest value. load_newest() is for an operation that only reads it, and
  // begin_atomic() for one that changes it.
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
    uint64_t number = 0;  // number among all stores; 0 for the initial value
    uint16_t mask = 0;    // the bytes of the line that are stored
    bool is_atomic = false;
    Reader by = {};
    std::array<std::byte, 16> line = {};  // the line's contents after the store
    std::vector<Reader> readers = {};     // threads that know of the store only because they loaded it
    uint64_t word = 0;                    // address / 4, if the store may be a release
    // `before` is what the word passed on before the store. `own` is what it passed on after the store, if
    // the store was not the newest.
    PassedOnPointer before = {}, own = {};
  };
  struct Line {
    std::deque<Store> stores;  // in coherence order
    size_t least = 0;          // earlier stores are no longer read by any thread
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
  std::unordered_map<uint64_t, Line> lines_;  // indexed by address / 16
  std::deque<uint64_t> age_;                  // numbers of the lines, oldest first
  // The store that is being executed.
  Line* at_ = nullptr;
  size_t which_ = 0;
  uint16_t mask_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator
