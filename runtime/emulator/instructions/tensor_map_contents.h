// Declares what the emulator keeps in the 128 bytes of a tensor map, and the walk over a box.
#pragma once

#include <functional>
#include <span>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

struct MapContents {
  uint32_t magic = 0;  // distinguishes a map of this emulator from other bytes
  uint8_t rank = 0;
  DType dtype = DType::u8;
  Swizzle swizzle = Swizzle::none;
  OobFill fill = OobFill::zero;
  Address address = 0;
  uint64_t shape[5] = {};    // elements
  uint64_t strides[4] = {};  // bytes, of dimensions 1 to 4
  uint16_t box[5] = {};      // the channels of a pixel, and ones, for im2col
  uint8_t element_strides[5] = {};
  bool im2col = false;
  int16_t lower[3] = {}, upper[3] = {};  // of im2col: corners of the box of pixels, of dimensions 1 and up
  uint16_t pixels = 0;                   // of im2col

  uint32_t element_bytes() const { return static_cast<uint32_t>(size_of(dtype)); }
  // Elements of the box in shared memory along dimension d.
  uint32_t extent(int d) const { return (box[d] + element_strides[d] - 1u) / element_strides[d]; }
  uint32_t box_bytes() const;
  Type type() const;  // of the elements, for reducing copies
  // Returns whether coordinates reach beyond the memory that a kernel means: two dimensions have one stride,
  // as rows that end at a coordinate in Triton's ragged tensors, or one leads past all memory, to tensors
  // that are anywhere. Then each copied row is compared with the memory, instead of the whole map.
  bool slides() const;
};

// Encodes a map that runtime/tensor_map.h does not reject. Throws Error for interleaved maps.
TensorMap encode_map(const TensorMapView& map);

// Returns the contents of 128 bytes; magic is not `map_magic` if they are not a map.
MapContents map_contents(const std::byte* bytes);
// Returns what is wrong with contents that an encoded map never has, but a kernel may have written byte by
// byte; empty if a copy can run. The other rules are those of breach().
std::string unsound(const MapContents& map);
inline constexpr uint32_t map_magic = 0x70746d31;

// One row of a box: `bytes` of shared memory from `linear` on, before swizzling; of them, those of elements
// [first, last) are in the tensor, the first at `address`.
struct BoxRow {
  uint32_t linear, bytes;
  uint32_t first, last;
  Address address;
};
void for_each_row(const MapContents& map, std::span<const int32_t> coordinates,
                  const std::function<void(const BoxRow&)>& row);
// Walks over a column of pixels: the coordinates are those of the first pixel, and each pixel is read at the
// given offsets from them.
void for_each_pixel(const MapContents& map, std::array<int32_t, 5> coordinates,
                    std::span<const uint16_t> offsets, const std::function<void(const BoxRow&)>& row);

// fence.proxy.tensormap.
void decode_map_fence(Decode& d);
// Reports the use of a tensor map that this launch has changed and the warp has not acquired since, and of a
// map that the changes have made illegal.
void check_changed_map(Warp& w, uint64_t address, const MapContents& map, int lane);

// Returns the place of the byte at shared address `address` under Swizzle<B, 4, 3>: bits 4.. ^= bits 7...
inline uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t mask = (1u << static_cast<int>(swizzle)) - 1;  // none 0, 32 B 1, 64 B 3, 128 B 7
  return address ^ (((address >> 7) & mask) << 4);
}

}  // namespace ptxbuilder::runtime::emulator
