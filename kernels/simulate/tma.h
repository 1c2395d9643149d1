// Examines a tensor map to find the rules that it violates, the nearest legal map, and the layout of its box
// in shared memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_map.h"

namespace ptxbuilder::command {

// A tensor map as the command line specifies it. Lists begin with the innermost dimension.
struct TmaWords {
  std::string dtype;
  std::vector<uint64_t> shape, strides;  // shape in elements; strides in bytes for dimensions 1 and up, empty
                                         // if there are no gaps
  std::vector<uint32_t> box, element_strides;
  std::string swizzle = "none", interleave = "none";
};

struct TmaReport {
  runtime::TensorMapArguments map;
  std::vector<runtime::TensorMapBreach> breaches;  // violated rules, in the order in which `nearest` corrects
                                                   // them
  std::optional<runtime::TensorMapArguments> nearest;  // equal to the map if the map is legal; empty if no
                                                       // legal map was found

  // Returns the map to draw, which is the nearest legal map; null if there is none.
  const runtime::TensorMapArguments* shown() const { return nearest ? &*nearest : nullptr; }
};

// Examines a map. If a word is not a type, a swizzle or an interleave, throws an Error that lists the legal
// words.
TmaReport examine(const TmaWords& words);

// Returns the size of a box in shared memory, in bytes. A load completes this number of bytes on its
// mbarrier.
uint64_t box_bytes(const TensorMapRecipe& recipe);

// A row of shared memory: 128 bytes at a multiple of 128. For each 16-byte chunk of the row, it holds the
// number of the box's chunk that is stored there, or -1 after the end of the box. The box's chunks are
// numbered in the order of its elements.
struct SwizzledRow {
  uint32_t offset;
  std::vector<int> chunks;
};
// Returns the first eight rows, since a swizzle repeats after eight rows; returns fewer if the box is small.
std::vector<SwizzledRow> swizzled_rows(const TensorMapRecipe& recipe);

// Returns a drawing of the result of swizzled_rows(), in which each chunk is labeled ROW:CHUNK of the box,
// and the size of the box in memory.
std::string drawing(const runtime::TensorMapArguments& map);

}  // namespace ptxbuilder::command
