// Checks the rules for a launch that do not depend on a device: the rules of the signature and of the
// hardware.
#pragma once

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Throws an Error if no launch can satisfy the signature, which means that the sidecar is broken.
void check(const Signature& signature);

// Throws an Error that names the kernel, the rule and the numbers if a launch violates a rule (CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability", 9.0). `shared_limit` is the device's
// opt-in limit of shared memory per CTA, in bytes.
void check(const Launch& launch, const Signature& signature, uint32_t shared_limit);

// Throws an Error if a cooperative launch has more CTAs than fit on `multiprocessors` multiprocessors at
// once. The number is limited by threads, by shared memory and, if the signature states them, by registers
// (see the same guide).
void check_fits_at_once(const Launch& launch, const Signature& signature, int multiprocessors);

// Returns whether a GPU of this compute capability (90) runs code for `target`: "sm_90" runs on 9.0 and later
// 9.x, but "sm_90a" only on 9.0 (CUDA C++ Programming Guide, "Feature Set Compiler Targets"). Throws an Error
// if `target` is not the name of a target.
bool runs_on(const std::string& target, int compute_capability);

}  // namespace ptxbuilder::runtime
