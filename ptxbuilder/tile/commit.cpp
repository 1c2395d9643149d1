#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder {
namespace {

bool in_role() { return detail::TileContext::of(Builder::current()).role >= 0; }

void meet() {
  if (in_role())
    sync_warpgroup();
  else
    sync_threads();
}

}  // namespace

namespace detail {

pred issues_stores() { return in_role() ? (tid_x() & 127) == 0 : tid_x() == 0; }

void end_role_after_stores() {
  TileContext::of(Builder::current()).at_role_end["store"] = [where = Where::here()] {
    AtLine line(where);
    wait_stores_read(0);
  };
}

void store_group(const std::function<void()>& stores) {
  end_role_after_stores();
  commit_smem();
  if_(issues_stores(), [&] {
    stores();
    cp_async_bulk_commit_group();
  });
}

void wait_stores_read(int pending) { cp_async_bulk_wait_group_read.when(issues_stores())(pending); }

}  // namespace detail

void commit_smem(Where where) {
  AtLine line(where);
  detail::check_whole_warpgroups("commit_smem");
  fence_proxy_async<Space::shared>();
  meet();
}

void wait_stores(int pending, StoreWait until, Where where) {
  AtLine line(where);
  detail::check_whole_warpgroups("wait_stores");
  // Threads that have not committed any stores do not wait.
  if (until == StoreWait::read)
    cp_async_bulk_wait_group_read(pending);
  else
    cp_async_bulk_wait_group(pending);
  meet();
}

}  // namespace ptxbuilder
