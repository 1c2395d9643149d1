#include "kernels/inspect/register_warning.h"

#include <fmt/format.h>

#include "ptxbuilder/analysis/register_estimate.h"
#include "ptxbuilder/compile/line_map.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {

std::string register_warning(const std::string& ptx, const Signature& signature) {
  const ptx_text::Module module = ptx_text::parse(ptx);
  const analysis::Code code = analysis::Code::of(module, signature.kernel);
  std::string text;
  for (const analysis::RegisterEstimate& e : analysis::estimate_registers(code, analysis::Graph::of(code))) {
    if (!e.is_too_large()) continue;
    const SourceLine source = LineMap(ptx).at(static_cast<int>(e.line));
    text += fmt::format(
        "{}kernel '{}': a thread needs about {} registers{} (PTX line {}), {} of them accumulators, but has "
        "{}: ptxas will spill or refuse; choose a smaller tile, keep fewer values at once, or give the role "
        "more registers",
        text.empty() ? "" : "\nwarning: ", signature.kernel, e.registers,
        source ? " at " + to_string(source) : "", e.line, e.accumulators, *e.granted);
  }
  return text;
}

void warn_of_registers(const std::string& ptx, const Signature& signature) {
  std::string text;
  try {
    text = register_warning(ptx, signature);
  } catch (const Error&) {
    return;  // the PTX was edited, and ptxas will report the error
  }
  if (!text.empty()) fmt::print(stderr, "warning: {}\n", text);
}

}  // namespace ptxbuilder::command
