// Emits matrix products of one warp on the tensor cores, with all operands in registers.
#pragma once

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/plan/mma_atom.h"

namespace ptxbuilder {

// Computes d += a b with one instruction (PTX ISA, mma.sync). The registers must be in the order of the
// atom's layouts. All lanes of the warp must call this. Throws Error if the numbers of registers do not match
// the atom, or if the atom's sum is not in f32.
void mma(const MmaAtom& atom, std::span<Var<f32>> d, std::span<const u32> a, std::span<const u32> b,
         Where where = Where::here());

// Rounds two values to f16 or bf16, to nearest even, and returns them in one register, with `low` in the
// lower half.
u32 pack(DType type, f32 low, f32 high, Where where = Where::here());

}  // namespace ptxbuilder
