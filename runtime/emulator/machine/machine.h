// The state of a running launch, for instruction handlers and for checks.
#pragma once

#include <utility>

#include "runtime/emulator/machine/cluster.h"
#include "runtime/emulator/machine/cta.h"
#include "runtime/emulator/machine/warp.h"
#include "runtime/emulator/machine/weak_memory.h"

namespace ptxbuilder::runtime::emulator {

inline Cluster& Warp::cluster() const { return cta.cluster; }
inline const Grid& Warp::grid() const { return cta.cluster.grid; }
inline uint32_t Warp::here() const { return static_cast<uint32_t>(instruction - grid().kernel.code.data()); }

inline Party Warp::party() const { return {cluster().number(), cluster().number_of(cta), grid().device}; }
inline const Observers::List& Warp::observers_of_global() const { return cluster().observers.global_access; }

inline WeakMemory* Warp::weak() const { return cluster().ahead ? nullptr : grid().weak; }
inline bool Warp::awaits_sum(uint64_t address, uint32_t bytes) const {
  const Sums* sums = cluster().ahead.get();
  return sums && !sums->empty() && sums->touches(address, bytes);
}

inline bool Warp::runnable(const Fragment& f) const {
  switch (f.wait) {
    case Wait::none:
      return true;
    case Wait::meeting:
      return executed_ >= f.until || cluster().steps >= f.until_step;
    case Wait::aligned:
    case Wait::lanes:
      return false;  // the last lanes that arrive wake the others
    case Wait::barrier:
      return cta.barriers[f.object].generation != f.generation;
    case Wait::others:
      return cluster().steps >= f.until_step;
    default:
      return f.version != cluster().version;
  }
}

template <class F>
void Warp::post(F f, std::function<bool()> ready) {
  cluster().post(
      [this, i = instruction, f = std::move(f)] {
        instruction = i;
        f();
      },
      std::move(ready));
}

// Applies f to the given lanes of some registers. The result may overwrite an operand of the same lane.
template <class D, class F, class... S>
inline void each_lane(Lanes lanes, F f, D* d, const S*... s) {
  if (lanes == all_lanes) {
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (int i = 0; i < 32; ++i) d[i] = f(s[i]...);
  } else {
    for (Lanes rest = lanes; rest; rest &= rest - 1) {
      int i = __builtin_ctz(rest);
      d[i] = f(s[i]...);
    }
  }
}

template <class F>
inline void for_lanes(Lanes lanes, F f) {
  for (Lanes rest = lanes; rest; rest &= rest - 1) f(__builtin_ctz(rest));
}

}  // namespace ptxbuilder::runtime::emulator
