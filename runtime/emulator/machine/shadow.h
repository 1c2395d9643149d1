// Records the state of every word of shared memory: the last write, and the reads after it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/interned.h"

namespace ptxbuilder::runtime::emulator {

// One access to a word. It happens before everything that an actor does after it has learnt of this actor's
// `time`.
struct Access {
  Actor actor = 0;
  uint32_t time = 0;  // 0 if there was no access
  uint32_t pc = 0;
  bool async = false;  // whether the async proxy made the access
  uint8_t bytes = 0;   // the accessed bytes of the word, one bit each

  bool operator==(const Access&) const = default;
};

enum class Conflict : uint8_t { unordered, unfenced };

struct Clash {
  Conflict conflict;
  uint32_t offset;  // offset of the word's first byte
  Access earlier;
  bool earlier_wrote;
};

// The history of a word. Words with the same history share one object, so that an access to a tile whose
// words share a history costs one check, and one store per word.
struct WordHistory {
  Access write;
  uint8_t initialised = 0;  // bytes that have ever been written, one bit each
  ShortList<Access, 2> reads;

  bool operator==(const WordHistory&) const = default;
  uint64_t hash() const;
};
using Histories = Interned<WordHistory>;

// The history of a word that shares it with no other word, for example because threads access memory in
// strides. This history is overwritten in place.
struct OwnHistory {
  Access write, read;       // at most one read
  uint8_t initialised = 0;  // as in WordHistory
};

// The shadow of one CTA's shared memory.
class Shadow {
 public:
  Shadow(Histories& histories, uint32_t bytes)
      : histories_(histories), cells_((bytes + 3) / 4, 0), own_(bytes / 4 / block_words + 1) {}

  // Records an access to [offset, offset + bytes) by a thread with `knowledge`. Returns the first clash;
  // words after the clashing word are not recorded.
  std::optional<Clash> read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  std::optional<Clash> write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  // Records a read of whole words if it equals the last recorded read, and the words are in the same state as
  // in that read. Otherwise returns false.
  bool read_again(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge) {
    access.bytes = 15;
    const uint32_t count = bytes / 4;
    if (&knowledge != read_.by || (offset | bytes) % 4 != 0 || access != read_.access) return false;
    uint32_t* cells = &cells_[offset / 4];
    if (run_of(cells, count, read_.state) != count) return false;
    std::fill_n(cells, count, read_.result);
    return true;
  }

  // The first word that was read before it was written, since this value was last cleared. The read alone is
  // not a clash, because a report about a later unordered write is more useful.
  std::optional<uint32_t> uninitialised;

  // Records a write that is not ordered after other writes, but writes the same value.
  void agree(Access access, uint32_t offset, uint32_t bytes);
  // Returns whether any of these bytes is defined.
  bool any_initialised(uint32_t offset, uint32_t bytes) const;
  // Returns the program counter of the last write to the word, or no_pc if there was none.
  uint32_t writer(uint32_t offset) const;
  // Makes these bytes undefined.
  void forget(uint32_t offset, uint32_t bytes);

  // Calls f with a reference to the history number of each word that shares its history, so that f can
  // renumber it.
  template <class F>
  void renumber(F f) {
    forget_steps();
    for (uint32_t& cell : cells_)
      if (cell != is_own) f(cell);
  }
  void forget_steps() { read_ = write_ = {}; }

 private:
  // A cache of the last step of one kind: the same access to a word in the same state, with the same
  // knowledge or more, has the same result.
  struct Step {
    Access access;
    const Knowledge* by = nullptr;
    uint32_t state = ~0u, result = 0;
  };
  static constexpr uint32_t is_own = ~0u, block_words = 64, most_news = 8;
  template <class Check, class Own>
  std::optional<Clash> each(Access access, uint32_t offset, uint32_t bytes, const Knowledge* by, Step& last,
                            Check&& step, Own&& own_step);
  OwnHistory& own(uint32_t at) { return own_[at / 4 / block_words][at / 4 % block_words]; }
  const OwnHistory& own(uint32_t at) const { return own_[at / 4 / block_words][at / 4 % block_words]; }
  WordHistory history(uint32_t at) const;
  bool make_own(uint32_t at);
  void share(uint32_t at);

  Histories& histories_;
  uint32_t at_ = 0;  // offset of the current word
  Step read_, write_;
  uint32_t news_ = 0;            // number of consecutive accesses that created a new history
  std::vector<uint32_t> cells_;  // number of each word's history, or is_own
  std::vector<std::unique_ptr<OwnHistory[]>> own_;
};

}  // namespace ptxbuilder::runtime::emulator
