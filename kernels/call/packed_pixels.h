// Copies images whose pixels have few channels, for products that read several pixels of a line as one row.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// A copy in which pixels of 16-bit elements become pixels of `packed` elements, 4 or 8, where the elements
// after the channels are zeros. An image of the copy begins `above` lines and `before` pixels before the
// image, and has `packed_lines` lines of `packed_width` pixels; pixels outside the image are zeros.
// `together` lines become one, in which each pixel is followed by the pixels below it. Lines and images
// follow each other without gaps.
struct PackedPixels {
  int channels = 1, packed = 4;
  int64_t width = 1, lines = 1, images = 1;
  int64_t pixel = 0, line = 0, image = 0;  // elements from one pixel, line or image to the next
  int64_t before = 0, packed_width = 1, above = 0, packed_lines = 1;
  int together = 1;                  // a divisor of packed_lines
  runtime::View from = {}, to = {};  // `to` is at a multiple of 16

  int64_t pixels() const { return packed_width * packed_lines * images; }
  size_t bytes() const { return static_cast<size_t>(pixels() * packed) * 2; }
};

// Returns the kernel for these numbers of channels, packed elements and lines together. Its parameters are
// from and to (pointers); u32 width, lines, before, packed_width, above, packed_lines and pixels; u64 pixel,
// line and image. Any grid (g, 1, 1) may be used.
Kernel packed_pixels(int channels, int packed, int together);

// Loads a kernel when it is first needed, and stores it. Any thread may call it at any time.
class PixelPacker {
 public:
  PixelPacker(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Throws Error for 2^31 or more pixels.
  void operator()(const PackedPixels& copy, runtime::Stream stream);
  // Loads the kernel, because a capture could not wait for loading.
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
