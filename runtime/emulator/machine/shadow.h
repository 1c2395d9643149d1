// Records the state of every word of shared memory: who wrote it last, and who has read it since.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/interned.h"

namespace ptxbuilder::runtime::emulator {

// One access to a word. It is over for everyone who has seen `time` of `actor`.
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

// The history of a word. Words share histories: a tile of one history costs one check and one store per
// word.
struct WordHistory {
  Access write;
  uint8_t initialised = 0;  // bytes ever written
  ShortList<Access, 2> reads;

  bool operator==(const WordHistory&) const = default;
  uint64_t hash() const;
};
using Histories = Interned<WordHistory>;

// The history of a word that no other word shares, for example if threads access memory in strides: it is
// overwritten in place.
struct OwnHistory {
  Access write, read;       // one read at most
  uint8_t initialised = 0;  // as in WordHistory
};

// The shadow of one CTA's shared memory.
class Shadow {
 public:
  Shadow(Histories& histories, uint32_t bytes)
      : histories_(histories), cells_((bytes + 3) / 4, 0), own_(bytes / 4 / block_words + 1) {}

  // Records an access of [offset, offset + bytes) by a thread with `knowledge`. Returns the first conflict,
  // after which the rest is not recorded.
  std::optional<Clash> read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  std::optional<Clash> write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  // Records a read of whole words that does what the last one did, to words in the same state; returns false
  // if it is another.
  bool read_again(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge) {
    access.bytes = 15;
    const uint32_t count = bytes / 4;
    if (&knowledge != read_.by || (offset | bytes) % 4 != 0 || access != read_.access) return false;
    uint32_t* cells = &cells_[offset / 4];
    if (run_of(cells, count, read_.state) != count) return false;
    std::fill_n(cells, count, read_.result);
    return true;
  }

  // The first word that was read before it was written since the last clear. The read alone is not a clash: a
  // later unordered write is the better culprit.
  std::optional<uint32_t> uninitialised;

  // Records a write that is unordered with other writes, but writes the same value.
  void agree(Access access, uint32_t offset, uint32_t bytes);
  // Returns whether any of these bytes holds a defined value.
  bool any_initialised(uint32_t offset, uint32_t bytes) const;
  // Returns the program counter of the last write of the word, or no_pc if there was none.
  uint32_t writer(uint32_t offset) const;
  // Makes the contents undefined.
  void forget(uint32_t offset, uint32_t bytes);

  // Calls f(number) for the history of each word that shares it, to be renumbered.
  template <class F>
  void renumber(F f) {
    forget_steps();
    for (uint32_t& cell : cells_)
      if (cell != is_own) f(cell);
  }
  void forget_steps() { read_ = write_ = {}; }

 private:
  // The last step of one kind: the same access to a word in the same state, with the same knowledge or more,
  // has the same result.
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
  uint32_t at_ = 0;  // the current word
  Step read_, write_;
  uint32_t news_ = 0;            // consecutive accesses that created a new history
  std::vector<uint32_t> cells_;  // the number of each word's history, or is_own
  std::vector<std::unique_ptr<OwnHistory[]>> own_;
};

}  // namespace ptxbuilder::runtime::emulator
