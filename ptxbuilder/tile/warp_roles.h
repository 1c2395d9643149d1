// Divides the warps of a role, or of a CTA without roles, into warp roles, which do different work.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A role of `warps` warps. `body` receives the number of the warp in this role, counted from 0.
struct WarpRole {
  std::string name;  // name of the role in reports of the watchdog and in profiles
  int warps;
  std::function<void(u32 warp)> body;
};

// Divides the warps of this role or, outside roles, of the CTA among warp roles, in order. Remaining warps do
// nothing. In a body, elect() elects a lane of the warp role's first warp, and the warps can meet at
// k.named_barrier(32 * warps). Warp roles do not change the number of registers of a thread. The call does
// not synchronize the warps before it returns. Throws Error if there are not enough warps, if the call is
// inside a warp role, or if only some of the warps make the call. Operations that need a complete warpgroup,
// such as wgmma, setmaxnreg and register tiles, throw Error in a body that runs in only part of a warpgroup.
//   k.warpgroups(1, 40, [&](u32) {
//     warp_roles({{"load A", 1, [&](u32) { elect([&] { ... }); }},
//                 {"load B", 1, [&](u32) { elect([&] { ... }); }},
//                 {"count", 2, [&](u32 warp) { ... }}});
//   });
void warp_roles(const std::vector<WarpRole>& roles, Where where = Where::here());

}  // namespace ptxbuilder
