// The checks: each is an observer (machine/observer.h) in a file of its own, which adds it to a cluster.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// This is for all launches: what a CTA that exits must not leave unfinished, tiles that are filled under one
// swizzle and read under another, and tensor copies that hardly mean what they do.
void add_exits(Observers& observers, Cluster& cluster);
void add_swizzles(Observers& observers, Cluster& cluster);
void add_tile_copies(Observers& observers, Cluster& cluster);
// This is for launches that are checked: races and missing fences in shared memory, the rules of mbarriers,
// and those of registers that wgmma holds on to.
void add_races(Observers& observers, Cluster& cluster);
void add_global_races(Observers& observers, Cluster& cluster);
void add_mbarriers(Observers& observers, Cluster& cluster);
void add_matrix_registers(Observers& observers, Cluster& cluster);

}  // namespace ptxbuilder::runtime::emulator
