// The same elements in another register layout.
#include <fmt/format.h>

#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/place.h"

namespace ptxbuilder::detail {
namespace {

// The values of `to` as values of `from`, where every thread already holds what it needs.
std::optional<std::vector<int>> within_threads(const RegisterLayout& from, const RegisterLayout& to) {
  for (int t = 0; t < RegisterLayout::kThreads; ++t)
    if (from.of_thread(t) != to.of_thread(t)) return std::nullopt;
  std::vector<int> sources;
  for (int v = 0; v < to.values(); ++v) {
    int source = 0;
    while (source < from.values() && from.of_value(source) != to.of_value(v)) ++source;
    if (source == from.values()) return std::nullopt;
    sources.push_back(source);
  }
  return sources;
}

bool is_a_of_8_bits(const RegisterLayout& from, const RegisterLayout& to, std::optional<DType> dtype) {
  return per_word(dtype) == 4 && to.rows() == 64 && to.cols() % 32 == 0 && to == wgmma_8bit(to.cols()) &&
         from == wgmma_layout(64, to.cols());
}

// A register of an accumulator's layout has two columns of a row and of the row 8 below; the fragment wants
// four of a row. Lanes 0 and 1 of four hold what lane 0 wants of the first 8 of 16 columns and lane 2 of the
// second, lanes 2 and 3 the others'.
std::vector<Value> fragment_of_bytes(const std::vector<Value>& words) {
  u32 lane = tid_x() & 31, source = (lane & 28) + (lane & 1) * 2, shift = ((lane >> 1) & 1) * 16;
  std::vector<Value> moved;
  for (size_t c = 0; c < words.size(); c += 2) {
    u32 first(words[c].handle()), second(words[c + 1].handle());
    for (u32 row : {second << 16 | (first & 0xffff), (second & 0xffff0000u) | first >> 16}) {
      u32 low = shfl_sync_idx(row, source) >> shift, high = shfl_sync_idx(row, source + 1) >> shift;
      moved.push_back(high << 16 | (low & 0xffff));
    }
  }
  return moved;
}

// Through rows in shared memory that are 16 bytes longer than needed, so that they begin in different banks.
TileValues through_memory(const TileValues& x, const RegisterLayout& layout) {
  int bytes = size_of(*x.dtype), row = (layout.cols() * bytes + 15) / 16 * 16 + (layout.rows() > 1 ? 16 : 0);
  smem space = scratch(layout.rows() * row);
  ComposedLayout rows{byte_swizzle(Swizzle::none), 0,
                      make_layout({layout.rows(), layout.cols()}, {row / bytes, 1})};
  sync_warpgroup();
  store_shared(space, rows, x);
  sync_warpgroup();
  return load_shared(space, rows, *x.dtype, layout);
}

}  // namespace

TileValues tile_layout_cast(const TileValues& x, const RegisterLayout& layout) {
  if (x.layout == layout) return x;
  auto refuse = [&](const char* why) {
    throw Error(fmt::format("layout_cast: from {} to {}: {}", x.layout.describe(), layout.describe(), why));
  };
  if (!(x.layout.extent() == layout.extent())) refuse("their extents differ");
  if (layout.is_splat()) refuse("a splat is one value, and the tile may hold many");
  int per = per_word(x.dtype);
  if (x.layout.is_splat())
    return {x.dtype, layout,
            std::vector<Value>(static_cast<size_t>((layout.values() + per - 1) / per), x.words[0])};
  if (auto sources = within_threads(x.layout, layout)) {
    std::vector<Value> elements = elements_of(x), chosen;
    for (int source : *sources) chosen.push_back(elements[static_cast<size_t>(source)]);
    return from_elements(x.dtype, layout, chosen);
  }
  if (is_a_of_8_bits(x.layout, layout, x.dtype)) return {x.dtype, layout, fragment_of_bytes(x.words)};
  return through_memory(x, layout);
}

}  // namespace ptxbuilder::detail
