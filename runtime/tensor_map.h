// The rules of tensor maps, checked one by one: the driver answers every breach with the same bare code.
#pragma once

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Throw Error that names the first rule broken, the numbers, and the nearest legal value. The rules are those
// of cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management") and two of our own, for values
// that the driver takes but no kernel means: rows that overlap, and an element stride of dimension 0, which
// TMA ignores.
void check(const TensorMapRecipe& recipe);        // what is known when the kernel is compiled
void check(const TensorMapArguments& arguments);  // everything

// Bytes from the tensor's address to behind its last element; 2^64 - 1 where that does not fit.
uint64_t extent_bytes(const TensorMapArguments& arguments);

// Byte strides of dimensions 1 to rank - 1 of a tensor without gaps, then zeros; `shape` has rank 1 to 5 and
// runs from the innermost dimension outwards. A stride over 2^40, which no map can hold, is given as 2^40.
std::array<uint64_t, 4> packed_strides(DType dtype, std::span<const uint64_t> shape);

// Corrects a map as NVIDIA's driver release notes ask (595.71.05, "Known Issues"): on Blackwell the driver
// sets bit 85 wrongly for tensors in less than 128 KB of memory that are not dense. A map for any other GPU
// is left as it is.
void correct_small_map(TensorMap& map, const TensorMapArguments& arguments, int compute_capability);

}  // namespace ptxbuilder::runtime
