// Element types of tensors, parameters and matrix instructions, with their PTX names and widths.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ptxbuilder {

enum class DType : uint8_t { u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, tf32, e4m3, e5m2, f32, f64 };

// The PTX spelling, which is also the spelling in sidecars and on command lines: "bf16", "e4m3", "u32".
std::string_view name(DType type);

// Bytes of one element: 1, 2, 4 or 8. tf32 is stored as 4.
int size_of(DType type);

std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace ptxbuilder
