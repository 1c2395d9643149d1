// Copies images that have few channels, for products that read several pixels of a line as one row.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// A copy of images that pads pixels of 16-bit elements to `packed` elements, 4 or 8; the elements after the
// channels are zeros. An image of the copy begins `above` lines and `before` pixels before the original
// image, and has `packed_lines` lines of `packed_width` pixels. Its pixels outside the original image are
// zeros. Every `together` lines are merged into one line, in which each pixel is followed by the pixels below
// it. Lines and images have no gaps between them.
struct PackedPixels {
  int channels = 1, packed = 4;
  int64_t width = 1, lines = 1, images = 1;
  int64_t pixel = 0, line = 0, image = 0;  // strides of the original: elements from one pixel, line or image
                                           // to the next
  int64_t before = 0, packed_width = 1, above = 0, packed_lines = 1;
  int together = 1;                  // a divisor of packed_lines
  runtime::View from = {}, to = {};  // the address of `to` is a multiple of 16

  int64_t pixels() const { return packed_width * packed_lines * images; }
  size_t bytes() const { return static_cast<size_t>(pixels() * packed) * 2; }
};

// Returns the kernel for copies with the given `channels`, `packed` and `together`. Its parameters are `from`
// and `to` (pointers); u32 width, lines, before, packed_width, above, packed_lines and pixels; u64 pixel,
// line and image. Any grid (g, 1, 1) may be used.
Kernel packed_pixels(int channels, int packed, int together);

// Copies images. Loads a kernel when it is first needed, and stores it. Any thread may call the functions at
// any time.
class PixelPacker {
 public:
  PixelPacker(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Throws Error if the copy has 2^31 or more pixels.
  void operator()(const PackedPixels& copy, runtime::Stream stream);
  // Loads the kernel, because it cannot be loaded during a capture.
  void prepare(const PackedPixels& copy) { kernel(copy); }

 private:
  runtime::LoadedKernel& kernel(const PackedPixels& copy);

  runtime::Device& device_;
  Compiler compiler_;
  int multiprocessors_;
  std::mutex mutex_;
  std::map<std::array<int, 3>, std::unique_ptr<runtime::LoadedKernel>> kernels_;
};

}  // namespace ptxbuilder::kernels
