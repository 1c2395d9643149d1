#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder {
namespace {

bool in_role(Where where) { return detail::TileContext::of(Builder::current(where)).role >= 0; }

void meet(Where where) {
  if (in_role(where))
    detail::sync_warpgroup(where);
  else
    sync_threads(where);
}

}  // namespace

namespace detail {

pred issues_stores(Where where) {
  AtLine line(where);
  return in_role(where) ? (tid_x(where) & 127) == 0 : tid_x(where) == 0;
}

void store_group(const std::function<void()>& stores, Where where) {
  AtLine line(where);
  // Shared memory must not go away under the copies.
  TileContext::of(Builder::current(where)).at_role_end["store"] = [where] { wait_stores_read(0, where); };
  commit_smem(where);
  if_(
      issues_stores(where),
      [&] {
        stores();
        cp_async_bulk_commit_group(where);
      },
      where);
}

void wait_stores_read(int pending, Where where) {
  cp_async_bulk_wait_group_read.when(issues_stores(where))(pending, where);
}

}  // namespace detail

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
