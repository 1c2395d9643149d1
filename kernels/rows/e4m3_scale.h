// Constants for scales of e4m3 blocks. A scale maps the largest magnitude in its block to the largest e4m3
// number.
#pragma once

namespace ptxbuilder::kernels {

inline constexpr int kScaledBlock = 128;  // number of elements that share a scale
inline constexpr float kGreatestE4m3 = 448;
inline constexpr float kLeastGreatest =
    0x1p-100f;  // lower bound for the largest magnitude, so that a block of zeros has a valid scale

}  // namespace ptxbuilder::kernels
