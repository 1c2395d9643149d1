// Checks the rules for tensor maps one by one, because the driver reports every violation with the same code.
#pragma once

#include <optional>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// A rule that a map violates.
struct TensorMapBreach {
  std::string member;             // member of TensorMapArguments or its recipe: "box", "strides", "swizzle"
  int index = -1;                 // index in the member; -1 for the whole member
  std::vector<uint64_t> nearest;  // legal values, the best first; enumerators as numbers
  std::string text;               // the rule, the numbers and the nearest legal value
};

// Return the first rule that is violated, if any. The rules are those of cuTensorMapEncodeTiled and
// cuTensorMapEncodeIm2col (CUDA driver API, "Tensor Map Object Management"). Two additional rules are for
// values that the driver accepts but that few kernels intend: rows that overlap, unless the tensor
// `overlaps`, and an element stride of dimension 0, which TMA ignores.
std::optional<TensorMapBreach> breach(const TensorMapRecipe& recipe);  // rules known at compile time
std::optional<TensorMapBreach> breach(const TensorMapView& map);       // all rules

// Returns the map with each illegal value replaced by the nearest legal value, or nothing if a list has the
// wrong length. Appends each breach that was found to `breaches`.
std::optional<TensorMapArguments> nearest_legal(TensorMapArguments arguments,
                                                std::vector<TensorMapBreach>* breaches = nullptr);

// Throw an Error that describes the first rule that is violated.
void check(const TensorMapRecipe& recipe);
void check(const TensorMapView& map);
void check_placed(const TensorMapView& map);   // the map's recipe must have passed check()
void check_address(const TensorMapView& map);  // everything except the address must have passed check()

// Returns the number of bytes from the tensor's address to the end of its last element, or 2^64 - 1 if the
// number does not fit in 64 bits.
uint64_t extent_bytes(const TensorMapView& map);

// Returns the strides of dimensions 1 to rank - 1 of a tensor without gaps, in bytes, followed by zeros.
// `shape` has rank 1 to 5 and begins with the innermost dimension. A stride above 2^40, which no map can
// hold, is returned as 2^40.
std::array<uint64_t, 4> packed_strides(DType dtype, std::span<const uint64_t> shape);

// Corrects a map as NVIDIA's driver release notes require (595.71.05, "Known Issues"): on Blackwell, the
// driver sets bit 85 incorrectly for tensors that occupy less than 128 KB of memory and are not dense. Maps
// for other GPUs are not changed.
void correct_small_map(TensorMap& encoded, const TensorMapView& map, int compute_capability);

}  // namespace ptxbuilder::runtime
