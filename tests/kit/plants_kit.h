// PTX programs in which the emulator finds no fault until one piece is changed.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {

inline constexpr Fault none = Fault(255);  // the change is correct as well
inline constexpr Fault some = Fault(254);  // the kind of fault depends on the schedule

struct Leave {
  std::string out;      // the piece to remove
  std::string instead;  // the replacement for the piece
  Fault fault = Fault::race;
};

// Returns the body with one piece replaced.
inline std::string planted(std::string body, const Leave& leave) {
  const size_t at = body.find(leave.out);
  REQUIRE_MESSAGE(at != std::string::npos, leave.out);
  return body.replace(at, leave.out.size(), leave.instead);
}

// Checks rows of programs. A row has a description, a body, pieces to replace, the number of CTAs, and the
// size of a cluster.
class Plants {
 public:
  using Kernel = std::function<std::string(const std::string& body, int cluster)>;
  // Programs are launched with `threads` threads per CTA and 16 KB of zeros, and must end within `limit`.
  Plants(Kernel kernel, uint32_t threads, std::chrono::seconds limit)
      : kernel_(std::move(kernel)), threads_(threads), limit_(limit) {}

  // Runs the unchanged program on some schedules, and each plant until it is reported.
  template <class Row>
  void check(const Row& row, uint64_t seeds, uint64_t seeds_of_plants) {
    std::string what;
    const auto right = outcome(row.body, row, seeds, &what);
    const std::string shown = fmt::format("{}: {}", row.what, what);
    CHECK_MESSAGE(!right, shown);
    ++right_;
    for (const Leave& leave : row.leave) {
      const auto fault = outcome(planted(row.body, leave), row, seeds_of_plants, &what);
      const std::string says = fmt::format("{}, '{}' for '{}': {}", row.what, leave.instead, leave.out, what);
      CHECK_MESSAGE((leave.fault == none   ? !fault
                     : leave.fault == some ? fault.has_value()
                                           : fault == leave.fault),
                    says);
      ++(leave.fault == none ? right_ : plants_);
    }
  }
  void tell() const { MESSAGE(plants_, " plants, ", right_, " right programs"); }

 private:
  template <class Row>
  std::optional<Fault> outcome(const std::string& body, const Row& row, uint64_t seeds, std::string* what) {
    const std::string text = kernel_(body, row.cluster);
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      EmulatorOptions options;
      options.seed = seed;
      const auto fault = fault_of(
          [&] {
            Bench bench(text, threads_, options);
            const Address p = bench.upload(std::vector<uint32_t>(4096));
            bench.run_for(limit_, {row.ctas, 1, 1}, 0, p);
          },
          what);
      if (fault) return fault;
    }
    return std::nullopt;
  }

  Kernel kernel_;
  uint32_t threads_;
  std::chrono::seconds limit_;
  size_t plants_ = 0, right_ = 0;
};

}  // namespace ptxbuilder::runtime
