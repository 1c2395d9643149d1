// Loads register tiles from shared and global memory, and stores register tiles there, with the widest
// accesses that the layout allows.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder {

// The CTA at position `place` in this CTA's line along an axis of the cluster. If the cluster has only one
// axis, `place` is the CTA's rank.
struct PeerCta {
  ClusterAxis axis;
  u32 place;
};

namespace detail {

// Returns the greatest number of consecutive values that one access of at most 16 bytes can move, because the
// values are adjacent and aligned in memory in all threads.
int widest_vector(const RegisterLayout& layout, const ComposedLayout& memory, int element_bytes);

// Load and store a tile at `start`, which must be aligned to the period of the swizzle. `memory` maps (row,
// column) to an element, counted from `start`.
TileValues load_shared(smem start, const ComposedLayout& memory, DType dtype, const RegisterLayout& layout);
void store_shared(smem start, const ComposedLayout& memory, const TileValues& x);

TileValues load_view(const TileView& from, DType dtype, const std::optional<RegisterLayout>& layout);
void store_view(const TileView& to, const TileValues& x);
// Stores to a view in another CTA's shared memory. If `barrier` is empty, the barrier of the view's stage is
// used.
void store_peer(const TileView& to, const TileValues& x, const PeerCta& peer, std::optional<smem> barrier);

// Load and store a tile in global memory. Elements outside the tensor are loaded as `fill`, 0 by default, and
// are not stored.
TileValues load_global(const GlobalTile& from, DType dtype, const RegisterLayout& layout,
                       std::optional<Value> fill);
void store_global(const GlobalTile& to, const TileValues& x);
// Returns a GlobalTile for a matrix whose rows are `pitch` elements apart.
GlobalTile rows_of(gmem start, u32 pitch, DType dtype, const RegisterLayout& layout);

}  // namespace detail

// Load and store a view of a tile in shared memory. The view must have the type and the extent of the
// register tile. If no layout is given, load() uses `strided` with the widest vectors. For a transposed view
// of 16-bit elements with a multiple of 64 rows and a multiple of 8 columns, it uses wgmma_layout instead. On
// sm_90 and later, ldmatrix and stmatrix replace vectors of less than 16 bytes if the layout distributes
// elements over threads in the same way as these instructions. If vectors would cause bank conflicts, some
// threads make their accesses in a different order, provided that this reduces conflicts. The bytes must have
// arrived before load() is called. Wait on their barrier first or, if threads wrote the bytes, call
// sync_threads(). If several threads hold the same element, one of these threads stores it.
template <TileElement T>
RegisterTile<T> load(const TileView& from, const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_view(from, T::dtype, layout));
}
template <TileElement T>
RegisterTile<T> load(const TileView& from, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_view(from, T::dtype, std::nullopt));
}
template <TileLike X>
void store(const TileView& to, const X& x, Where where = Where::here()) {
  AtLine line(where);
  detail::store_view(to, detail::values_of(x));
}

// Stores a register tile to the same view in another CTA's shared memory (PTX ISA, st.async). The other CTA's
// mbarrier at the same offset as `barrier` counts the bytes. All threads of the warpgroup must call this.
// Throws Error unless accesses have at least 4 bytes and the kernel has clusters of several CTAs. The other
// CTA must make its barrier expect the bytes of the view, as in mbarrier_arrive_expect_tx(bar[0], bytes), and
// must wait for the barrier before it reads the view. When this CTA stores, the other CTA must have started,
// and must have finished its own accesses to the view. sync_cluster() ensures this for the first store, and
// barriers of the cluster ensure it for later stores.
//   store_async(sIn[0], x, PeerCta{ClusterAxis::x, cluster_ctarank() ^ 1}, bar[0]);
template <TileLike X>
void store_async(const TileView& to, const X& x, const PeerCta& peer, smem barrier,
                 Where where = Where::here()) {
  AtLine line(where);
  detail::store_peer(to, detail::values_of(x), peer, barrier);
}
// Stores a register tile to the other CTA's stage, in a pipeline with ThreadProducers in which two CTAs along
// this axis exchange tiles. Each CTA stores to the other CTA, and expects the same number of bytes for its
// own stage.
//   auto s = ring.acquire();
//   store_async(sIn[s], x, PeerCta{ClusterAxis::x, peer});
//   ring.commit(s);
template <TileLike X>
void store_async(const TileView& to, const X& x, const PeerCta& peer, Where where = Where::here()) {
  AtLine line(where);
  detail::store_peer(to, detail::values_of(x), peer, std::nullopt);
}

// Load and store a tile of a tensor in global memory. The register layout determines the number of rows and
// columns that are copied, beginning at the tile's corner. Elements outside the tensor are not accessed. In a
// load, they get the value `fill`, which is 0 by default. Reductions include these elements, so for a
// maximum, for example, pass the lowest value of the type. store() throws Error if the known strides show
// that several elements share an address.
//   load(x.tile(row, col), layout)
template <TileElement T>
RegisterTile<T> load(const TensorTile<T>& from, const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_global(from, T::dtype, layout, std::nullopt));
}
template <NumberElement T>
RegisterTile<T> load(const TensorTile<T>& from, const RegisterLayout& layout, std::type_identity_t<T> fill,
                     Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(detail::load_global(from, T::dtype, layout, fill));
}
template <TileLike X>
void store(const TensorTile<ElementOf<X>>& to, const X& x, Where where = Where::here()) {
  AtLine line(where);
  detail::store_global(to, detail::values_of(x));
}

// Load and store a row-major matrix in global memory. The rows are `pitch` elements apart or, without a
// pitch, contiguous. The pointer must be a multiple of 16 bytes. If the pitch is a device value, it must also
// be a multiple of 16 bytes.
template <TileElement T>
RegisterTile<T> load(gptr<T> from, const RegisterLayout& layout, u32 pitch, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<T>(
      detail::load_global(detail::rows_of(from, pitch, T::dtype, layout), T::dtype, layout, std::nullopt));
}
template <TileElement T>
RegisterTile<T> load(gptr<T> from, const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return load(from, layout, u32(layout.cols()));
}
template <TileLike X>
void store(gptr<ElementOf<X>> to, const X& x, u32 pitch, Where where = Where::here()) {
  AtLine line(where);
  const detail::TileValues values = detail::values_of(x);
  detail::store_global(detail::rows_of(to, pitch, ElementOf<X>::dtype, values.layout), values);
}
template <TileLike X>
void store(gptr<ElementOf<X>> to, const X& x, Where where = Where::here()) {
  AtLine line(where);
  store(to, x, u32(x.cols()));
}

}  // namespace ptxbuilder
