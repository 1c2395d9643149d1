// Changes a piece of the code of a kernel for several ranks, and tries schedules of the emulator until one
// reports the fault.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "folder_kit.h"
#include "options.h"
#include "ptxbuilder/compile/compile.h"
#include "runtime/compile/load.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test {

// --ranks=N: cases and mutants have N ranks, and run on twenty schedules.
inline const int& asked_ranks = option("ranks", 0);

inline std::vector<int> ranks_or(std::vector<int> usual) {
  return asked_ranks > 0 ? std::vector{asked_ranks} : usual;
}

inline LoadOptions uncached() {
  LoadOptions options;
  options.cache = false;
  return options;
}

inline std::string compiled_ptx(Kernel kernel) {
  CompilerOptions options;
  options.cache = false;
  options.assemble = false;
  return Compiler(options).compile(std::move(kernel)).ptx;
}

// A fault in a kernel's PTX: `to` replaces the first text that the pattern `from` matches, or every match.
struct PtxMutant {
  const char* what;
  std::string from, to;
  bool once = false;
};

// Runs a mutant on up to two dozen schedules, and returns the emulator's first report of a race or a
// deadlock. `run` makes the calls with a seed and options.
inline std::string report_of(const PtxMutant& m, const std::string& right,
                             const std::function<void(uint64_t seed, const LoadOptions&)>& run) {
  const std::string text = std::regex_replace(
      right, std::regex(m.from), m.to,
      m.once ? std::regex_constants::format_first_only : std::regex_constants::format_default);
  REQUIRE(text != right);
  LoadOptions options = uncached();
  const Folder folder;
  options.ptx_file = folder.path("mutant.ptx");
  std::ofstream(options.ptx_file) << text;
  std::string report;
  for (uint64_t seed = 0; seed < 24 && report.empty(); ++seed) try {
      run(seed, options);
    } catch (const runtime::EmulatorError& e) {
      CHECK((e.fault() == runtime::Fault::race || e.fault() == runtime::Fault::deadlock));
      report = e.what();
    }
  return report;
}

}  // namespace ptxbuilder::test
