// Scales of blocks of e4m3: each maps the greatest element of its block to the type's greatest number.
#pragma once

namespace ptxbuilder::kernels {

inline constexpr int kScaledBlock = 128;  // elements that share a scale
inline constexpr float kGreatestE4m3 = 448;
inline constexpr float kLeastGreatest = 0x1p-100f;  // so that a block of zeros has a scale

}  // namespace ptxbuilder::kernels
