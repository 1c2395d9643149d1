// The modes of tensors that make up the rows, the columns and the depth of a product, and its batches.
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

// Windows that move over the pixels of images; each window has a number of taps along two dimensions. For
// each tap, a window contains the channels of one pixel, which are zeros if the pixel is outside its image.
struct PixelWindows {
  // These are the pixels and the windows along one dimension.
  struct Along {
    int64_t extent = 1, stride = 0;  // pixels of an image, and elements from one to the next
    int64_t count = 1, first = 0;    // windows of an image, and the pixel where the first begins
    int64_t step = 1;                // pixels from one window to the next
    int64_t taps = 1, spread = 1;    // taps of a window, and pixels from one tap to the next
    bool turned = false;             // tap 0 is the window's last tap
    bool operator==(const Along&) const = default;
  };
  Along w, h;  // the inner and the outer dimension
  // The channels of a pixel may include those of the next pixels if pixels overlap in memory.
  int64_t channels = 1, images = 1, image_stride = 0;

  int64_t all() const { return w.count * h.count * images; }
};

// D[batch, m, n] = sum_k A[batch, m, k] B[batch, n, k], where batch, m, n and k are each a list of modes. A
// tile has m_box elements along the first mode of m and extends along the second, or with m_box = 0 only
// along the first; likewise for n, and for a stage of k. Elements beyond a mode's end
// are read as zeros and not stored. The first mode of k, or of m if A is not k-major, has the stride 1 in A;
// of k or n in B; and of n in D.
//
// One operand may consist of windows: A, whose m is one mode of all windows, or a B that is not k-major,
// whose k is. The modes of k, or of n, are the channels, the taps along w and those along h, and their
// strides are those in the other two tensors.
struct ProductModes {
  ModeList m, n, k, batch;
  int m_box = 0, n_box = 0, k_box = 0;
  WindowsOf windows_of = WindowsOf::none;
  PixelWindows windows = {};
  // Calls whose modes have the same number have equal modes, and are prepared once; 0 guarantees nothing.
  uint64_t number = 0;
};

// Returns how many tiles of `length` elements an axis has.
int64_t tiles_along(const ModeList& modes, int box, int length);

}  // namespace ptxbuilder::kernels
