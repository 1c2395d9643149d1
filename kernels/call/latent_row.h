// Defines the format of a latent key with 8-bit values in a cache. Attention reads keys in this format, and
// new tokens are stored in it.
#pragma once

namespace ptxbuilder::kernels {

// The bytes of a row, in FlashMLA's format. They are e4m3 values, an f32 factor for every `kScaled` values,
// and then the columns with the rotary embedding in bf16.
struct LatentRow {
  static constexpr int kValues = 512, kScaled = 128, kScales = kValues / kScaled, kRotary = 64;
  static constexpr int kScalesByte = kValues, kRotaryByte = kScalesByte + kScales * 4,
                       kBytes = kRotaryByte + kRotary * 2;
};

}  // namespace ptxbuilder::kernels
