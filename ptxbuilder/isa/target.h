// The GPU targets that code is generated for, and what they ask of the PTX version.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder::isa {

// Ten times the compute capability, plus one for an architecture-specific ("a") target.
enum class Sm : int { sm_75 = 750, sm_80 = 800, sm_86 = 860, sm_89 = 890, sm_90 = 900, sm_90a = 901 };

struct Target {
  Sm sm;
  std::string_view name;  // ptxas -arch and LLVM's CPU
  int ptx_version;        // ten times the least .version that has it (PTX ISA, Release Notes)
};

// All targets, in rising order.
std::span<const Target> targets();

// Throws Error that lists the names when there is no such target.
const Target& target(std::string_view name, Where where = Where::here());
const Target& target(Sm sm);

// Whether code whose least target is `needed` runs on `sm`. Architecture-specific code runs on that target
// alone.
constexpr bool runs_on(Sm needed, Sm sm) {
  bool specific = static_cast<int>(needed) % 10 != 0;
  return specific ? needed == sm : static_cast<int>(needed) <= static_cast<int>(sm);
}

// The target below; null below the first.
const Target* target_before(Sm sm);

// The .version before one, ten times; nothing before the first that is known here (PTX ISA, Release Notes).
// Throws Error for a version that is not known.
std::optional<int> version_before(int ptx_version);

// "8.0" for 80.
std::string version_text(int ptx_version);

}  // namespace ptxbuilder::isa
