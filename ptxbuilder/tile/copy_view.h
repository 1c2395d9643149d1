// Defines views of shared memory with options for copies. Only copies accept such views.
#pragma once

#include "ptxbuilder/tile/shared_tile.h"

namespace ptxbuilder {

class LoadView;

// A place in shared memory, with options for copies from or to this place. Functions that compute with a tile
// do not accept views with options.
class CopyView {
 public:
  CopyView(TileView place) : place_(std::move(place)) {}  // NOLINT: implicit, a view without options

  // These functions work as in TileView. Each returns a view with one more option.
  CopyView evict(Eviction eviction) const;
  CopyView when(pred condition) const;
  LoadView multicast(ClusterAxes axes) const;
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  LoadView outside(OobFill fill) const;

  const TileView& place() const { return place_; }
  const std::optional<Eviction>& eviction() const { return eviction_; }
  const std::optional<pred>& condition() const { return condition_; }

 private:
  TileView place_;
  std::optional<Eviction> eviction_;
  std::optional<pred> condition_;
};

// A view for loads, with more options than CopyView: the barrier that counts the bytes of the loads, the CTAs
// that share the loads, and the value for elements outside the tensor.
class LoadView {
 public:
  LoadView(TileView place) : copy_(std::move(place)) {}  // NOLINT
  LoadView(CopyView copy) : copy_(std::move(copy)) {}    // NOLINT

  // Each of these functions returns a copy of this view with one more option for its loads.
  LoadView evict(Eviction eviction) const;
  LoadView when(pred condition) const;
  LoadView multicast(ClusterAxes axes) const;
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  LoadView outside(OobFill fill) const;

  const TileView& place() const { return copy_.place(); }
  const std::optional<Eviction>& eviction() const { return copy_.eviction(); }
  const std::optional<pred>& condition() const { return copy_.condition(); }
  ClusterAxes multicast_axes() const { return multicast_; }
  OobFill fill() const { return fill_; }
  // Returns the barrier set by on() or expecting(), or else the barrier of the place's stage.
  const std::optional<smem>& barrier() const { return own_barrier_ ? own_barrier_ : place().stage_barrier(); }
  const std::optional<smem>& own_barrier() const { return own_barrier_; }
  bool expects() const { return expects_; }

 private:
  CopyView copy_;
  ClusterAxes multicast_;
  OobFill fill_ = OobFill::zero;
  std::optional<smem> own_barrier_;
  bool expects_ = false;
};

}  // namespace ptxbuilder
