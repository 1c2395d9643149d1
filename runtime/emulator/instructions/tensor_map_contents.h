// Defines the emulator's contents of the 128 bytes of a tensor map, and iterates over the rows of a box.
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
  uint64_t shape[5] = {};    // in elements
  uint64_t strides[4] = {};  // in bytes, for dimensions 1 to 4
  uint16_t box[5] = {};      // for im2col, the channels of a pixel followed by ones
  uint8_t element_strides[5] = {};
  bool im2col = false;
  int16_t lower[3] = {}, upper[3] = {};  // for im2col, corners of the box of pixels, from dimension 1 up
  uint16_t pixels = 0;                   // for im2col

  uint32_t element_bytes() const { return static_cast<uint32_t>(size_of(dtype)); }
  // Returns the number of elements of the box in shared memory along dimension d.
  uint32_t extent(int d) const { return (box[d] + element_strides[d] - 1u) / element_strides[d]; }
  uint32_t box_bytes() const;
  Type type() const;  // type of the elements, for reducing copies
  // Returns whether coordinates may reach beyond the memory that a kernel intends to access. That is the case
  // if two dimensions have the same stride, like the rows in Triton's ragged tensors, which end at a
  // coordinate. It is also the case if a dimension extends past all memory, so that a coordinate selects a
  // tensor anywhere in memory. Each copied row is then compared with the memory, instead of the whole map.
  bool slides() const;
};

// Encodes a map that runtime/tensor_map.h accepts. Throws an Error for interleaved maps.
TensorMap encode_map(const TensorMapView& map);

// Returns the contents of 128 bytes. `magic` is not `map_magic` if the bytes are not a map.
MapContents map_contents(const std::byte* bytes);
// Describes a violation of rules that every encoded map obeys, but a map that a kernel has written byte by
// byte may violate. Returns an empty string if a copy can run. breach() checks the other rules.
std::string unsound(const MapContents& map);
inline constexpr uint32_t map_magic = 0x70746d31;

// One row of a box: `bytes` bytes of shared memory starting at `linear`, before swizzling. Elements [first,
// last) of the row are in the tensor; element `first` is at `address`.
struct BoxRow {
  uint32_t linear, bytes;
  uint32_t first, last;
  Address address;
};
void for_each_row(const MapContents& map, std::span<const int32_t> coordinates,
                  const std::function<void(const BoxRow&)>& row);
// Calls `row` for each pixel of a column of pixels. `coordinates` are those of the first pixel. Each pixel is
// read at the given offsets from its coordinates.
void for_each_pixel(const MapContents& map, std::array<int32_t, 5> coordinates,
                    std::span<const uint16_t> offsets, const std::function<void(const BoxRow&)>& row);

// Decodes fence.proxy.tensormap.
void decode_map_fence(Decode& d);
// Reports the use of a tensor map that this launch has changed if the warp has not acquired the change, or if
// the changes have made the map illegal.
void check_changed_map(Warp& w, uint64_t address, const MapContents& map, int lane);

// Returns the address at which Swizzle<B, 4, 3> stores the byte of an unswizzled address: bits 4 and up are
// combined with bits 7 and up by exclusive or.
inline uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t mask = (1u << static_cast<int>(swizzle)) - 1;  // none: 0, 32 B: 1, 64 B: 3, 128 B: 7
  return address ^ (((address >> 7) & mask) << 4);
}

}  // namespace ptxbuilder::runtime::emulator
