// Examines a tensor map: the rules that it violates, the nearest legal map, and how its box is laid out in
// shared memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_map.h"

namespace ptxbuilder::command {

// The words are those of the command line; lists run from the innermost dimension outwards.
struct TmaWords {
  std::string dtype;
  std::vector<uint64_t> shape, strides;  // elements; bytes of dimensions 1 and up, empty for no gaps
  std::vector<uint32_t> box, element_strides;
  std::string swizzle = "none", interleave = "none";
};

struct TmaReport {
  runtime::TensorMapArguments map;
  std::vector<runtime::TensorMapBreach> breaches;      // in the order in which the nearest map corrects them
  std::optional<runtime::TensorMapArguments> nearest;  // the map itself if it is legal

  // The map whose box can be shown: the nearest legal one, if any.
  const runtime::TensorMapArguments* shown() const { return nearest ? &*nearest : nullptr; }
};

// Throws Error that lists the legal words if one is not a type, swizzle or interleave.
TmaReport examine(const TmaWords& words);

// Returns the bytes of a box in shared memory, which a load adds to its mbarrier.
uint64_t box_bytes(const TensorMapRecipe& recipe);

// 128 bytes of shared memory at a multiple of 128: the number of the box's 16-byte chunk in each place,
// counted in the order of the box, or -1 after its end.
struct SwizzledRow {
  uint32_t offset;
  std::vector<int> chunks;
};
// Returns the first eight rows, after which a swizzle repeats; fewer for a small box.
std::vector<SwizzledRow> swizzled_rows(const TensorMapRecipe& recipe);

// Returns these rows as text, each chunk as ROW:CHUNK of the box, with the memory that the box takes.
std::string drawing(const runtime::TensorMapArguments& map);

}  // namespace ptxbuilder::command
