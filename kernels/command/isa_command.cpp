// `ptxb isa`: the instruction rows.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/command/commands.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

int list(bool json) {
  Json all = Json::array();
  for (const isa::Row& row : isa::rows()) {
    std::string_view target = isa::target(row.sm).name;
    std::string_view effect = row.effect == isa::Effect::pure ? "pure" : "memory";
    if (!json) {
      fmt::print("{}\n", isa::listing(row));
      continue;
    }
    Json operands = Json::array();
    for (const isa::Operand& o : row.operands) {
      constexpr std::string_view access[] = {"read", "write", "read-write"};
      operands.push_back({{"name", o.name},
                          {"class", name(o.cls)},
                          {"count", o.count},
                          {"access", access[static_cast<int>(o.access)]}});
    }
    all.push_back({{"name", row.name},
                   {"syntax", row.syntax},
                   {"effect", effect},
                   {"ptx_version", isa::version_text(row.ptx_version)},
                   {"target", target},
                   {"intrinsic", row.intrinsic},
                   {"operands", operands}});
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app =
      ptxb.command("isa", "the instruction rows with the least PTX version and target of each");
  auto json = std::make_shared<bool>(false);
  app.flag("--json", *json, "with their operands, as JSON");
  return {app, [json] { return list(*json); }};
}

const CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::command
