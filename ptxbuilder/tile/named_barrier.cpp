#include "ptxbuilder/tile/named_barrier.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {
namespace {

constexpr int kWarpgroup = 128;  // number of threads in a warpgroup

}  // namespace

NamedBarrier::NamedBarrier(Builder& builder, int threads, Where where)
    : owner_(&builder.state()), threads_(threads) {
  AtLine line(where);
  builder.check_current();
  builder.check_is_kernel("named_barrier");
  if (threads < 32 || threads > 1024 || threads % 32 != 0)
    throw Error(fmt::format(
        "named_barrier: {} threads were requested, but the number must be a multiple of 32 from 32 to 1024",
        threads));
  id_ = builder.barrier_ids().take("named_barrier");
  builder.on_finish([threads, where] {
    AtLine line(where);
    const int all = static_cast<int>(Builder::current().signature().threads);
    if (threads > all)
      throw Error(
          fmt::format("named_barrier: {} threads must arrive, but the CTA has {}, so a wait would never end",
                      threads, all));
  });
}

void NamedBarrier::emit(const isa::Row& row) const {
  Builder& builder = Builder::current();
  if (&builder.state() != owner_)
    throw Error(fmt::format("{}: a named barrier of another kernel was used", builder.signature().kernel));
  const BarrierIds::Holders scope(builder.barrier_ids());
  const std::vector<Argument> arguments = {u32(id_), u32(threads_)};
  builder.emit(row, arguments, std::nullopt);
}

void NamedBarrier::sync(Where where) const {
  AtLine line(where);
  emit(isa::rows_def::bar_sync);
}
void NamedBarrier::arrive(Where where) const {
  AtLine line(where);
  emit(isa::rows_def::bar_arrive);
}

// Uses barrier i + 1 for warpgroup i of the CTA.
void sync_warpgroup(Where where) {
  AtLine line(where);
  detail::check_whole_warpgroups("sync_warpgroup");
  Builder& builder = Builder::current();
  const uint32_t threads = builder.signature().threads;
  detail::TileContext::of(builder).use_threads("sync_warpgroup");
  if (detail::TileContext::of(builder).role < 0 && threads != kWarpgroup)
    throw Error(
        fmt::format("sync_warpgroup: the CTA has {} threads and no roles, so it is not one warpgroup: use "
                    "sync_threads(), or make roles with k.warpgroups()",
                    threads));
  BarrierIds& ids = builder.barrier_ids();
  const int first = detail::first_warpgroup_of_role();
  for (int group = first; group < first + detail::warpgroups_in_role(); ++group)
    ids.take(group + 1, fmt::format("warpgroup {}", group));
  const BarrierIds::Holders scope(ids);
  bar_sync(detail::warpgroup_in_cta() + 1, kWarpgroup);
}

}  // namespace ptxbuilder
