// A libFuzzer target of the analysis: of every module that the parser takes, each kernel is read, compared
// with itself and linted, or refused by an Error.
#include <cstdlib>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptxbuilder;
  using namespace ptxbuilder::analysis;
  try {
    const ptx::Module module = ptx::parse({reinterpret_cast<const char*>(data), size});
    for (const std::string& name : kernels_of(module)) {
      const Code code = Code::of(module, name);
      const Graph graph = Graph::of(code);
      Values values(code, graph);
      const Portrait told = portrait(code, graph, values);
      (void)text(told, code, values);
      const std::vector<Region> all = regions(told, code, graph, values);
      if (!diff(all, all).empty()) std::abort();
      for (const Finding& finding : lint(module, name)) (void)text(finding);
    }
  } catch (const Error&) {
  }
  return 0;
}
