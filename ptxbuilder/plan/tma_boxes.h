// Describes the boxes in which TMA copies a tile, and the CTAs of a cluster that share the boxes. The code
// that emits the copies evaluates these descriptions with device values, and the proof evaluates them with
// host integers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ptxbuilder/layout/integer.h"

namespace ptxbuilder {

// Boxes of one size: the address of each box in shared memory, and its origin in the tensor. A box's number
// is written in mixed radix, so that its address and its origin are sums over the digits.
struct TmaBoxes {
  // A digit from 0 to count - 1. Each increment moves the box by `bytes` in shared memory, and by `step`
  // along `dimension` of the tensor map. Dimension 0 is the innermost.
  struct Digit {
    int count, dimension, step, bytes;
  };
  std::vector<Digit> digits;  // digits of a box's number; the first digit changes fastest
  int rank = 1;               // number of dimensions of the tensor map
  // The number of CTAs, which must divide count(). Each CTA fetches count() / parts consecutive boxes.
  int parts = 1;

  int count() const {
    int all = 1;
    for (const Digit& digit : digits) all *= digit.count;
    return all;
  }
  int boxes_of_part() const { return count() / parts; }

  // The address of a box, in bytes from the first byte of the tile, and the box's origin, in coordinates
  // relative to the tile's origin, innermost first.
  template <class I>
  struct Box {
    I bytes;
    std::vector<I> start;
  };
  // Returns the i-th box of a part.
  template <class I>
  Box<I> box(const I& part, int i) const {
    using N = LayoutInteger<I>;
    Box<I> box{I(0), std::vector<I>(static_cast<size_t>(rank), I(0))};
    auto move = [&](const Digit& digit, const I& by) {
      I& start = box.start[static_cast<size_t>(digit.dimension)];
      start = N::add(start, N::multiply(by, I(digit.step)));
      box.bytes = N::add(box.bytes, N::multiply(by, I(digit.bytes)));
    };
    // A digit that assumes all of its values within a part depends only on i, so it is known on the host. The
    // remaining digits are those of `rest`, which also depends on the part.
    int each = boxes_of_part();
    size_t next = 0;
    for (; next < digits.size() && each % digits[next].count == 0; ++next) {
      const int count = digits[next].count;
      move(digits[next], I(i % count));
      i /= count;
      each /= count;
    }
    I rest = N::add(N::multiply(part, I(each)), I(i));
    for (; next < digits.size(); ++next) {
      const bool last = next + 1 == digits.size();
      move(digits[next], last ? rest : N::remainder(rest, I(digits[next].count)));
      if (!last) rest = N::divide(rest, I(digits[next].count));
    }
    return box;
  }
};

// The groups of CTAs of a cluster that share a load. The CTAs of a group differ only along `axes`. The CTA at
// (x, y, z) has rank x + extents[0] * (y + extents[1] * z).
struct MulticastGroups {
  std::array<int, 3> extents = {1, 1, 1};  // extents of the cluster
  std::array<bool, 3> axes = {};           // axes along which a group extends: x, y and z
  // The ranks of the CTAs in the group of rank 0, one bit for each. The mask of any other group is this mask,
  // shifted by the rank of that group's first CTA.
  uint32_t first_mask = 1;

  // Returns the groups in a cluster of these extents. The CTAs of a group differ only along the axes.
  static MulticastGroups along(const std::array<int, 3>& extents, const std::array<bool, 3>& axes) {
    MulticastGroups groups{extents, axes, 1};
    for (size_t axis = 0; axis < 3; ++axis) {
      if (!axes[axis]) continue;
      uint32_t all = 0;
      for (int i = 0; i < extents[axis]; ++i) all |= groups.first_mask << (i * groups.rank_step(axis));
      groups.first_mask = all;
    }
    return groups;
  }

  int count() const {  // number of CTAs in a group
    int all = 1;
    for (size_t i = 0; i < 3; ++i)
      if (axes[i]) all *= extents[i];
    return all;
  }
  // Returns the number by which the rank increases from one CTA to the next along an axis.
  int rank_step(size_t axis) const {
    int step = 1;
    for (size_t i = 0; i < axis; ++i) step *= extents[i];
    return step;
  }
  // Compute, for the CTA at (x, y, z), the rank of the first CTA of its group, and the CTA's own number in
  // the group. In the numbering, the first axis varies fastest.
  template <class I>
  I first_rank(const std::array<I, 3>& at) const {
    using N = LayoutInteger<I>;
    I rank(0);
    for (size_t i = 0; i < 3; ++i)
      if (!axes[i] && extents[i] > 1) rank = N::add(rank, N::multiply(at[i], I(rank_step(i))));
    return rank;
  }
  template <class I>
  I place(const std::array<I, 3>& at) const {
    using N = LayoutInteger<I>;
    I place(0);
    int before = 1;
    for (size_t i = 0; i < 3; ++i)
      if (axes[i] && extents[i] > 1) {
        place = N::add(place, N::multiply(at[i], I(before)));
        before *= extents[i];
      }
    return place;
  }
};

}  // namespace ptxbuilder
