#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {

void add_checks(Cluster& cluster) {
  // When a CTA exits, the checks report in the order in which they are added here.
  add_exits(cluster.observers, cluster);
  add_swizzles(cluster.observers, cluster);
  add_tile_copies(cluster.observers, cluster);
  if (!cluster.checks) return;
  add_races(cluster.observers, cluster);
  add_global_races(cluster.observers, cluster);
  add_mbarriers(cluster.observers, cluster);
  add_matrix_registers(cluster.observers, cluster);
}

}  // namespace ptxbuilder::runtime::emulator
