#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder {
namespace {

void meet(Where where) {
  if (detail::TileContext::of(Builder::current(where)).role < 0)
    sync_threads(where);
  else
    detail::sync_warpgroup(where);
}

}  // namespace

void commit_smem(Where where) {
  AtLine line(where);
  fence_proxy_async_shared(where);
  meet(where);
}

void wait_stores(int pending, StoreWait until, Where where) {
  AtLine line(where);
  // Of a thread that has committed nothing there is nothing to wait for.
  if (until == StoreWait::read)
    cp_async_bulk_wait_group_read(pending, where);
  else
    cp_async_bulk_wait_group(pending, where);
  meet(where);
}

}  // namespace ptxbuilder
