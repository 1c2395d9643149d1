// By which boxes TMA copies a tile, and which CTAs of a cluster share them. Emission evaluates both on device
// values, and the proof the same on host integers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ptxbuilder/layout/integer.h"

namespace ptxbuilder {

// Boxes of one size: where each lies in shared memory, and where it begins in the tensor. Both are sums over
// the digits of the box's number.
struct TmaBoxes {
  // A box lies `bytes` further, and begins `step` further along a dimension of the tensor map, which counts
  // from the innermost, for each 1 of the digit. A digit is below `count`.
  struct Digit {
    int count, dimension, step, bytes;
  };
  std::vector<Digit> digits;  // of the numbers 0, 1, 2, ...: the first is the fastest
  int rank = 1;               // dimensions of the tensor map
  int parts = 1;              // CTAs that fetch as many boxes each, one after the other; it divides count()

  int count() const {
    int all = 1;
    for (const Digit& digit : digits) all *= digit.count;
    return all;
  }
  int boxes_of_part() const { return count() / parts; }

  // From the first byte of the tile, and from the first coordinate of each dimension, innermost first.
  template <class I>
  struct Box {
    I bytes;
    std::vector<I> start;
  };
  // The i-th box of a part.
  template <class I>
  Box<I> box(const I& part, int i) const {
    using N = LayoutInteger<I>;
    Box<I> box{I(0), std::vector<I>(static_cast<size_t>(rank), I(0))};
    auto move = [&](const Digit& digit, const I& by) {
      I& start = box.start[static_cast<size_t>(digit.dimension)];
      start = N::add(start, N::multiply(by, I(digit.step)));
      box.bytes = N::add(box.bytes, N::multiply(by, I(digit.bytes)));
    };
    // Digits that run through all their values within a part are known; the others are those of the rest.
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

// The CTAs of a cluster that share a load: a group are those that differ along some axes alone. The CTA at
// (x, y, z) has rank x + extents[0] (y + extents[1] z).
struct MulticastGroups {
  std::array<int, 3> extents = {1, 1, 1};  // of the cluster
  std::array<bool, 3> axes = {};           // x, y, z
  // The ranks of the CTAs in the group of rank 0, a bit for each. Others have the same, shifted by the rank
  // of their first CTA.
  uint32_t first_mask = 1;

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

  int count() const {  // CTAs of a group
    int all = 1;
    for (size_t i = 0; i < 3; ++i)
      if (axes[i]) all *= extents[i];
    return all;
  }
  // From the rank of a CTA to the next along an axis.
  int rank_step(size_t axis) const {
    int step = 1;
    for (size_t i = 0; i < axis; ++i) step *= extents[i];
    return step;
  }
  // Of the CTA at (x, y, z): the rank of its group's first, and its own place there, the first axis
  // innermost.
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
