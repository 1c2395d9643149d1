#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/plan/tiled_copy.h"
#include "ptxbuilder/tile/block_spec.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {
namespace {

constexpr int kUnit = 16;  // TMA copies multiples of this number of bytes

std::string block_text(const BlockSpec& spec) {
  std::string extents;
  for (int extent : spec.shape().extents()) extents += (extents.empty() ? "" : "x") + std::to_string(extent);
  return fmt::format("a block of {} {}", extents, name(spec.dtype()));
}

// Returns the widest swizzle whose span divides a row, and which leaves no gaps between stages or between the
// panels of a row.
Swizzle swizzle_for(int row_bytes, int rows) {
  constexpr int kRows = 8;  // number of rows after which a swizzle repeats
  for (Swizzle swizzle : {Swizzle::b128, Swizzle::b64, Swizzle::b32}) {
    const int span = span_bytes(swizzle);
    if (row_bytes % span == 0 && int64_t{rows} * row_bytes % (kRows * span) == 0 &&
        (row_bytes == span || rows * span % hopper::tensor_shared_alignment == 0))
      return swizzle;
  }
  return Swizzle::none;
}

// Returns the shared tile for a block. Throws Error for a block that cannot be copied.
SharedTile tile_of(Kernel& kernel, const BlockSpec& spec, int stages, const std::string& name) {
  const std::vector<int>& extents = spec.shape().extents();
  const auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("{}: {}: {}", name, block_text(spec), rule));
  };
  if (!spec.index()) refuse("it has no index map");
  if (extents.empty() || extents.size() > 5) refuse("a block must have 1 to 5 dimensions");
  if (*std::min_element(extents.begin(), extents.end()) < 1) refuse("each extent must be at least 1");
  for (size_t i = 0; i + 2 < extents.size(); ++i)
    if (extents[i] != 1)
      refuse(
          fmt::format("the extent of dimension {} is {}, but must be 1 in all dimensions except the last two",
                      i, extents[i]));
  const int row_bytes = spec.shape().cols() * size_of(spec.dtype());
  if (!spec.by_threads() && row_bytes % kUnit != 0)
    refuse(
        fmt::format("its rows have {} B, but TMA copies multiples of {} B; pass a GlobalTensor instead, so "
                    "that threads copy the blocks",
                    row_bytes, kUnit));
  if (spec.by_threads() && extents.size() > 2) refuse("threads can only copy blocks of 1 or 2 dimensions");
  if (spec.by_threads() && !spec.options().multicast.empty())
    refuse("CTAs can only share blocks that TMA loads, not blocks that threads copy");
  if (spec.by_threads() && spec.options().fill != OobFill::zero)
    refuse("copies by threads can only fill elements outside of the tensor with zeros");
  const Swizzle swizzle = spec.options().swizzle.value_or(
      spec.shape().panel_cols() > 0 ? Swizzle::none : swizzle_for(row_bytes, spec.shape().rows()));
  const int64_t bytes = int64_t{stages} * spec.shape().rows() * row_bytes;
  if (bytes > hopper::shared_bytes)
    refuse(fmt::format("its {} stages need {} B of shared memory, but there are {}", stages, bytes,
                       hopper::shared_bytes));
  const int stage_bytes = spec.shape().rows() * row_bytes;
  if (stages > 1 && stage_bytes % hopper::tensor_shared_alignment != 0)
    refuse(
        fmt::format("one stage has {} B, but must have a multiple of {} B: use more rows or columns; those "
                    "outside of the tensor are filled",
                    stage_bytes, hopper::tensor_shared_alignment));
  const TileShape shape{spec.shape().rows(), spec.shape().cols(), spec.shape().panel_cols()};
  if (row_bytes % kUnit != 0)
    return SharedTile::for_threads(kernel.builder(), spec.dtype(), shape, stages, name);
  return kernel.shared(spec.dtype(), shape, swizzle, stages, name);
}

}  // namespace

detail::BlockCopy::BlockCopy(Kernel& kernel, BlockSpec spec, int stages, int threads, std::string name)
    : kernel_(kernel),
      spec_(std::move(spec)),
      threads_(threads),
      name_(std::move(name)),
      tile_(tile_of(kernel, spec_, stages, name_)) {}

std::vector<u32> detail::BlockCopy::begin(const GridIndex& at) const {
  const std::vector<int>& extents = spec_.shape().extents();
  const GridIndex seen =
      spec_.options().fixed
          ? at.alone(name_ +
                     " is a fixed block, the same in all steps, so its map only gets the tile's index")
          : at;
  BlockIndex block;
  {
    AuthorsCode authors;
    block = spec_.index()(seen);
  }
  if (block.size() != extents.size())
    throw Error(fmt::format("{}: {}: its index map returns {} numbers, but the block has {} dimensions",
                            name_, block_text(spec_), block.size(), extents.size()));
  for (size_t i = 0; i < extents.size(); ++i)
    if (extents[i] != 1) block[i] = block[i] * u32(extents[i]);
  return block;
}

void detail::BlockCopy::load(const TileView& to, const GridIndex& at, u32 thread) const {
  if (spec_.by_threads()) {
    const GlobalTile from = global(at);
    return by_threads(from, to, thread, true, [&](const TiledCopy& copy) {
      if (copy.atom().kind() == CopyAtom::Kind::cp_async)
        load_async(copy, to, from, thread);
      else
        ptxbuilder::store(copy, to, thread, ptxbuilder::load(copy, from, thread));
    });
  }
  std::vector<u32> coordinates = begin(at);
  std::reverse(coordinates.begin(), coordinates.end());
  LoadView view(to);
  if (!spec_.options().multicast.empty()) view = view.multicast(spec_.options().multicast);
  if (spec_.options().fill != OobFill::zero) view = view.outside(spec_.options().fill);
  tma_load(view, spec_.tensor(), coordinates);
}

void detail::BlockCopy::store(const TileView& from, const GridIndex& at, u32 thread) const {
  if (spec_.by_threads()) {
    const GlobalTile to = global(at);
    return by_threads(to, from, thread, false, [&](const TiledCopy& copy) {
      ptxbuilder::store(copy, to, thread, ptxbuilder::load(copy, from, thread));
    });
  }
  std::vector<u32> coordinates = begin(at);
  std::reverse(coordinates.begin(), coordinates.end());
  tma_store(spec_.tensor(), from, coordinates);
}

GlobalTile detail::BlockCopy::global(const GridIndex& at) const {
  const std::vector<u32> first = begin(at);
  return spec_.tile(first.size() < 2 ? u32(0) : first[0], first.back());
}

void detail::BlockCopy::by_threads(const GlobalTile& tile, const TileView& view, u32 thread,
                                   bool may_be_async,
                                   const std::function<void(const TiledCopy&)>& copy) const {
  const int rows = spec_.shape().rows(), cols = spec_.shape().cols(), size = size_of(spec_.dtype());
  if (tile.col_stride.known() != 1)
    throw Error(
        fmt::format("{}: {}: the elements of a row of its GlobalTensor are not contiguous; pass the "
                    "transposed() tensor if the elements of a column are",
                    name_, block_text(spec_)));
  // Uses the widest accesses that divide a row, and all threads, or fewer if their number does not divide the
  // block.
  for (int elements = std::min(tile.vector, kUnit / size); elements > 0; elements /= 2)
    for (int threads = threads_; threads > 0 && cols % elements == 0; threads /= 2) {
      const int pieces = cols / elements;
      if (pieces % threads != 0 && (threads % pieces != 0 || rows % (threads / pieces) != 0)) continue;
      const int bytes = elements * size;
      const bool async = may_be_async && bytes >= 4;
      kernel_.configure(name_, fmt::format("{} of {} B by {} threads",
                                           async          ? "cp.async"
                                           : may_be_async ? "loads"
                                                          : "stores",
                                           bytes, threads));
      const TiledCopy plan(async ? CopyAtom::cp_async(bytes) : CopyAtom::vector(bytes), spec_.dtype(),
                           threads_along_rows(rows, cols, threads, elements), view.layout());
      if (threads == threads_) return copy(plan);
      return if_(thread < u32(threads), [&] { copy(plan); });
    }
}

}  // namespace ptxbuilder
