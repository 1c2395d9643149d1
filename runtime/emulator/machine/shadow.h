// What is known of every word of shared memory: who wrote it last, and who has read it since.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"

namespace ptxbuilder::runtime::emulator {

// One deed on a word. It is over for whoever has seen `time` of `actor`.
struct Access {
  Actor actor = 0;
  uint32_t time = 0;  // 0: there was none
  uint32_t pc = 0;
  bool async = false;  // by the async proxy
  uint8_t bytes = 0;   // of the word's four, one bit for each

  bool operator==(const Access&) const = default;
};

enum class Conflict : uint8_t { unordered, unfenced };

struct Clash {
  Conflict conflict;
  uint32_t offset;  // of the first byte of the word
  Access earlier;
  bool earlier_wrote;
};

// States are shared between words and made once, so that a tile of one history costs one check and a store
// per word.
class Histories {
 public:
  struct State {
    Access write;
    uint8_t initialised = 0;  // bytes ever written
    std::vector<Access> reads;

    bool operator==(const State&) const = default;
  };

  Histories() : states_(1) {}

  const State& operator[](uint32_t id) const { return states_[id]; }
  uint32_t intern(State state);
  size_t size() const { return states_.size(); }

  // Keeps the states that `cells` name, and renumbers them there.
  void collect(const std::vector<std::vector<uint32_t>*>& cells);

 private:
  static size_t hash(const State& state);

  std::vector<State> states_;
  std::unordered_multimap<size_t, uint32_t> ids_;
};

// The shadow of one CTA's shared memory.
class Shadow {
 public:
  Shadow(Histories& histories, uint32_t bytes) : histories_(histories), cells_((bytes + 3) / 4, 0) {}

  // Records an access of [offset, offset + bytes) by one who has `knowledge`. Returns the first conflict,
  // after which the rest is not recorded.
  std::optional<Clash> read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  std::optional<Clash> write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);

  // The first word that was read since this was cleared though nothing had written it. That alone is no
  // clash: who comes to write it, unordered after the read, is the better culprit.
  std::optional<uint32_t> uninitialised;

  // Records a write beside others, unordered with them, of the value that they have written.
  void agree(Access access, uint32_t offset, uint32_t bytes);
  // This says whether any of these bytes holds a defined value.
  bool any_initialised(uint32_t offset, uint32_t bytes) const;
  // The program counter of the last write of the word; no_pc where there was none.
  uint32_t writer(uint32_t offset) const;
  // What stands there now is undefined.
  void forget(uint32_t offset, uint32_t bytes);

  // The states of all words, to be renumbered.
  std::vector<uint32_t>& cells() {
    forget_steps();
    return cells_;
  }
  void forget_steps() { read_ = write_ = {}; }

 private:
  // The last step of one kind: the same access of a word of the same state, by one who knows as much or more,
  // has the same result.
  struct Step {
    Access access;
    const Knowledge* by = nullptr;
    uint32_t state = ~0u, result = 0;
  };
  template <class Check>
  std::optional<Clash> each(Access access, uint32_t offset, uint32_t bytes, const Knowledge* by, Step& last,
                            Check&& step);

  Histories& histories_;
  uint32_t at_ = 0;  // the word that is looked at
  Step read_, write_;
  std::vector<uint32_t> cells_;  // a state of `histories_` for each word
};

}  // namespace ptxbuilder::runtime::emulator
