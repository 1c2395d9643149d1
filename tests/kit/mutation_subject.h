// A kernel of the library that runs unchanged, or with changed PTX.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/emulator/emulator.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::test {

// One configuration of a kernel, which is small enough for hundreds of runs.
class Subject {
 public:
  // Uses the kernel of a family.
  Subject(const std::string& family, const std::map<std::string, int64_t>& fields);
  // Uses a test's own kernel. `check` launches it, and returns "right" or what is wrong.
  using Check = std::function<std::string(runtime::Device&, runtime::LoadedKernel&)>;
  Subject(std::string name, std::string text, Signature signature, Check check);
  ~Subject();

  std::string name() const;  // such as "gemm_tile m=128"
  const std::string& text() const;

  // Runs `text` instead of the kernel's own PTX on `schedules` schedules, starting at `seed`, and verifies
  // the results. Returns the fault that ends the runs, if any, and sets `report` to "right" or to what is
  // wrong. Adds notes to `notes` unless it is null.
  std::optional<runtime::Fault> run(const std::string& text, uint64_t seed, int schedules,
                                    std::string& report, std::string* notes = nullptr) const;
  // Runs the unchanged kernel `times` times, on any device.
  std::string run_on(runtime::Device& device, int times) const;

 private:
  struct Built;
  std::unique_ptr<Built> built_;
};

}  // namespace ptxbuilder::test
