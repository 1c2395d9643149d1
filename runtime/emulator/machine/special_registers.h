// The special registers that do not change while a warp runs (PTX ISA, "Special Registers").
#pragma once

#include <cstdint>
#include <string_view>

namespace ptxbuilder::runtime::emulator {

class Warp;

struct SpecialRegister {
  std::string_view name;  // for example "%tid.x"
  uint64_t (*value)(const Warp& w, uint32_t lane);
  bool is_of_lane = false;  // whether the lanes of a warp have different values
};

// Returns the special register with that name. Returns null if it does not exist, or if it changes while a
// warp runs.
const SpecialRegister* special_register(std::string_view name);

}  // namespace ptxbuilder::runtime::emulator
