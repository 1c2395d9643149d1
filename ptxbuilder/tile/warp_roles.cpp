#include "ptxbuilder/tile/warp_roles.h"

#include <fmt/format.h>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;

constexpr int kWarpsOfGroup = hopper::warpgroup_threads / 32;

// Returns the warps of the role that is being emitted or, outside roles, of the CTA.
TileContext::Warps all_warps(TileContext& context) {
  if (context.role >= 0) {
    const TileContext::Role& role = context.roles[static_cast<size_t>(context.role)];
    return {kWarpsOfGroup * role.first, kWarpsOfGroup * role.count};
  }
  context.use_threads("warp_roles", "call k.threads() before, or call warp_roles() in a role");
  return {0, static_cast<int>(Builder::current().signature().threads) / 32};
}

}  // namespace

void warp_roles(const std::vector<WarpRole>& roles, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  TileContext& context = TileContext::of(builder);
  builder.check_is_kernel("warp_roles");
  if (context.warps) throw Error("warp_roles: it cannot be called inside a warp role");
  const TileContext::Warps all = all_warps(context);
  int taken = 0;
  for (const WarpRole& role : roles) {
    if (role.name.empty()) throw Error("warp_roles: the name of a role is empty");
    if (role.warps < 1)
      throw Error(
          fmt::format("warp_roles: \"{}\" has {} warps, but must have at least one", role.name, role.warps));
    taken += role.warps;
  }
  if (taken > all.count)
    throw Error(fmt::format("warp_roles: the roles have {} warps in total, but {} has only {}", taken,
                            context.role >= 0 ? "the role that is divided" : "the CTA", all.count));
  if (context.role >= 0)
    detail::check_whole_warpgroups("warp_roles");
  else
    detail::check_all_threads("warp_roles", 32 * all.count);
  const u32 warp = warp_index();
  int first = all.first;
  for (const WarpRole& role : roles) {
    if (context.reporting) context.reporting->add_role(role.name, first, role.warps, context.role >= 0);
    const pred mine = role.warps == 1 ? warp == first
                      : first == 0    ? warp < role.warps
                                      : warp - first < role.warps;
    const auto body = [&] {
      context.warps = {first, role.warps};
      AuthorsCode authors;
      region(
          role.name, [&] { role.body(role.warps == 1 ? u32(0) : warp - first); }, where);
      context.warps.reset();
    };
    builder.if_(mine, body, nullptr, where, "warp role");
    first += role.warps;
  }
}

}  // namespace ptxbuilder
