// The rules of tensor maps, checked one by one: the driver answers every breach with the same bare code.
#pragma once

#include <optional>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// One rule that a map breaks.
struct TensorMapBreach {
  std::string member;             // of TensorMapArguments or its recipe: "box", "strides", "swizzle"
  int index = -1;                 // in it; -1 for the whole
  std::vector<uint64_t> nearest;  // legal values to stand there instead, the best first; of enumerations too
  std::string text;               // the rule, the numbers and the nearest legal value
};

// The first rule broken, if any. The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col
// (CUDA driver API, "Tensor Map Object Management") and two of our own, for values that the driver takes but
// no kernel means: rows that overlap, and an element stride of dimension 0, which TMA ignores.
std::optional<TensorMapBreach> breach(const TensorMapRecipe& recipe);  // what is known at compile time
std::optional<TensorMapBreach> breach(const TensorMapView& map);       // everything

// The map with the nearest legal value in place of each that is not; nothing where a list has the wrong
// length. `breaches` gets what was broken, one after the other.
std::optional<TensorMapArguments> nearest_legal(TensorMapArguments arguments,
                                                std::vector<TensorMapBreach>* breaches = nullptr);

// Throw Error with the text of the first rule broken.
void check(const TensorMapRecipe& recipe);
void check(const TensorMapView& map);
void check_placed(const TensorMapView& map);   // whose recipe has passed
void check_address(const TensorMapView& map);  // which has passed but for the address

// Bytes from the tensor's address to the end of its last element; 2^64 - 1 where that does not fit.
uint64_t extent_bytes(const TensorMapView& map);

// Byte strides of dimensions 1 to rank - 1 of a tensor without gaps, then zeros; `shape` has rank 1 to 5 and
// runs from the innermost dimension outwards. A stride over 2^40, which no map can hold, is given as 2^40.
std::array<uint64_t, 4> packed_strides(DType dtype, std::span<const uint64_t> shape);

// Corrects a map as NVIDIA's driver release notes ask (595.71.05, "Known Issues"): on Blackwell the driver
// sets bit 85 wrongly for tensors in less than 128 KB of memory that are not dense. A map for any other GPU
// is left as it is.
void correct_small_map(TensorMap& encoded, const TensorMapView& map, int compute_capability);

}  // namespace ptxbuilder::runtime
