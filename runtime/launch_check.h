// The rules of a launch that need no device: what the kernel was compiled for, and what the hardware allows.
#pragma once

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Throws Error when the signature itself cannot be launched: a broken sidecar.
void check(const Signature& signature);

// Throws Error that names the kernel, the rule and the numbers (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability", 9.0). `shared_limit` is the device's opt-in limit of shared memory
// per CTA, in bytes.
void check(const Launch& launch, const Signature& signature, uint32_t shared_limit);

// Throws Error when a cooperative launch has more CTAs than `multiprocessors` hold at once, by their threads,
// shared memory and, where the signature has them, registers (the same).
void check_fits_at_once(const Launch& launch, const Signature& signature, int multiprocessors);

// This says whether a GPU of this compute capability (90) runs code for `target`: "sm_90" runs on 9.0 and
// later 9.x, "sm_90a" on 9.0 alone (CUDA C++ Programming Guide, "Feature Set Compiler Targets"). Throws Error
// when `target` is no such name.
bool runs_on(const std::string& target, int compute_capability);

}  // namespace ptxbuilder::runtime
