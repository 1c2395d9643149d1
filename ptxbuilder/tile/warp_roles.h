// Roles of single warps: the warps of a role, or of a CTA without roles, do different work.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// `warps` warps that run a body, which gets their number from 0 on.
struct WarpRole {
  std::string name;  // in reports of the watchdog and in profiles
  int warps;
  std::function<void(u32 warp)> body;
};

// Divides the warps of this role or, outside of roles, of the CTA: the first role gets the first of them.
// Warps that remain run nothing. elect() then elects a lane of the first warp of the body's warps, and
// k.named_barrier(32 * warps) lets them meet. All warps share the registers that the role states, and go on
// together after the call only at the next barrier. Throws Error if there are not enough warps, inside of a
// warp role, and if some of the warps do not call this. What needs a whole warpgroup, such as wgmma,
// setmaxnreg and register tiles, is an Error in the body of a part of one.
//   k.warpgroups(1, 40, [&](u32) {
//     warp_roles({{"load A", 1, [&](u32) { elect([&] { ... }); }},
//                 {"load B", 1, [&](u32) { elect([&] { ... }); }},
//                 {"count", 2, [&](u32 warp) { ... }}});
//   });
void warp_roles(const std::vector<WarpRole>& roles, Where where = Where::here());

}  // namespace ptxbuilder
