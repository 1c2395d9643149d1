// Declares the checks. Each check is an observer (machine/observer.h) in its own file; a function of that
// file adds the observer to a cluster.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// These checks run for every launch. They report unfinished work of a CTA that exits, tiles that are filled
// with one swizzle and read with another, and tensor copies that are probably mistakes.
void add_exits(Observers& observers, Cluster& cluster);
void add_swizzles(Observers& observers, Cluster& cluster);
void add_tile_copies(Observers& observers, Cluster& cluster);
// These checks run only if `Cluster::checks` is set. They report races and missing fences in shared and
// global memory, and violations of the rules for mbarriers and for registers that a wgmma is still using.
void add_races(Observers& observers, Cluster& cluster);
void add_global_races(Observers& observers, Cluster& cluster);
void add_mbarriers(Observers& observers, Cluster& cluster);
void add_matrix_registers(Observers& observers, Cluster& cluster);

}  // namespace ptxbuilder::runtime::emulator
