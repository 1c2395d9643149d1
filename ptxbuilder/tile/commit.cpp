#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder {
namespace {

constexpr int kThreads = 128;  // of a warpgroup

// Barrier 0 is the CTA's; each warpgroup of a role has one of its own.
void meet(Where where) {
  if (detail::TileContext::of(Builder::current(where)).role < 0)
    sync_threads(where);
  else
    bar_sync(detail::warpgroup_in_cta(where) + 1, kThreads, where);
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
