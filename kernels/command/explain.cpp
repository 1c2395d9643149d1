// `explain` describes the behavior of a kernel's PTX on one page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/command/kernel_commands.h"
#include "kernels/inspect/explain_page.h"
#include "ptxbuilder/analysis/facts.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

struct ExplainOptions {
  std::vector<std::string> words;
  std::string kernel, page;
  bool json = false;
};

Json to_json(const KernelAnalysis& kernel) {
  const Portrait& p = kernel.portrait;
  const Values& values = kernel.values;
  auto role = [&](int number) {
    return number == kNone ? Json() : Json(p.roles[static_cast<size_t>(number)].name);
  };
  auto line = [&](int operation) { return kernel.code.operations[at(operation)].at.line; };
  Json json = {
      {"kernel", p.kernel}, {"threads", p.threads}, {"roles", Json::array()}, {"barriers", Json::array()}};
  for (const Role& r : p.roles)
    json["roles"].push_back(
        {{"name", r.name}, {"warps", r.warps}, {"registers", r.registers ? Json(*r.registers) : Json()}});
  for (const BarrierArray& b : p.barriers) {
    Json uses = Json::array();
    for (const BarrierUse& use : b.uses) {
      uses.push_back({{"role", role(use.role)},
                      {"does", name(use.kind)},
                      {"line", line(use.operation)},
                      {"remote", use.remote}});
      if (use.kind == BarrierUse::Kind::expects) uses.back()["bytes"] = values.text(use.amount);
    }
    json["barriers"].push_back({{"at", values.text(b.base)},
                                {"count", b.count},
                                {"arrivals", b.arrivals ? Json(*b.arrivals) : Json()},
                                {"uses", uses}});
  }
  for (const Mainloop& loop : p.loops) {
    Json steps = Json::array();
    for (const Step& step : loop.steps)
      steps.push_back({{"text", step.text}, {"times", step.times}, {"line", line(step.first)}});
    json["loops"].push_back({{"role", role(loop.role)},
                             {"first_line", loop.first_line},
                             {"last_line", loop.last_line},
                             {"steps", steps}});
  }
  json["products_outside"] = Json::array();
  for (int operation : p.products_outside) json["products_outside"].push_back(line(operation));
  json["unknown"] = p.unknowns;
  return json;
}

std::string value_of(const Event& fact) { return fact.attributes[0].value; }

// Returns whether a value means that the kernel does not have the property. The text omits such values;
// --json contains them.
bool is_nothing(const std::string& value) {
  return value == "none" || value == "no" || value == "0" || value == "0 B" || value == "not said";
}

int explain(const std::string& source, const ExplainOptions& o) {
  KernelAnalysis kernel(source, o.kernel);
  std::vector<Region> design = facts(kernel);
  std::erase_if(design,
                [](const Region& region) { return region.name == "unknown"; });  // listed in the portrait
  if (o.json) {
    Json json = to_json(kernel);
    for (const Region& region : design)
      for (const Event& fact : region.events) json["facts"][region.name][fact.kind] = value_of(fact);
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  for (Region& region : design)
    std::erase_if(region.events, [](const Event& fact) { return is_nothing(value_of(fact)); });
  if (!o.page.empty()) {
    std::ofstream file(o.page, std::ios::binary);
    if (!(file << explain_page(fmt::format("{}", fmt::join(o.words, " ")), source, kernel, design)).flush())
      throw Error(fmt::format("{}: it cannot be written", o.page));
  }
  fmt::print("{}", text(kernel));
  for (const Region& region : design) {
    if (!region.events.empty()) fmt::print("\n{}\n", region.name);
    for (const Event& fact : region.events) fmt::print("  {}: {}\n", fact.kind, value_of(fact));
  }
  return 0;
}

}  // namespace

Command explain_command(const Arguments& top, const PtxReader& reader) {
  const Arguments app =
      top.command("explain", "show which roles, barriers and loops a kernel's PTX has, and what they do");
  auto o = std::make_shared<ExplainOptions>();
  app.option("from", o->words, reader.help);
  app.option("--kernel", o->kernel, "the kernel to show, if the file has several").shown_as("NAME");
  app.option("--html", o->page, "write a page that shows it").shown_as("FILE");
  app.flag("--json", o->json, "as JSON, including properties that the kernel does not have");
  app.footer("Exit code 0, or 2 for an error.");
  return {app, [o, reader] {
            return run_on_ptx("explain: pass a PTX file or a kernel", o->words, o->kernel, reader,
                              [&](const std::string& ptx) { return explain(ptx, *o); });
          }};
}

}  // namespace ptxbuilder::command
