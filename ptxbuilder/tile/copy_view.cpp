#include "ptxbuilder/tile/copy_view.h"

namespace ptxbuilder {

CopyView TileView::evict(Eviction eviction) const { return CopyView(*this).evict(eviction); }
CopyView TileView::when(pred condition) const { return CopyView(*this).when(condition); }
LoadView TileView::multicast(ClusterAxes axes) const { return LoadView(*this).multicast(axes); }
LoadView TileView::on(smem barrier) const { return LoadView(*this).on(barrier); }
LoadView TileView::expecting(smem barrier) const { return LoadView(*this).expecting(barrier); }
LoadView TileView::outside(OobFill fill) const { return LoadView(*this).outside(fill); }

CopyView CopyView::evict(Eviction eviction) const {
  CopyView view = *this;
  view.eviction_ = eviction;
  return view;
}

CopyView CopyView::when(pred condition) const {
  CopyView view = *this;
  view.condition_ = condition;
  return view;
}

LoadView CopyView::multicast(ClusterAxes axes) const { return LoadView(*this).multicast(axes); }
LoadView CopyView::on(smem barrier) const { return LoadView(*this).on(barrier); }
LoadView CopyView::expecting(smem barrier) const { return LoadView(*this).expecting(barrier); }
LoadView CopyView::outside(OobFill fill) const { return LoadView(*this).outside(fill); }

LoadView LoadView::evict(Eviction eviction) const {
  LoadView view = *this;
  view.copy_ = copy_.evict(eviction);
  return view;
}

LoadView LoadView::when(pred condition) const {
  LoadView view = *this;
  view.copy_ = copy_.when(condition);
  return view;
}

LoadView LoadView::multicast(ClusterAxes axes) const {
  LoadView view = *this;
  view.multicast_ = axes;
  return view;
}

LoadView LoadView::on(smem barrier) const {
  LoadView view = *this;
  view.own_barrier_ = barrier;
  view.expects_ = false;
  return view;
}

LoadView LoadView::expecting(smem barrier) const {
  LoadView view = on(barrier);
  view.expects_ = true;
  return view;
}

LoadView LoadView::outside(OobFill fill) const {
  LoadView view = *this;
  view.fill_ = fill;
  return view;
}

}  // namespace ptxbuilder
