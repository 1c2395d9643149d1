// The special registers that never change during a warp's life (PTX ISA, "Special Registers").
#pragma once

#include <cstdint>
#include <string_view>

namespace ptxbuilder::runtime::emulator {

class Warp;

struct SpecialRegister {
  std::string_view name;  // "%tid.x"
  uint64_t (*value)(const Warp& w, uint32_t lane);
  bool is_of_lane = false;  // it differs between the lanes of a warp
};

// Returns null if no special register has that name, or if it changes while a warp runs.
const SpecialRegister* special_register(std::string_view name);

}  // namespace ptxbuilder::runtime::emulator
