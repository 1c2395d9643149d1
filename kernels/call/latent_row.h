// A latent key of 8 bits, as attention reads it from a cache and new tokens are stored to it.
#pragma once

namespace ptxbuilder::kernels {

// The bytes of a row (FlashMLA's format): values of e4m3, a factor in f32 for each `kScaled` of them, and the
// columns with the rotary embedding in bf16.
struct LatentRow {
  static constexpr int kValues = 512, kScaled = 128, kScales = kValues / kScaled, kRotary = 64;
  static constexpr int kScalesByte = kValues, kRotaryByte = kScalesByte + kScales * 4,
                       kBytes = kRotaryByte + kRotary * 2;
};

}  // namespace ptxbuilder::kernels
