// Keeps what is known of every word of shared memory: who wrote it last, and who has read it since.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/interned.h"

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

// This is what has happened to a word. Words share histories: a tile of one history costs one check and a
// store per word.
struct WordHistory {
  Access write;
  uint8_t initialised = 0;  // bytes ever written
  ShortList<Access, 2> reads;

  bool operator==(const WordHistory&) const = default;
  uint64_t hash() const;
};
using Histories = Interned<WordHistory>;

// The history of a word that shares it with no other, as where threads access memory in strides: it is
// overwritten in place.
struct OwnHistory {
  Access write, read;       // one read at most
  uint8_t initialised = 0;  // as of WordHistory
};

// The shadow of one CTA's shared memory.
class Shadow {
 public:
  Shadow(Histories& histories, uint32_t bytes)
      : histories_(histories), cells_((bytes + 3) / 4, 0), own_(bytes / 4 / block_words + 1) {}

  // Records an access of [offset, offset + bytes) by one who has `knowledge`. Returns the first conflict,
  // after which the rest is not recorded.
  std::optional<Clash> read(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);
  std::optional<Clash> write(Access access, uint32_t offset, uint32_t bytes, const Knowledge& knowledge);

  // The first word that was read since this was cleared though nothing had written it. That alone is no
  // clash: who comes to write it, unordered after the read, is the better culprit.
  std::optional<uint32_t> uninitialised;

  // Records a write in addition to others, unordered with them, of the value that they have written.
  void agree(Access access, uint32_t offset, uint32_t bytes);
  // This says whether any of these bytes holds a defined value.
  bool any_initialised(uint32_t offset, uint32_t bytes) const;
  // The program counter of the last write of the word; no_pc where there was none.
  uint32_t writer(uint32_t offset) const;
  // The contents are now undefined.
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
  // The last step of one kind: the same access of a word of the same state, by one who knows as much or more,
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
  uint32_t at_ = 0;  // the word that is looked at
  Step read_, write_;
  uint32_t news_ = 0;            // accesses in a row that made a history which no word had
  std::vector<uint32_t> cells_;  // the number of each word's history, or is_own
  std::vector<std::unique_ptr<OwnHistory[]>> own_;
};

}  // namespace ptxbuilder::runtime::emulator
