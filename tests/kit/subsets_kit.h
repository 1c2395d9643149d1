// Programs with every subset of their fences, waits and arrivals. The emulator must report each program,
// unless the subset orders its accesses.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {

// In the body, `<n>` stands for piece n if the subset has bit n, and for nothing otherwise.
struct SubsetProgram {
  std::string what, body;
  std::vector<std::string> pieces;
  std::function<bool(uint32_t subset)> is_right;
  uint32_t ctas = 1;
  uint32_t arrivals = 1;  // number of arrivals at each mbarrier
};

inline bool always(uint32_t) { return true; }
inline bool never(uint32_t) { return false; }
template <uint32_t Bit>
bool with(uint32_t subset) {
  return subset >> Bit & 1;
}
inline bool with_both(uint32_t subset) { return (subset & 3) == 3; }

class Subsets {
 public:
  // Launches the program around a body, and throws the error that the emulator reports.
  using Run = std::function<void(const SubsetProgram&, const std::string& body, const EmulatorOptions&)>;
  explicit Subsets(Run run) : run_(std::move(run)) {}

  void check(const SubsetProgram& program) {
    for (uint32_t subset = 0; subset < 1u << program.pieces.size(); ++subset) {
      std::string body = program.body;
      for (size_t piece = 0; piece < program.pieces.size(); ++piece) {
        const std::string mark = fmt::format("<{}>", piece);
        const size_t at = body.find(mark);
        REQUIRE_MESSAGE(at != std::string::npos, program.what);
        body.replace(at, mark.size(), subset >> piece & 1 ? program.pieces[piece] : "");
      }
      const bool is_right = program.is_right(subset);
      std::string what;
      const bool is_named = named(program, body, is_right ? 6 : 24, &what);
      const std::string shown = fmt::format("{}, subset {}: {}", program.what, subset, what);
      CHECK_MESSAGE(is_named != is_right, shown);
      ++(is_right ? right_ : wrong_);
    }
  }
  void tell() const { MESSAGE(wrong_, " wrong programs, ", right_, " right ones"); }

 private:
  bool named(const SubsetProgram& program, const std::string& body, uint64_t seeds, std::string* what) const {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      EmulatorOptions options;
      options.seed = seed;
      const auto fault = fault_of([&] { run_(program, body, options); }, what);
      if (!fault) continue;
      // Such a fault would be an error in the test itself.
      for (const Fault other : {Fault::undefined_register, Fault::operand, Fault::unsupported,
                                Fault::out_of_bounds, Fault::misaligned, Fault::divergence})
        CHECK_MESSAGE(*fault != other, *what);
      return true;
    }
    return false;
  }

  Run run_;
  size_t right_ = 0, wrong_ = 0;
};

}  // namespace ptxbuilder::runtime
