#include "ptxbuilder/isa/query.h"

#include <fmt/format.h>

namespace ptxbuilder::isa {

std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded) {
  AuthorsCode no_line;  // the answer names none
  try {
    lower(row, fillings, guarded);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

RowUse uses(const Row& row) {
  RowUse use{{}, row.effect == Effect::memory};
  for (size_t i = 0; i < row.operands.size(); ++i) {
    const Operand& o = row.operands[i];
    const bool is_address = o.cls == Class::smem || o.cls == Class::cluster || o.cls == Class::gmem ||
                            o.cls == Class::generic || o.cls == Class::tmap;
    use.operands.push_back({i, o.reads(), o.writes(), is_address});
  }
  return use;
}

std::string refusal(const Row& row, const Target& target, int ptx_version) {
  if (!runs_on(row.sm, target.sm))
    return fmt::format("{}: needs {}, but the target is {}: raise the target", row.name,
                       isa::target(row.sm).name, target.name);
  if (ptx_version < row.ptx_version)
    return fmt::format("{}: needs PTX {}, but the module's .version is {}: raise it", row.name,
                       version_text(row.ptx_version), version_text(ptx_version));
  return "";
}

std::string listing(const Row& row) {
  return fmt::format("{:46} PTX {:4} {:7} {:7} {}", row.name, version_text(row.ptx_version),
                     target(row.sm).name, row.effect == Effect::pure ? "pure" : "memory", row.syntax);
}

}  // namespace ptxbuilder::isa
