// The modes of tensors that make up the rows, the columns, the depth and the batches of a product.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// A mode, with its stride in each of the tensors A, B and D. Strides are in elements, and 0 in tensors
// without the mode.
struct ProductMode {
  int64_t extent = 1;
  int64_t a = 0, b = 0, d = 0;
};

// The modes of one axis of a product. The first mode varies fastest. An axis without modes has one element.
class ModeList {
 public:
  static constexpr size_t kMost = 3;

  // Appends a mode. Throws std::out_of_range if there already are kMost modes.
  void add(const ProductMode& mode) { all_.at(count_++) = mode; }
  size_t size() const { return count_; }
  const ProductMode& operator[](size_t i) const { return all_.at(i); }
  const ProductMode* begin() const { return all_.data(); }
  const ProductMode* end() const { return all_.data() + count_; }
  int64_t extent() const {
    int64_t all = 1;
    for (const ProductMode& mode : *this) all *= mode.extent;
    return all;
  }

 private:
  std::array<ProductMode, kMost> all_ = {};
  size_t count_ = 0;
};

// Windows that move over the pixels of images. A window is a two-dimensional grid of taps. For each tap, the
// window contains the channels of one pixel; they are zeros if the pixel is outside its image.
struct PixelWindows {
  // The pixels, windows and taps along one dimension.
  struct Along {
    int64_t extent = 1, stride = 0;  // pixels per image; elements from one pixel to the next
    int64_t count = 1, first = 0;    // windows per image; pixel at which the first window begins
    int64_t step = 1;                // pixels from one window to the next
    int64_t taps = 1, spread = 1;    // taps per window; pixels from one tap to the next
    bool turned = false;             // true: taps are numbered backwards, so tap 0 is at the window's end
    bool operator==(const Along&) const = default;
  };
  Along w, h;  // the inner and the outer dimension
  // If pixels overlap in memory, the channels of a pixel may include channels of the pixels after it.
  int64_t channels = 1, images = 1, image_stride = 0;

  int64_t all() const { return w.count * h.count * images; }
};

// Describes D[batch, m, n] = sum_k A[batch, m, k] B[batch, n, k], where batch, m, n and k are lists of modes.
// A tile has m_box elements along the first mode of m and continues along the second; if m_box is 0, the tile
// extends along the first mode only. n_box applies likewise to tiles along n, and k_box to stages along k.
// Elements beyond a mode's end are read as zeros and not stored. The mode with stride 1 comes first in its
// list: in A this is a mode of k (of m if A is not k-major), in B of k (of n if B is not k-major), and in D
// of n. One operand may consist of windows. If it is A, m is a single mode that numbers the windows, and k
// has three modes: the channels, the taps along w and the taps along h. If it is B, which then must not be
// k-major, the windows are numbered along k, and n has these three modes. The strides of the three modes are
// those in the other two tensors.
struct ProductModes {
  ModeList m, n, k, batch;
  int m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows_of = WindowsOf::none;
  PixelWindows windows = {};
  // Identifies the modes. Two ProductModes with the same nonzero number must be equal, so that calls with
  // them are prepared only once. The number 0 identifies nothing.
  uint64_t number = 0;
};

// Returns the number of tiles of `length` elements along an axis with these modes. A tile has `box` elements
// along the first mode, or all of them if `box` is 0.
int64_t tiles_along(const ModeList& modes, int box, int length);

}  // namespace ptxbuilder::kernels
