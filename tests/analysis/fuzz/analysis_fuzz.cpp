// A libFuzzer target for the analysis. Each kernel of every module that the parser accepts is read, compared
// with itself, linted and passed to the prover, unless it is refused with an Error.
#include <cstdlib>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/analysis/prove_schedules.h"
#include "ptxbuilder/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptxbuilder;
  using namespace ptxbuilder::analysis;
  try {
    const auto module = std::make_shared<const ptx_text::Module>(
        ptx_text::parse({reinterpret_cast<const char*>(data), size}));
    for (const std::string& name : kernels_of(*module)) {
      KernelAnalysis kernel(module, name);
      (void)text(kernel);
      const std::vector<Region> all = regions(kernel);
      if (!diff(all, all).empty()) std::abort();
      for (const Finding& finding : lint(*module, name)) (void)text(finding);
      (void)text(prove_schedules(*module, name));
    }
  } catch (const Error&) {
  }
  return 0;
}
