#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {

void add_checks(Cluster& cluster) {
  // The reports of a CTA that exits are in this order.
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
