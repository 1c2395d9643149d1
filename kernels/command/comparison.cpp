#include "kernels/command/comparison.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

std::vector<Region> regions_of(const KernelText& kernel) {
  try {
    const ptx::Module module = ptx::parse(kernel.ptx);
    const Code code = Code::of(module, kernel.kernel);
    const Graph graph = Graph::of(code);
    Values values(code, graph);
    return regions(portrait(code, graph, values), code, graph, values);
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", kernel.from, e.what()));
  }
}

Json to_json(const Difference& d) {
  return {{"weight", name(d.weight)}, {"region", d.region}, {"event", d.event},
          {"attribute", d.attribute}, {"a", d.a},           {"b", d.b},
          {"effect", d.effect},       {"line_a", d.line_a}, {"line_b", d.line_b}};
}

}  // namespace

Comparison compare(const KernelText& a, const KernelText& b, bool all) {
  const std::vector<Difference> differences = diff(regions_of(a), regions_of(b));
  Json facts = Json::array(), others = Json::array();
  for (const Difference& d : differences) (d.is_fact ? facts : others).push_back(to_json(d));
  return {differences.size(), differences.empty() ? "no difference of meaning\n" : report(differences, all),
          Json{{"facts", facts}, {"differences", others}}.dump()};
}

}  // namespace ptxbuilder::command
