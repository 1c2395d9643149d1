// Lists the GPU targets for which code is generated, and the PTX versions that they require.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder::isa {

// The value of an Sm is ten times the number in its name, plus 1 for an architecture-specific ("a") target,
// or 2 for a family-specific ("f") target.
enum class Sm : int {
  sm_75 = 750,
  sm_80 = 800,
  sm_86 = 860,
  sm_89 = 890,
  sm_90 = 900,
  sm_90a = 901,
  sm_100 = 1000,
  sm_100a = 1001,
  sm_100f = 1002,
  sm_103 = 1030,
  sm_103a = 1031,
  sm_103f = 1032,
  sm_110 = 1100,
  sm_110a = 1101,
  sm_110f = 1102,
  sm_120 = 1200,
  sm_120a = 1201,
  sm_120f = 1202,
  sm_121 = 1210,
  sm_121a = 1211,
  sm_121f = 1212
};

// A target of ptxas.
struct Target {
  Sm sm;
  std::string_view name;  // for ptxas's -arch and LLVM's CPU
  int ptx_version;        // the lowest .version that supports this target, times ten (PTX ISA, Release Notes)
};

// All targets, in ascending order.
inline constexpr std::array kTargets = {
    Target{Sm::sm_75, "sm_75", 63},   Target{Sm::sm_80, "sm_80", 70},     Target{Sm::sm_86, "sm_86", 71},
    Target{Sm::sm_89, "sm_89", 78},   Target{Sm::sm_90, "sm_90", 78},     Target{Sm::sm_90a, "sm_90a", 80},
    Target{Sm::sm_100, "sm_100", 86}, Target{Sm::sm_100a, "sm_100a", 86}, Target{Sm::sm_100f, "sm_100f", 88},
    Target{Sm::sm_103, "sm_103", 88}, Target{Sm::sm_103a, "sm_103a", 88}, Target{Sm::sm_103f, "sm_103f", 88},
    Target{Sm::sm_110, "sm_110", 90}, Target{Sm::sm_110a, "sm_110a", 90}, Target{Sm::sm_110f, "sm_110f", 90},
    Target{Sm::sm_120, "sm_120", 87}, Target{Sm::sm_120a, "sm_120a", 87}, Target{Sm::sm_120f, "sm_120f", 88},
    Target{Sm::sm_121, "sm_121", 88}, Target{Sm::sm_121a, "sm_121a", 88}, Target{Sm::sm_121f, "sm_121f", 88},
};

constexpr std::span<const Target> targets() { return kTargets; }

std::string names_of_targets();  // "sm_75, sm_80, ..."

// Returns the target. If no target has this name, throws an Error that lists the names.
const Target& target(std::string_view name, Where where = Where::here());
const Target& target(Sm sm);

// Returns whether code whose lowest target is `needed` runs on `sm`. Code for a generic target runs on that
// target and all later ones. Family-specific code runs on its target and on the later "a" and "f" targets of
// the same family. Architecture-specific code runs only on its target (PTX ISA, ".target").
constexpr bool runs_on(Sm needed, Sm sm) {
  const int from = static_cast<int>(needed), on = static_cast<int>(sm);
  if (from % 10 == 1) return from == on;
  if (from % 10 == 2) return on % 10 != 0 && from / 100 == on / 100 && from / 10 <= on / 10;
  return from <= on;
}

// A set of targets.
class Targets {
 public:
  constexpr Targets() = default;
  // Constructs the set of all targets that can run code for `least`.
  constexpr Targets(Sm least) {  // NOLINT: a row states its lowest target
    for (size_t i = 0; i < kTargets.size(); ++i)
      if (runs_on(least, kTargets[i].sm)) bits_ |= uint32_t{1} << i;
  }
  // Returns the targets that can run code for one of the named targets, as in "sm_90a+sm_100f". Throws a
  // `const char*` for an unknown name.
  static constexpr Targets parse(std::string_view names);
  static constexpr Targets all() { return Targets(kTargets.front().sm); }

  // Returns whether a target is in the set.
  constexpr bool has(Sm sm) const {
    for (size_t i = 0; i < kTargets.size(); ++i)
      if (kTargets[i].sm == sm) return (bits_ >> i & 1) != 0;
    return false;
  }
  constexpr bool empty() const { return bits_ == 0; }
  // Returns the lowest target; the set must not be empty.
  constexpr const Target& least() const { return kTargets[static_cast<size_t>(std::countr_zero(bits_))]; }
  // Returns the shortest list of names that describes the set, such as "sm_90" or "sm_90a, sm_100f".
  std::string text(std::string_view between = ", ") const;

  friend constexpr Targets operator&(Targets a, Targets b) { return of_bits(a.bits_ & b.bits_); }
  friend constexpr Targets operator|(Targets a, Targets b) { return of_bits(a.bits_ | b.bits_); }
  friend constexpr bool operator==(Targets a, Targets b) = default;

 private:
  static constexpr Targets of_bits(uint32_t bits) {
    Targets t;
    t.bits_ = bits;
    return t;
  }

  uint32_t bits_ = 0;  // one bit for each target, in the order of kTargets
};

constexpr Targets Targets::parse(std::string_view names) {
  Targets all;
  for (size_t i = 0; i < names.size();) {
    if (!names.substr(i).starts_with("sm_")) throw "a target is named sm_NUMBER, with `+` between several";
    int sm = 0;
    for (i += 3; i < names.size() && names[i] >= '0' && names[i] <= '9'; ++i) sm = sm * 10 + (names[i] - '0');
    sm *= 10;
    if (i < names.size() && (names[i] == 'a' || names[i] == 'f')) sm += names[i++] == 'a' ? 1 : 2;
    const Targets those = Targets(static_cast<Sm>(sm));
    if (!those.has(static_cast<Sm>(sm))) throw "a set of targets names one that is not known";
    all = all | those;
    while (i < names.size() && names[i] == ' ') ++i;  // clang-format and the preprocessor may leave spaces
    if (i < names.size() && names[i++] != '+') throw "a target is named sm_NUMBER, with `+` between several";
    while (i < names.size() && names[i] == ' ') ++i;
  }
  return all;
}

// Returns the previous target in kTargets, or null for the first target.
const Target* target_before(Sm sm);

// Returns the previous .version, times ten, or nothing for the first known version (PTX ISA, Release Notes).
// Throws Error for an unknown version.
std::optional<int> version_before(int ptx_version);

// Returns the text of a .version, such as "8.0" for 80.
std::string version_text(int ptx_version);

}  // namespace ptxbuilder::isa
