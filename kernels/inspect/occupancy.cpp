#include "kernels/inspect/occupancy.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/error.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::command {

Occupancy occupancy_of(const Signature& signature, uint32_t registers) {
  // A warp is allocated registers in units of 256, which is 8 for each lane.
  constexpr uint32_t kUnit = 8;
  const uint32_t warps = (signature.threads + hopper::warp_threads - 1) / hopper::warp_threads;
  const uint32_t of_warp = (registers + kUnit - 1) / kUnit * kUnit * hopper::warp_threads;
  const uint32_t shared =
      signature.static_shared_bytes + signature.dynamic_shared_bytes + hopper::reserved_shared_bytes;
  Occupancy o;
  o.limits = {{"shared memory", hopper::sm_shared_bytes / shared},
              {"registers", of_warp == 0 ? hopper::sm_ctas : hopper::sm_registers / of_warp / warps},
              {"threads", static_cast<uint32_t>(hopper::sm_threads) / (warps * hopper::warp_threads)},
              {"CTAs", hopper::sm_ctas}};
  const auto least = std::min_element(o.limits.begin(), o.limits.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  o.ctas = least->second;
  o.bound = least->first;
  if (o.ctas == 0)
    throw Error(fmt::format(
        "no CTA fits on an SM, because of its {}: {} threads, {} registers each, {} B of shared memory",
        o.bound, signature.threads, registers, shared));
  o.warps = o.ctas * warps;
  const uint32_t of_cluster = signature.cluster[0] * signature.cluster[1] * signature.cluster[2];
  o.clusters = of_cluster > hopper::largest_cluster
                   ? 0
                   : o.ctas * static_cast<uint32_t>(hopper::clusters_at_once(static_cast<int>(of_cluster)));
  return o;
}

}  // namespace ptxbuilder::command
