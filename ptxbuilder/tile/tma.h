// Copies of tiles between global and shared memory by TMA (PTX ISA, cp.async.bulk.tensor).
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/tensor_map_choice.h"
#include "ptxbuilder/tile/copy_view.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

using isa::CopyReduction;

namespace detail {

// A destination together with the caller's line, since a variadic function cannot have the line as its last
// parameter.
struct Destination {
  template <std::convertible_to<LoadView> V>
  Destination(V view, Where where = Where::here()) : view(std::move(view)), where(where) {}  // NOLINT
  LoadView view;
  Where where;
};

// Coordinates are signed, since a box may begin before its tensor. If a host integer is out of range, the
// Error names the caller's line, not this header's.
inline u32 coordinate(u32 c, Where) { return c; }
inline u32 coordinate(s32 c, Where) { return u32(c); }
inline u32 coordinate(HostInteger auto c, Where where) { return u32(s32(c, where)); }

template <class C>
concept Coordinate = std::convertible_to<C, u32> || std::convertible_to<C, s32>;

struct MapArgument {
  MapArgument(TensorMap map, Where where = Where::here()) : map(map), where(where) {}  // NOLINT
  TensorMap map;
  Where where;
};

// `inner_rows` is FoldedRows::inner, or 0, and `offsets` is Im2colOffsets::along, or empty.
void emit_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates, int inner_rows = 0,
               const std::vector<u32>& offsets = {});
void emit_prefetch(const Destination& to, TensorMap from, const std::vector<u32>& coordinates);
// Returns the name of the instruction that stores a box or, with `reduction`, combines it with the elements
// in memory.
const isa::Row& tensor_store_row(int rank, std::optional<CopyReduction> reduction, bool cache_hint);
// Returns the record of the store.
CopyRecord tma_store(const MapArgument& to, std::optional<CopyReduction> reduction, const CopyView& from,
                     const std::vector<u32>& coordinates, int inner_rows = 0);

// Calls copy(address, coordinates) for each box of a part. The tile is at `start` in shared memory, and
// begins at `coordinates` in the tensor.
void each_box(const TmaBoxes& boxes, const Index& part, smem start, const std::vector<u32>& coordinates,
              const std::function<void(smem, const std::vector<Argument>&)>& copy);

// Runs before the copies of a load: checks that the view has a barrier, notifies the stage that the view
// belongs to, if any, and, with expecting(), makes the barrier expect the bytes.
void begin_load(const LoadView& to, std::string_view operation);
// Throws Error for a transposed view, since copies do not exchange rows and columns.
void check_upright(const TileView& place, std::string_view operation);
// Returns a view's L2 hint as an operand of an instruction.
std::optional<u64> cache_policy(const std::optional<Eviction>& eviction);
// Throws Error that names the reductions of the type and the types of the reduction, unless the two fit
// together.
void check_reduction(CopyReduction reduction, DType type, std::string_view operation);
// Throws Error if the host knows that a box does not begin at a multiple of 16 bytes along the innermost
// dimension. TMA refuses such a box inside and outside the tensor.
void check_innermost(u32 coordinate, DType type, std::string_view operation);

// A view and its tile, for the kernel's record.
ViewRecord record_view(KernelRecord& record, const TileView& view);

// Completes a parameter's recipe. `fill` is the value that a load finds outside the tensor; stores have no
// fill. Throws Error when an earlier copy needed another recipe; `copy` describes the new copy.
void bind_tensor_map(TensorMap map, TensorMapRecipe wanted, std::optional<OobFill> fill,
                     const std::string& copy, std::string_view operation);

}  // namespace detail

// Loads the box at `coordinates` into a view. There are 1 to 5 coordinates, in elements, innermost first. A
// negative coordinate is before the tensor. The first one must be a multiple of 16 bytes. Elements outside
// the tensor become zeros, or the value set with `.outside()`. One thread calls this, or all call it and
// `.when()` selects one. The bytes complete on the view's barrier: that of its stage, of `.on(bar)` or of
// `.expecting(bar)`. A tile wider than its swizzle's span needs one copy for each panel. More than 256 rows,
// in a multiple of 8, are divided into several copies with an equal number of rows; the rows of a panel of
// more than 256 columns, in a multiple of 128 bytes, are copied one by one, each in several copies. The
// tensor map's recipe (box, swizzle, type, fill) follows from the view. Throws Error when the box is illegal,
// when another copy uses the map with another box or fill, and when the view has no barrier.
template <detail::Coordinate... C>
void tma_load(detail::Destination to, TensorMap from, C... coordinates) {
  detail::emit_load(to, from, {detail::coordinate(coordinates, to.where)...});
}
// Does the same with a list of coordinates, whose length is known when the kernel is built. A negative
// coordinate is passed in two's complement.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates) {
  detail::emit_load(to, from, coordinates);
}

// The rows of a view run along two dimensions of the tensor: `inner` rows along the dimension after the
// innermost, repeated along the next one. `inner` divides the number of rows. A tile's rows can thus be a
// product of two modes of a tensor, each with its own bound.
struct FoldedRows {
  int inner;
};
// Loads folded rows with a single copy: at most 256 along each dimension. CTAs that share the load fetch
// whole multiples of `inner` rows, or parts that divide `inner`.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates,
                     FoldedRows rows) {
  detail::emit_load(to, from, coordinates, rows.inner);
}

// The rows of a view are pixels of images (PTX ISA, cp.async.bulk.tensor, im2col mode), in a tensor of 3 to 5
// dimensions, whose innermost is channels and whose outermost is images. The pixels run from corner to corner
// of the box, with the steps that the tensor's argument states (runtime::im2col()), and continue in the next
// image. Each is read at an offset of 0 to 65535 pixels along each dimension between the channels and the
// images: the place of a filter's tap in a window.
struct Im2colOffsets {
  std::vector<u32> along;
};
// Loads one pixel for each row of a view, at most 1024, from the pixel at `coordinates` on. CTAs do not share
// such a load.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates,
                     const Im2colOffsets& offsets) {
  detail::emit_load(to, from, coordinates, 0, offsets.along);
}

// Prefetches into L2 what a load into the view would fetch, so that the load is faster (PTX ISA,
// cp.async.bulk.prefetch.tensor). Nothing is written to the view, and L2 stays coherent, so the call may
// come before griddepcontrol_wait(). Throws Error for a view with a barrier of its own, an L2 hint or a
// fill other than zeros, which have no effect here.
template <detail::Coordinate... C>
void tma_prefetch(detail::Destination like, TensorMap from, C... coordinates) {
  detail::emit_prefetch(like, from, {detail::coordinate(coordinates, like.where)...});
}
inline void tma_prefetch(detail::Destination like, TensorMap from, const std::vector<u32>& coordinates) {
  detail::emit_prefetch(like, from, coordinates);
}

// Stores a view to the box at `coordinates`; elements outside the tensor are dropped. One thread calls this,
// or all call it and `.when()` selects one. Before that, all writers execute fence_proxy_async<Space::shared>
// and meet at a barrier. Afterwards the thread commits the store with cp_async_bulk_commit_group.
template <detail::Coordinate... C>
void tma_store(detail::MapArgument to, const CopyView& from, C... coordinates) {
  detail::tma_store(to, std::nullopt, from, {detail::coordinate(coordinates, to.where)...});
}
inline void tma_store(detail::MapArgument to, const CopyView& from, const std::vector<u32>& coordinates) {
  detail::tma_store(to, std::nullopt, from, coordinates);
}

inline void tma_store(detail::MapArgument to, const CopyView& from, const std::vector<u32>& coordinates,
                      FoldedRows rows) {
  detail::tma_store(to, std::nullopt, from, coordinates, rows.inner);
}

// Like tma_store(), but combines each element with the one in global memory: add, min, max, inc, dec,
// bit_and, bit_or, bit_xor (PTX ISA, cp.reduce.async.bulk.tensor). Throws Error that lists the type's
// reductions if this one is not among them.
template <detail::Coordinate... C>
void tma_reduce(CopyReduction reduction, detail::MapArgument to, const CopyView& from, C... coordinates) {
  detail::tma_store(to, reduction, from, {detail::coordinate(coordinates, to.where)...});
}
inline void tma_reduce(CopyReduction reduction, detail::MapArgument to, const CopyView& from,
                       const std::vector<u32>& coordinates) {
  detail::tma_store(to, reduction, from, coordinates);
}

}  // namespace ptxbuilder
