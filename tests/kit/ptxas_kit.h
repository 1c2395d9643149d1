// The ptxas of this machine.
#pragma once

#include <optional>
#include <string>

#include "options.h"
#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::test {

// Returns ptxas, or null if there is none, so that the calling test is skipped.
inline const Ptxas* real_ptxas() {
  static std::string reason;
  static const std::optional<Ptxas> ptxas = []() -> std::optional<Ptxas> {
    try {
      return Ptxas();
    } catch (const Error& error) {
      reason = error.what();
      return std::nullopt;
    }
  }();
  if (!ptxas) skip(reason);
  return ptxas ? &*ptxas : nullptr;
}

}  // namespace ptxbuilder::test
