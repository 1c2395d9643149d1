#include "ptxbuilder/compile/certify.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

// What ptxas says against the row; "" where it takes it.
std::string refusal(const Ptxas& ptxas, const isa::Row& row, const isa::Target& target, int ptx_version) {
  const std::string module = standalone_module(row, target, ptx_version);
  try {
    ptxas.assemble(module);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

bool names_a_floor(std::string_view message) {
  return message.find("requires") != std::string_view::npos ||
         message.find("not supported") != std::string_view::npos;
}

void certify(const Ptxas& ptxas, const isa::Row& row, Where where) {
  CallersLine line(where);
  const isa::Target& target = row.targets.least();
  auto at = [](const isa::Target& t, int version) {
    return fmt::format("for {} and PTX {}", t.name, isa::version_text(version));
  };
  if (const std::string text = refusal(ptxas, row, target, row.ptx_version); !text.empty())
    throw Error(fmt::format("row {}: ptxas refuses it {}, its floor: {}; {}", row.name,
                            at(target, row.ptx_version), text,
                            names_a_floor(text) ? "raise the floor" : "mend the syntax line or a class"));
  auto check_refused = [&](const isa::Target& t, int version, std::string_view floor) {
    const std::string text = refusal(ptxas, row, t, version);
    if (names_a_floor(text)) return;
    throw Error(fmt::format("row {}: {} is below its floor, but ptxas {}; lower the {}", row.name,
                            at(t, version), text.empty() ? "takes it" : "says otherwise: " + text, floor));
  };
  if (const isa::Target* before = isa::target_before(target.sm))
    check_refused(*before, row.ptx_version, "target");
  if (const auto before = isa::version_before(row.ptx_version); before && *before >= target.ptx_version)
    check_refused(target, *before, ".version");
}

}  // namespace ptxbuilder
