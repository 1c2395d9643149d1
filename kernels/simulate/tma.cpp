#include "kernels/simulate/tma.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder::command {
namespace {

constexpr uint32_t kChunk = 16, kRow = 128, kRows = 8;  // bytes of a chunk, bytes of a row, and rows of a
                                                        // swizzle's pattern

template <class Enum>
Enum named(const char* option, const std::string& word, int count) {
  std::string known;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name(value) == word) return value;
    known += fmt::format("{}{}", i ? ", " : "", name(value));
  }
  throw Error(fmt::format("--{} {}: it must be one of {}", option, word, known));
}

// Returns the number of elements of the box that are loaded along dimension d.
uint32_t extent(const TensorMapRecipe& r, size_t d) {
  return (r.box[d] + r.element_strides[d] - 1) / r.element_strides[d];
}

// Returns the number of contiguous bytes in shared memory, which is a row of the box, or 16 or 32 bytes if
// the box is interleaved.
uint32_t inner_bytes(const TensorMapRecipe& r) {
  if (r.interleave != Interleave::none) return r.interleave == Interleave::b16 ? 16 : 32;
  return r.box[0] * static_cast<uint32_t>(size_of(r.dtype));
}

}  // namespace

TmaReport examine(const TmaWords& words) {
  TmaReport report;
  runtime::TensorMapArguments& map = report.map;
  auto type = dtype_from_name(words.dtype);
  if (!type) named<DType>("dtype", words.dtype, static_cast<int>(DType::f64) + 1);  // throws Error
  map.recipe.dtype = *type;
  map.recipe.swizzle = named<Swizzle>("swizzle", words.swizzle, 4);
  map.recipe.interleave = named<Interleave>("interleave", words.interleave, 3);
  map.recipe.box = words.box;
  map.recipe.element_strides = words.element_strides;
  if (words.element_strides.empty()) map.recipe.element_strides.assign(words.box.size(), 1);
  map.shape = words.shape;
  map.strides = words.strides;
  if (words.strides.empty() && words.shape.size() >= 1 && words.shape.size() <= 5) {
    const auto packed = runtime::packed_strides(*type, words.shape);
    map.strides.assign(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(words.shape.size() - 1));
  }
  report.nearest = runtime::nearest_legal(map, &report.breaches);
  return report;
}

uint64_t box_bytes(const TensorMapRecipe& r) {
  uint64_t bytes = static_cast<uint64_t>(size_of(r.dtype));
  for (size_t d = 0; d < r.box.size(); ++d) bytes *= extent(r, d);
  return bytes;
}

std::vector<SwizzledRow> swizzled_rows(const TensorMapRecipe& r) {
  const uint64_t chunks = (box_bytes(r) + kChunk - 1) / kChunk, per_row = kRow / kChunk;
  const uint32_t mask = (1u << static_cast<int>(r.swizzle)) - 1;  // 0 for none, 1 for 32 B, 3 for 64 B, 7 for
                                                                  // 128 B
  std::vector<SwizzledRow> rows;
  for (uint32_t row = 0; row < kRows && row * per_row < chunks; ++row) {
    SwizzledRow& now = rows.emplace_back(SwizzledRow{row * kRow, {}});
    for (uint32_t place = 0; place < per_row; ++place) {
      const uint64_t chunk = row * per_row + (place ^ (row & mask));
      now.chunks.push_back(chunk < chunks ? static_cast<int>(chunk) : -1);
    }
  }
  return rows;
}

std::string drawing(const runtime::TensorMapArguments& map) {
  const TensorMapRecipe& r = map.recipe;
  const uint32_t inner = inner_bytes(r), chunks_of_row = std::max(1u, inner / kChunk);
  std::string text = fmt::format(
      "box: {} B in shared memory, rows of {} B, at a multiple of {} B; tensor: {} B\n", box_bytes(r), inner,
      r.swizzle == Swizzle::none ? kRow : 8u * static_cast<uint32_t>(span_bytes(r.swizzle)),
      runtime::extent_bytes(map));
  text += "  byte  16-byte chunks, as row:chunk of the box\n";
  for (const SwizzledRow& row : swizzled_rows(r)) {
    text += fmt::format("{:6}", row.offset);
    for (int chunk : row.chunks) {
      const auto at = static_cast<uint32_t>(chunk);
      text += fmt::format(" {:>6}", chunk < 0 ? std::string("-")
                                              : fmt::format("{}:{}", at / chunks_of_row, at % chunks_of_row));
    }
    text += '\n';
  }
  return text;
}

}  // namespace ptxbuilder::command
