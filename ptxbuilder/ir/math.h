// Declares functions of f32 values on the device. Each function has an accurate variant, and a faster variant
// that uses the approximate hardware instruction.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

// `yes` uses one or two instructions of the special function unit (PTX ISA, ex2.approx and similar), which
// may flush subnormals to zero. `no` returns results within 2 units in the last place of the true value, or
// within 4 for tanh and erf.
enum class Approx : bool { no, yes };

// Exponential functions and logarithms, with base e and base 2.
f32 exp(f32 x, Approx approx = Approx::no);
f32 exp2(f32 x, Approx approx = Approx::no);
f32 log(f32 x, Approx approx = Approx::no);
f32 log2(f32 x, Approx approx = Approx::no);
// The accurate variants are accurate for |x| up to 2^40. The absolute error of the approximate variants grows
// outside -pi to pi.
f32 sin(f32 x, Approx approx = Approx::no);
f32 cos(f32 x, Approx approx = Approx::no);
f32 tanh(f32 x, Approx approx = Approx::no);
f32 rsqrt(f32 x, Approx approx = Approx::no);
f32 sqrt(f32 x, Approx approx = Approx::no);  // the accurate variant rounds to nearest even
f32 erf(f32 x, Approx approx = Approx::no);   // both variants use one formula, with different exponentials
f32 abs(f32 x);

}  // namespace ptxbuilder
