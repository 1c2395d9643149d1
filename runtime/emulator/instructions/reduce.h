// The reductions that atomic operations and reducing copies share.
#pragma once

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {

enum class Reduction : uint8_t { add, min, max, and_, or_, xor_, inc, dec, exch, cas };

// Returns a op b for codes of `type` in the low bits. `op` must not be cas.
uint64_t reduce(Reduction op, Type type, uint64_t a, uint64_t b);

Reduction take_reduction(Decode& d);

// Computes place[k] = place[k] op data[k] for all elements in `bytes` bytes.
void reduce_into(std::byte* place, const std::byte* data, uint32_t bytes, Reduction op, Type type);

}  // namespace ptxbuilder::runtime::emulator
