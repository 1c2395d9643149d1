// Global memory as weak as PTX's model lets it be: a load may read a store that a later one has replaced, and
// a store may come ahead of one that memory has already, where nothing that the warp knows forbids it. What
// forbids it is what the warp has accessed itself, what it knows by releases and barriers (Knowledge), and
// the stores that a fence.sc has settled. Loads do not read what is stored later: load buffering's weak
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

// Memory itself holds the newest value of everything. This keeps older ones of lines of 16 B, the longest
// access, for the lines that were stored to last: what is forgotten has its newest value alone.
class WeakMemory {
 public:
  // Picks one of these stores, the newest last, for a load to read; or whether a store comes first of two or
  // last.
  using Choice = std::function<size_t(std::span<const uint64_t> stores, bool loads)>;
  WeakMemory(GlobalMemoryOrder& order, Choice choice) : order_(order), choice_(std::move(choice)) {}
  void choose_by(Choice choice) { choice_ = std::move(choice); }

  struct Value {
    const std::byte* bytes;
    PassedOnPointer passed;  // to who acquires the value
  };
  // It gives what the warp loads from an address, where memory holds `newest`.
  Value load(const Warp& w, Address address, const std::byte* newest);
  // A store writes its bytes to what this returns, which is `newest` or an older value of the line. After the
  // bytes comes end_store(), and then released(), which says where the store passes on what it releases.
  std::byte* begin_store(const Warp& w, Address address, uint32_t bytes, std::byte* newest);
  void end_store(const Warp& w, Address address, bool is_atomic);
  // Releases to the value that end_store() has ended.
  void release(Address address, const Party& who, Scope scope, const Knowledge& k);
  // An atomic operation changes the newest value, or reads it alone.
  void load_newest(const Warp& w, Address address);
  void begin_atomic(Address address, uint32_t bytes, const std::byte* newest);
  // Something else has stored to [address, address + bytes).
  void forget(Address address, uint64_t bytes);
  uint64_t stores() const { return stores_; }

 private:
  struct Reader {
    uint64_t cluster;
    Actor actor;
    uint32_t time;
  };
  struct Store {
    uint64_t number = 0;  // among all stores; 0 for what was there before
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
    size_t least = 0;          // nobody reads those ahead of it any more
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
