// Checks the rules of tensor maps one by one, since the driver reports every violation with the same code.
#pragma once

#include <optional>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// One rule that a map breaks.
struct TensorMapBreach {
  std::string member;             // of TensorMapArguments or its recipe: "box", "strides", "swizzle"
  int index = -1;                 // in the member; -1 for the whole member
  std::vector<uint64_t> nearest;  // legal values to put there, the best first; also of enumerations
  std::string text;               // the rule, the numbers and the nearest legal value
};

// Returns the first broken rule, if any. The rules are those of cuTensorMapEncodeTiled and
// cuTensorMapEncodeIm2col (CUDA driver API, "Tensor Map Object Management") and two of our own, for values
// that the driver accepts but that few kernels intend: rows that overlap, unless the tensor `overlaps`, and
// an element stride of dimension 0, which TMA ignores.
std::optional<TensorMapBreach> breach(const TensorMapRecipe& recipe);  // what is known at compile time
std::optional<TensorMapBreach> breach(const TensorMapView& map);       // everything

// Returns the map with each illegal value replaced with the nearest legal one, or nullopt if a list has the
// wrong length. The breaches are appended to `breaches` one after the other.
std::optional<TensorMapArguments> nearest_legal(TensorMapArguments arguments,
                                                std::vector<TensorMapBreach>* breaches = nullptr);

// Throw Error with the text of the first rule broken.
void check(const TensorMapRecipe& recipe);
void check(const TensorMapView& map);
void check_placed(const TensorMapView& map);   // whose recipe has passed check()
void check_address(const TensorMapView& map);  // which has passed except for the address

// Returns the bytes from the tensor's address to the end of its last element; 2^64 - 1 if the number does not
// fit.
uint64_t extent_bytes(const TensorMapView& map);

// Returns the byte strides of dimensions 1 to rank - 1 of a tensor without gaps, followed by zeros; `shape`
// has rank 1 to 5 and begins with the innermost dimension. A stride over 2^40, which no map can hold, is
// returned as 2^40.
std::array<uint64_t, 4> packed_strides(DType dtype, std::span<const uint64_t> shape);

// Corrects a map as NVIDIA's driver release notes ask (595.71.05, "Known Issues"): on Blackwell the driver
// sets bit 85 wrongly for tensors in less than 128 KB of memory that are not dense. A map for any other GPU
// is left as it is.
void correct_small_map(TensorMap& encoded, const TensorMapView& map, int compute_capability);

}  // namespace ptxbuilder::runtime
