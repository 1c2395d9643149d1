// The knowledge that the lanes of one warp have of each other's accesses. Only synchronization between the
// lanes orders these accesses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// Accesses between two meetings have the same stamp.
class LaneOrder {
 public:
  uint32_t now() const { return now_; }
  // Ends an interval of accesses, and returns its stamp.
  uint32_t end() { return now_++; }
  // Returns whether all lanes know what every lane did at `stamp`.
  bool all_know(uint32_t stamp) const { return stamp <= all_; }
  // Returns whether what `other` did at `stamp` happens before the next action of `lane`.
  bool knows(int lane, int other, uint32_t stamp) const {
    return stamp <= all_ || (apart_ && stamp <= (*known_)[static_cast<size_t>(lane * 32 + other)]);
  }
  // Returns the last stamp at which an action of `other` happens before the next action of `lane`.
  uint32_t known(int lane, int other) const {
    return apart_ ? std::max(all_, (*known_)[static_cast<size_t>(lane * 32 + other)]) : all_;
  }
  // Called when these lanes wait for each other. Each of them then knows what all of them have done, and
  // everything that they knew.
  void meet(Lanes who, Lanes alive) {
    if ((alive & ~who) != 0) return meet_some(who);
    apart_ = false;
    all_ = now_++;
  }
  // Called when these lanes synchronise through an mbarrier or an ordering word. They then know what all
  // lanes have done.
  void learn(Lanes who, Lanes alive) {
    if ((alive & ~who) != 0) return learn_some(who);
    apart_ = false;
    all_ = now_++;
  }

 private:
  void meet_some(Lanes who);
  void learn_some(Lanes who);
  void part();

  uint32_t now_ = 1, all_ = 0;
  bool apart_ = false;
  std::unique_ptr<std::array<uint32_t, 1024>> known_;  // what lane a knows of lane b, at 32 a + b
};

// The check and the recording of an access may be separate steps. An atomic instruction checks the accesses
// of all lanes before it records any of them, and the stores of stmatrix are recorded when its lanes have
// met.
enum class LaneAccess : uint8_t { plain, checked, recorded, atomic_checked, atomic_recorded };

}  // namespace ptxbuilder::runtime::emulator
