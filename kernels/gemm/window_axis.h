// Locates the pixels of windows in the images, for an operand of gemm() that consists of windows.
#pragma once

#include <array>
#include <vector>

#include "kernels/call/quick_division.h"
#include "kernels/gemm/parameters.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

// Converts the number of a window into the coordinates of its pixels, using gemm()'s parameters for windows.
class WindowAxis {
 public:
  explicit WindowAxis(const GemmParameters& p) : along_{Along(p, "w"), Along(p, "h")} {}

  // Returns the coordinates of a window's first pixel, which are its position along w, its position along h,
  // and its image.
  std::vector<u32> at(u32 window) const {
    std::vector<u32> all;
    for (const Along& d : along_) {
      const u32 next = d.count(window);
      all.push_back((window - next * d.count.divisor) * d.step + d.first);
      window = next;
    }
    all.push_back(window);
    return all;
  }
  // Returns the offsets, along w and h, from a window's first pixel to the pixel of the given taps.
  Im2colOffsets offsets(const std::array<u32, 2>& taps) const {
    Im2colOffsets all;
    for (size_t d = 0; d < taps.size(); ++d) all.along.push_back(along_[d].tap + taps[d] * along_[d].spread);
    return all;
  }

 private:
  struct Along {
    Along(const GemmParameters& p, const std::string& name)
        : count(p, "windows_" + name),
          first(p.get<u32>("first_" + name)),
          step(p.get<u32>("step_" + name)),
          tap(p.get<u32>("tap_" + name)),
          spread(p.get<u32>("spread_" + name)) {}
    QuickDivision count;
    u32 first, step, tap, spread;
  };
  std::array<Along, 2> along_;
};

}  // namespace ptxbuilder::kernels
