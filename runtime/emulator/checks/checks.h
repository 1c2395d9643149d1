// The checks: each is an observer (machine/observer.h) in a file of its own, which adds it to a cluster.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Checks for all launches: unfinished work of a CTA that exits, tiles that are filled with one swizzle and
// read with another, and tensor copies that are probably mistakes.
void add_exits(Observers& observers, Cluster& cluster);
void add_swizzles(Observers& observers, Cluster& cluster);
void add_tile_copies(Observers& observers, Cluster& cluster);
// Additional checks for launches that are checked: races and missing fences in shared memory, the rules of
// mbarriers, and those of registers that a wgmma still uses.
void add_races(Observers& observers, Cluster& cluster);
void add_global_races(Observers& observers, Cluster& cluster);
void add_mbarriers(Observers& observers, Cluster& cluster);
void add_matrix_registers(Observers& observers, Cluster& cluster);

}  // namespace ptxbuilder::runtime::emulator
