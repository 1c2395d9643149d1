// Examines a tensor map: the rules that it violates, the nearest legal map, and the layout of its box in
// shared memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor_map.h"

namespace ptxbuilder::command {

// A map in the words of the command line; lists are innermost first.
struct TmaWords {
  std::string dtype;
  std::vector<uint64_t> shape, strides;  // in elements; in bytes, for dimensions 1 and up, empty if there are
                                         // no gaps
  std::vector<uint32_t> box, element_strides;
  std::string swizzle = "none", interleave = "none";
};

struct TmaReport {
  runtime::TensorMapArguments map;
  std::vector<runtime::TensorMapBreach> breaches;      // in the order in which the nearest map corrects them
  std::optional<runtime::TensorMapArguments> nearest;  // the map itself if it is legal

  // Returns the map whose box can be shown: the nearest legal map, if there is one.
  const runtime::TensorMapArguments* shown() const { return nearest ? &*nearest : nullptr; }
};

// Examines a map. Throws Error that lists the legal words if a word is not a type, swizzle or interleave.
TmaReport examine(const TmaWords& words);

// Returns the bytes of a box in shared memory, which a load adds to its mbarrier.
uint64_t box_bytes(const TensorMapRecipe& recipe);

// 128 bytes of shared memory at a multiple of 128: for each 16-byte chunk of memory, the number of the box's
// chunk that is there, counted in the order of the box, or -1 after its end.
struct SwizzledRow {
  uint32_t offset;
  std::vector<int> chunks;
};
// Returns the first eight rows, after which a swizzle repeats; fewer for a small box.
std::vector<SwizzledRow> swizzled_rows(const TensorMapRecipe& recipe);

// Returns these rows as text, where each chunk is ROW:CHUNK of the box, and the memory that the box takes.
std::string drawing(const runtime::TensorMapArguments& map);

}  // namespace ptxbuilder::command
