// A kernel of the library that is run as it is, or with its PTX changed. What the library calls ptx() and the
// namespace ptx do not go into one file, so this header knows neither.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test {

// One configuration of a kernel family, small enough for hundreds of runs.
class Subject {
 public:
  Subject(const std::string& family, const std::map<std::string, int64_t>& fields);
  ~Subject();

  std::string name() const;  // "gemm_tile m=128"
  const std::string& text() const;

  // Runs `text` in place of the kernel's own PTX and verifies, on `schedules` schedules from `seed` on: the
  // fault that this ends with, if any, and the report, "right" or what is wrong.
  std::optional<runtime::Fault> run(const std::string& text, uint64_t seed, int schedules,
                                    std::string& report) const;

 private:
  struct Built;
  std::unique_ptr<Built> built_;
};

}  // namespace ptxbuilder::test
