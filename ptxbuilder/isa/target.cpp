#include "ptxbuilder/isa/target.h"

#include <array>

namespace ptxbuilder::isa {
namespace {

constexpr std::array kTargets = {
    Target{Sm::sm_75, "sm_75", 63}, Target{Sm::sm_80, "sm_80", 70}, Target{Sm::sm_86, "sm_86", 71},
    Target{Sm::sm_89, "sm_89", 78}, Target{Sm::sm_90, "sm_90", 78}, Target{Sm::sm_90a, "sm_90a", 80},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target(std::string_view name, Where where) {
  std::string known;
  for (const Target& t : kTargets) {
    if (t.name == name) return t;
    known += (known.empty() ? "" : ", ") + std::string(t.name);
  }
  throw Error(where, "target: '" + std::string(name) + "' is not one of " + known);
}

const Target& target(Sm sm) {
  for (const Target& t : kTargets)
    if (t.sm == sm) return t;
  throw Error("target: no such Sm value");
}

std::string version_text(int ptx_version) {
  return std::to_string(ptx_version / 10) + "." + std::to_string(ptx_version % 10);
}

}  // namespace ptxbuilder::isa
