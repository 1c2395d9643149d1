// The modes of tensors that make up the rows, the columns, the depth and the batches of a product.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// A mode has a stride, in elements, in each tensor that contains the mode, and 0 in the others.
struct ProductMode {
  int64_t extent = 1;
  int64_t a = 0, b = 0, d = 0;
};

// The modes of an axis of the product; the first varies fastest. An axis without modes has one element.
class ModeList {
 public:
  static constexpr size_t kMost = 3;

  // Appends a mode. Throws std::out_of_range beyond kMost.
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

// Windows that move over the pixels of images. Each window has a number of taps along two dimensions. For
// each tap, the window contains the channels of one pixel, which are zeros if the pixel is outside its image.
struct PixelWindows {
  // The pixels and the windows along one dimension.
  struct Along {
    int64_t extent = 1, stride = 0;  // pixels of an image; elements from one pixel to the next
    int64_t count = 1, first = 0;    // windows of an image; the pixel where the first window begins
    int64_t step = 1;                // pixels from one window to the next
    int64_t taps = 1, spread = 1;    // taps of a window; pixels from one tap to the next
    bool turned = false;             // whether tap 0 is the window's last tap
    bool operator==(const Along&) const = default;
  };
  Along w, h;  // the inner and the outer dimension
  // The channels of a pixel may include those of the next pixels if pixels overlap in memory.
  int64_t channels = 1, images = 1, image_stride = 0;

  int64_t all() const { return w.count * h.count * images; }
};

// D[batch, m, n] = sum_k A[batch, m, k] B[batch, n, k], where batch, m, n and k are each a list of modes. A
// tile has m_box elements along the first mode of m and extends along the second; with m_box = 0 it extends
// along the first only. The same holds for n, and for a stage along k. Elements beyond a mode's end are read
// as zeros and not stored. The mode with stride 1 comes first: in A it belongs to k, or to m if A is not
// k-major; in B to k or n; in D to n. One operand may consist of windows: A, where m is one mode of all
// windows, or a B that is not k-major, where k is that mode. The modes of k, or of n, are then the channels,
// the taps along w and the taps along h, and their strides are those in the other two tensors.
struct ProductModes {
  ModeList m, n, k, batch;
  int m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows_of = WindowsOf::none;
  PixelWindows windows = {};
  // Calls whose modes have the same nonzero number have equal modes, and are prepared only once. The number 0
  // guarantees nothing.
  uint64_t number = 0;
};

// Returns how many tiles of `length` elements there are along an axis.
int64_t tiles_along(const ModeList& modes, int box, int length);

}  // namespace ptxbuilder::kernels
