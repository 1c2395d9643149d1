// Emits TMA copies of tiles between global and shared memory (PTX ISA, cp.async.bulk.tensor).
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/tensor_map_choice.h"
#include "ptxbuilder/tile/copy_view.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

using isa::CopyReduction;

namespace detail {

// A destination and the caller's source line, because a variadic function cannot take the line as its last
// parameter.
struct Destination {
  template <std::convertible_to<LoadView> V>
  Destination(V view, Where where = Where::here()) : view(std::move(view)), where(where) {}  // NOLINT
  LoadView view;
  Where where;
};

// Converts a coordinate. Coordinates are signed, because a box may begin before its tensor. If a host integer
// is out of range, the Error names the caller's line rather than a line of this header.
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

// Emits a load. `inner_rows` is FoldedRows::inner or 0, and `offsets` is Im2colOffsets::along or empty.
void emit_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates, int inner_rows = 0,
               const std::vector<u32>& offsets = {});
void emit_prefetch(const Destination& to, TensorMap from, const std::vector<u32>& coordinates);
// Returns the instruction that stores a box or, with `reduction`, combines the box's elements with the
// elements in memory.
const isa::Row& tensor_store_row(int rank, std::optional<CopyReduction> reduction, bool cache_hint);
// Emits the store, and returns its record.
CopyRecord tma_store(const MapArgument& to, std::optional<CopyReduction> reduction, const CopyView& from,
                     const std::vector<u32>& coordinates, int inner_rows = 0);

// Calls copy(address, coordinates) for each box of a part. The tile begins at `start` in shared memory, and
// at `coordinates` in the tensor.
void each_box(const TmaBoxes& boxes, const Index& part, smem start, const std::vector<u32>& coordinates,
              const std::function<void(smem, const std::vector<Argument>&)>& copy);

// Prepares a load. Checks that the view has a barrier, and, if the barrier was set with expecting(), makes it
// expect the bytes. If the view belongs to a stage, records the load in the stage.
void begin_load(const LoadView& to, std::string_view operation);
// Throws Error for a transposed view, because copies cannot exchange rows and columns.
void check_upright(const TileView& place, std::string_view operation);
// Returns a view's L2 hint as an operand of an instruction.
std::optional<u64> cache_policy(const std::optional<Eviction>& eviction);
// Throws Error unless TMA supports this reduction for the type. The message lists the reductions that the
// type supports and the types that support this reduction.
void check_reduction(CopyReduction reduction, DType type, std::string_view operation);
// Throws Error if a box is known on the host not to begin at a multiple of 16 bytes along the innermost
// dimension. TMA rejects such a box, whether it is inside or outside the tensor.
void check_innermost(u32 coordinate, DType type, std::string_view operation);

// Adds a view and its tile to the kernel's record.
ViewRecord record_view(KernelRecord& record, const TileView& view);

// Completes the recipe of a tensor map parameter. `fill` is the value that a load uses outside the tensor,
// and is empty for a store. Throws Error if an earlier copy needed another recipe. `copy` describes the new
// copy in the message.
void bind_tensor_map(TensorMap map, TensorMapRecipe wanted, std::optional<OobFill> fill,
                     const std::string& copy, std::string_view operation);

}  // namespace detail

// Loads the box at `coordinates` into a view. There are 1 to 5 coordinates, in elements, innermost first. A
// negative coordinate denotes a position before the tensor. The first coordinate must be a multiple of 16
// bytes. Elements outside the tensor become zeros, or the value set with `.outside()`. Either one thread
// makes this call, or all threads make it and `.when()` selects one. The bytes are counted by the barrier
// that was set with `.on(bar)` or `.expecting(bar)`, or else by the barrier of the view's stage. A tile wider
// than its swizzle's span needs one copy for each panel. A view of more than 256 rows, which must be a
// multiple of 8, is divided into several copies with an equal number of rows. If a panel has more than 256
// columns, which must be a multiple of 128 bytes, its rows are copied one by one, each in several copies. The
// view determines the tensor map's recipe (box, swizzle, type, fill). Throws Error if the box is illegal, if
// another copy uses the map with another box or fill, or if the view has no barrier.
template <detail::Coordinate... C>
void tma_load(detail::Destination to, TensorMap from, C... coordinates) {
  detail::emit_load(to, from, {detail::coordinate(coordinates, to.where)...});
}
// Loads the box at `coordinates`, a list whose length is known when the kernel is built. Negative coordinates
// are given in two's complement.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates) {
  detail::emit_load(to, from, coordinates);
}

// Makes the rows of a view run along two dimensions of the tensor: `inner` rows along the second-innermost
// dimension, repeated along the next dimension. `inner` must divide the number of rows. A tile's rows can
// thus run along two modes of a tensor, each of which has its own bound.
struct FoldedRows {
  int inner;
};
// Loads folded rows with a single copy of at most 256 rows along each dimension. If CTAs share the load, the
// number of rows that each CTA fetches must be a multiple or a divisor of `inner`.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates,
                     FoldedRows rows) {
  detail::emit_load(to, from, coordinates, rows.inner);
}

// Makes each row of a view hold one pixel of an image (PTX ISA, cp.async.bulk.tensor, im2col mode). The
// tensor has 3 to 5 dimensions: the innermost dimension counts channels, and the outermost dimension counts
// images. The pixels run from corner to corner of the box, with the steps that runtime::im2col() sets for the
// tensor's argument, and continue in the next image. Each pixel is read at an offset of 0 to 65535 along each
// dimension between the channels and the images. The offset is the position of a filter's tap in the window.
struct Im2colOffsets {
  std::vector<u32> along;
};
// Loads one pixel for each row of a view, at most 1024 pixels, beginning with the pixel at `coordinates`.
// CTAs cannot share such a load.
inline void tma_load(detail::Destination to, TensorMap from, const std::vector<u32>& coordinates,
                     const Im2colOffsets& offsets) {
  detail::emit_load(to, from, coordinates, 0, offsets.along);
}

// Prefetches into L2 the data that a load into the view would fetch, so that the load itself is faster (PTX
// ISA, cp.async.bulk.prefetch.tensor). Nothing is written to the view, and L2 stays coherent, so the call may
// precede griddepcontrol_wait(). Throws Error if a barrier, an L2 hint or a fill other than zeros has been
// set for the view, because these options would have no effect.
template <detail::Coordinate... C>
void tma_prefetch(detail::Destination like, TensorMap from, C... coordinates) {
  detail::emit_prefetch(like, from, {detail::coordinate(coordinates, like.where)...});
}
inline void tma_prefetch(detail::Destination like, TensorMap from, const std::vector<u32>& coordinates) {
  detail::emit_prefetch(like, from, coordinates);
}

// Stores a view to the box at `coordinates`; elements outside the tensor are dropped. Either one thread makes
// this call, or all threads make it and `.when()` selects one. Before the call, all threads that wrote to the
// view must execute fence_proxy_async<Space::shared> and meet at a barrier. After the call, the calling
// thread must commit the store with cp_async_bulk_commit_group.
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

// Works like tma_store(), but combines each element with the corresponding element in global memory (PTX ISA,
// cp.reduce.async.bulk.tensor). The reductions are add, min, max, inc, dec, bit_and, bit_or and bit_xor. If
// the type does not have this reduction, the function throws an Error that lists the reductions of the type.
template <detail::Coordinate... C>
void tma_reduce(CopyReduction reduction, detail::MapArgument to, const CopyView& from, C... coordinates) {
  detail::tma_store(to, reduction, from, {detail::coordinate(coordinates, to.where)...});
}
inline void tma_reduce(CopyReduction reduction, detail::MapArgument to, const CopyView& from,
                       const std::vector<u32>& coordinates) {
  detail::tma_store(to, reduction, from, coordinates);
}

}  // namespace ptxbuilder
