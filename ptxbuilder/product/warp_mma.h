// Matrix products of one warp on the tensor cores, with all operands in registers.
#pragma once

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/plan/mma_atom.h"

namespace ptxbuilder {

// Computes d += a b for the registers of one instruction, in the order of the atom's layouts (PTX ISA,
// mma.sync). All lanes of the warp call this. Throws Error if the numbers of registers are not those of the
// atom, or if the sum is not in f32.
void mma(const MmaAtom& atom, std::span<Var<f32>> d, std::span<const u32> a, std::span<const u32> b,
         Where where = Where::here());

// Rounds two values to nearest even, and returns them in one register as f16 or bf16, with `low` in the lower
// half.
u32 pack(DType type, f32 low, f32 high, Where where = Where::here());

}  // namespace ptxbuilder
