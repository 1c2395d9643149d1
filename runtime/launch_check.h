// Checks the rules of a launch that do not need a device: those of the signature and of the hardware.
#pragma once

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Throws Error when no launch can satisfy the signature, which means that the sidecar is broken.
void check(const Signature& signature);

// Throws Error that names the kernel, the rule and the numbers (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability", 9.0). `shared_limit` is the device's opt-in limit of shared memory
// per CTA, in bytes.
void check(const Launch& launch, const Signature& signature, uint32_t shared_limit);

// Throws Error when a cooperative launch has more CTAs than `multiprocessors` hold at once. Threads, shared
// memory and, if the signature has them, registers limit the number (the same guide).
void check_fits_at_once(const Launch& launch, const Signature& signature, int multiprocessors);

// Returns whether a GPU of this compute capability (90) runs code for `target`: "sm_90" runs on 9.0 and later
// 9.x, "sm_90a" only on 9.0 (CUDA C++ Programming Guide, "Feature Set Compiler Targets"). Throws Error when
// `target` is not the name of a target.
bool runs_on(const std::string& target, int compute_capability);

}  // namespace ptxbuilder::runtime
