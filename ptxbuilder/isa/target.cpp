#include "ptxbuilder/isa/target.h"

#include <algorithm>
#include <array>

namespace ptxbuilder::isa {

std::string names_of_targets() {
  std::string names;
  for (const Target& t : kTargets) names += (names.empty() ? "" : ", ") + std::string(t.name);
  return names;
}

const Target& target(std::string_view name, Where where) {
  for (const Target& t : kTargets)
    if (t.name == name) return t;
  throw Error(where, "target: '" + std::string(name) + "' is not one of " + names_of_targets());
}

const Target& target(Sm sm) {
  for (const Target& t : kTargets)
    if (t.sm == sm) return t;
  throw Error("target: no such Sm value");
}

const Target* target_before(Sm sm) {
  const Target* before = nullptr;
  for (const Target& t : targets())
    if (t.sm < sm) before = &t;
  return before;
}

std::string Targets::text(std::string_view between) const {
  std::array<bool, kTargets.size()> named = {};
  Targets told;
  for (const int kind : {0, 2, 1})  // generic targets first, then "f", then "a"
    for (size_t i = 0; i < kTargets.size(); ++i) {
      const Targets those(kTargets[i].sm);
      if (static_cast<int>(kTargets[i].sm) % 10 != kind || (those & *this) != those || (those | told) == told)
        continue;
      named[i] = true;
      told = told | those;
    }
  std::string text;
  for (size_t i = 0; i < kTargets.size(); ++i)
    if (named[i]) text += (text.empty() ? "" : std::string(between)) + std::string(kTargets[i].name);
  return text;
}

std::optional<int> version_before(int ptx_version) {
  constexpr std::array known = {63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77,
                                78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};
  auto at = std::find(known.begin(), known.end(), ptx_version);
  if (at == known.end()) throw Error("no .version " + version_text(ptx_version) + " is known");
  return at == known.begin() ? std::nullopt : std::optional(*(at - 1));
}

std::string version_text(int ptx_version) {
  return std::to_string(ptx_version / 10) + "." + std::to_string(ptx_version % 10);
}

}  // namespace ptxbuilder::isa
