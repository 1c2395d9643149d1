// `ptxb diff`: how two kernels differ in what they do.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/command/commands.h"
#include "kernels/command/ptx_source.h"
#include "ptxbuilder/analysis/diff.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

constexpr int kDifferent = 1, kFailed = 2;

struct Options {
  std::string a, b, kernel_a, kernel_b;
  bool json = false, all = false;
};

std::vector<Region> regions_of(const std::string& from, const std::string& kernel) {
  const std::string source = ptx_source(from);
  try {
    const ptx::Module module = ptx::parse(source);
    const Code code = Code::of(module, kernel);
    const Graph graph = Graph::of(code);
    Values values(code, graph);
    return regions(portrait(code, graph, values), code, graph, values);
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", from, e.what()));
  }
}

Json to_json(const Difference& d) {
  return {{"weight", name(d.weight)}, {"region", d.region}, {"event", d.event},
          {"attribute", d.attribute}, {"a", d.a},           {"b", d.b},
          {"effect", d.effect},       {"line_a", d.line_a}, {"line_b", d.line_b}};
}

// 0: nothing of meaning differs, 1: something does, 2: an error.
int run(const Options& o) try {
  const std::vector<Difference> differences =
      diff(regions_of(o.a, o.kernel_a), regions_of(o.b, o.kernel_b.empty() ? o.kernel_a : o.kernel_b));
  if (o.json) {
    Json facts = Json::array(), others = Json::array();
    for (const Difference& d : differences) (d.is_fact ? facts : others).push_back(to_json(d));
    fmt::print("{}\n", Json{{"a", o.a}, {"b", o.b}, {"facts", facts}, {"differences", others}}.dump(2));
  } else {
    fmt::print("{}", report(differences, o.all));
    if (differences.empty()) fmt::print("no difference of meaning\n");
  }
  return differences.empty() ? 0 : kDifferent;
} catch (const Error& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return kFailed;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("diff", "how two kernels' PTX differs in what it does");
  auto o = std::make_shared<Options>();
  app.option("a", o->a, ptx_source_help).required();
  app.option("b", o->b, "the same").required();
  app.option("--kernel", o->kernel_a, "of files that have several").shown_as("NAME");
  app.option("--kernel-b", o->kernel_b, "of B, where it is called otherwise").shown_as("NAME");
  app.flag("--all", o->all, "each difference, where many of a kind or of a region would be counted");
  app.flag("--json", o->json, "as JSON");
  app.footer("Exit code 0: no difference of meaning was found; 1: there is one; 2: an error.");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::command
