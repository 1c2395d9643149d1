// Loads register tiles from shared and global memory, and stores them there, in the widest accesses that the
// layout allows.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder {

// The CTA at position `place` in the line along an axis of the cluster; if the cluster has only one axis,
// this is its rank.
struct PeerCta {
  ClusterAxis axis;
  u32 place;
};

namespace detail {

// Returns the greatest number of consecutive values of a thread that are adjacent and aligned in memory for
// all threads, so that one access of at most 16 bytes moves them.
int widest_vector(const RegisterLayout& layout, const ComposedLayout& memory, int element_bytes);

// `memory` maps (row, column) to an element, counted from `start`. `start` must be aligned to the period of
// the swizzle.
TileValues load_shared(smem start, const ComposedLayout& memory, DType dtype, const RegisterLayout& layout);
void store_shared(smem start, const ComposedLayout& memory, const TileValues& x);

TileValues load_view(const TileView& from, DType dtype, const std::optional<RegisterLayout>& layout);
void store_view(const TileView& to, const TileValues& x);
// If `barrier` is empty, uses the barrier of the view's stage.
void store_peer(const TileView& to, const TileValues& x, const PeerCta& peer, std::optional<smem> barrier);

// Elements outside the tensor are loaded as `fill`, 0 by default, and are not stored.
TileValues load_global(const GlobalTile& from, DType dtype, const RegisterLayout& layout,
                       std::optional<Value> fill);
void store_global(const GlobalTile& to, const TileValues& x);
// Returns rows that are `pitch` elements apart as a GlobalTile.
GlobalTile rows_of(gmem start, u32 pitch, DType dtype, const RegisterLayout& layout);

}  // namespace detail

// Load and store a view of a tile in shared memory. The view has the type and the extent of the register
// tile. Without a layout, load() uses `strided` with the widest vectors or, for a transposed view of 16-bit
// elements with a multiple of 64 rows and a multiple of 8 columns, wgmma_layout. From sm_90 on, ldmatrix and
// stmatrix replace vectors below 16 bytes if the layout gives each thread the elements that these
// instructions give it. If vectors would cause bank conflicts, some threads make their accesses in another
// order where that reduces conflicts. The bytes must have arrived before load() is called: wait on their
// barrier first or, if threads wrote them, call sync_threads(). If several threads hold the same element, one
// of them stores it.
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

// Stores a register tile to the same view of another CTA's shared memory (PTX ISA, st.async), where that
// CTA's mbarrier at the same offset counts the bytes. Throws Error unless accesses have at least 4 bytes and
// the kernel has clusters of several CTAs. All threads of the warpgroup call this. The other CTA must expect
// the bytes of the view, as in mbarrier_arrive_expect_tx(bar[0], bytes), and must wait for its barrier before
// it reads. It must have begun, and must have finished its own accesses to the view. sync_cluster() ensures
// this the first time, and barriers of the cluster ensure it later.
//   store_async(sIn[0], x, PeerCta{ClusterAxis::x, cluster_ctarank() ^ 1}, bar[0]);
template <TileLike X>
void store_async(const TileView& to, const X& x, const PeerCta& peer, smem barrier,
                 Where where = Where::here()) {
  AtLine line(where);
  detail::store_peer(to, detail::values_of(x), peer, barrier);
}
// Does the same for the stage of a pipeline with ThreadProducers that two CTAs along that axis exchange: each
// stores to the other one, and expects as many bytes for its own stage.
//   auto s = ring.acquire();
//   store_async(sIn[s], x, PeerCta{ClusterAxis::x, peer});
//   ring.commit(s);
template <TileLike X>
void store_async(const TileView& to, const X& x, const PeerCta& peer, Where where = Where::here()) {
  AtLine line(where);
  detail::store_peer(to, detail::values_of(x), peer, std::nullopt);
}

// Load and store a tile of a tensor in global memory. The register layout determines how many rows and
// columns are copied, from the tile's corner on. Elements outside the tensor are not accessed; in registers
// they have the value `fill`, 0 by default, which a reduction includes; for a maximum, pass the least value
// of the type. A store throws Error if the known strides show that several elements share an address.
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

// Load and store a row-major matrix in global memory. Its rows are `pitch` elements apart or, without a
// pitch, contiguous. The pointer must be a multiple of 16 bytes, and so must a pitch that only the device
// knows.
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
