// Divides an axis of a product into tiles when the axis consists of several modes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/call/quick_division.h"
#include "kernels/gemm/parameters.h"

namespace ptxbuilder::kernels {

// Tiles are numbered along the first mode, then along the second, and so on, so that a tile's number has a
// digit for each mode. The last digit is unbounded: tiles beyond the end are outside the tensor. The elements
// of a tile have consecutive numbers.
class ModeAxis {
 public:
  // A tile of `length` elements has `box` elements along the first mode and length / box along the second. If
  // `box` is 0, all elements are along the first mode. `extents` holds the extents of all modes except the
  // last. `tiles` holds the numbers of tiles along these modes, or is empty.
  ModeAxis(int length, int box, std::vector<u32> extents, std::vector<QuickDivision> tiles = {})
      : length_(length),
        box_(box == 0 ? length : box),
        extents_(std::move(extents)),
        tiles_(std::move(tiles)) {}

  // Returns the coordinates of an element along each mode.
  std::vector<u32> at(u32 element) const {
    if (extents_.empty()) return {element};
    const auto length = static_cast<uint32_t>(length_), box = static_cast<uint32_t>(box_);
    u32 tile = element / length;
    const u32 within = element - tile * length;
    std::vector<u32> all;
    for (size_t i = 0; i <= extents_.size(); ++i) {
      const int boxed = i == 0 ? box_ : i == 1 ? length_ / box_ : 1;
      u32 digit = tile;
      if (i < extents_.size()) {
        const u32 tiles = !tiles_.empty() ? tiles_[i].divisor
                          : boxed == 1    ? extents_[i]
                                          : ceil_div(extents_[i], boxed);
        tile = tiles_.empty() ? tile / tiles : tiles_[i](tile);
        digit = digit - tile * tiles;
      }
      const u32 start = boxed == 1 ? digit : digit * static_cast<uint32_t>(boxed);
      all.push_back(length_ == 1 || i > 1 ? start
                    : i == 0              ? start + (box_ == length_ ? within : within % box)
                    : box_ == length_     ? start
                                          : start + within / box);
    }
    return all;
  }

 private:
  int length_, box_;
  std::vector<u32> extents_;
  std::vector<QuickDivision> tiles_;
};

// The axes of a product whose operands have several modes.
struct ModeAxes {
  ModeAxis m, n, k, batch;

  ModeAxes(const GemmOperation& o, const GemmTile& t, const GemmParameters& p)
      : m(t.swapped ? t.bn : t.bm, o.m_box, p.extents("m", o.m_modes)),
        n(t.swapped ? t.bm : t.bn, o.n_box, p.extents("n", o.n_modes)),
        k(t.bk, o.k_box, p.extents("k", o.k_modes), stages_of(o, p)),
        batch(1, 0, p.extents("batch", o.batch_modes)) {}

  // Returns the quick divisions for the stages along k, if A consists of windows. The taps of a window are
  // along k, and the producer has too little time for a full division at each tap.
  static std::vector<QuickDivision> stages_of(const GemmOperation& o, const GemmParameters& p) {
    std::vector<QuickDivision> all;
    for (int i = 0; o.windows == WindowsOf::a && i + 1 < o.k_modes; ++i)
      all.emplace_back(p, "stages_k" + std::to_string(i));
    return all;
  }

  // Returns the coordinates in D's tensor map, innermost first. As in the map of every operand, the first
  // mode along the rows directly follows the contiguous mode.
  std::vector<u32> of_d(u32 row, u32 column, const std::optional<u32>& of_batch) const {
    std::vector<u32> rows = m.at(row), columns = n.at(column), all = {columns[0]};
    all.insert(all.end(), rows.begin(), rows.end());
    all.insert(all.end(), columns.begin() + 1, columns.end());
    if (of_batch) {
      const std::vector<u32> batches = batch.at(*of_batch);
      all.insert(all.end(), batches.begin(), batches.end());
    }
    return all;
  }
};

}  // namespace ptxbuilder::kernels
