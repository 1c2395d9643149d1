// `lint` finds those errors in a kernel's PTX that can be found without running the kernel.
#include "ptxbuilder/analysis/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/command/kernel_commands.h"
#include "kernels/simulate/launch_file.h"
#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/prove_schedules.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/sidecar.h"
#include "ptxbuilder/version.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

struct LintOptions {
  std::vector<std::string> words;
  std::string kernel, allowed, launch;
  bool json = false, rules = false, sarif = false, undecided = false, prove = false;
};

Json to_json(const Finding& f) {
  return {{"rule", f.rule}, {"line", f.line},        {"column", f.column},
          {"what", f.what}, {"lines", f.lines},      {"times", f.times},
          {"cure", f.cure}, {"advice", f.is_advice}, {"undecided", f.is_undecided}};
}

// A report in the format SARIF 2.1.0 (OASIS). Editors and code hosts display its results at the lines of a
// file.
class Sarif {
 public:
  explicit Sarif(std::string file) : file_(std::move(file)) {
    for (const RuleText& rule : lint_rules())
      rules_.push_back({{"id", rule.name},
                        {"shortDescription", {{"text", rule.finds}}},
                        {"help", {{"text", rule.cure}}},
                        {"defaultConfiguration", {{"level", rule.is_advice ? "note" : "warning"}}}});
  }

  void add(const std::string& kernel, const Finding& f) {
    Json others = Json::array();
    for (uint32_t line : f.lines) others.push_back({{"physicalLocation", place(line, 1)}});
    Json location = {{"logicalLocations", {{{"name", kernel}, {"kind", "function"}}}}};
    if (f.line > 0) location["physicalLocation"] = place(f.line, f.column);
    results_.push_back({{"ruleId", f.rule},
                        {"level", f.is_advice || f.is_undecided ? "note" : "warning"},
                        {"message", {{"text", fmt::format("{}. {}", f.what, f.cure)}}},
                        {"locations", Json::array({location})},
                        {"relatedLocations", others},
                        {"occurrenceCount", f.times}});
  }

  std::string text() const {
    const Json driver = {{"name", "ptxb lint"},
                         {"version", fmt::format("{}.{}.{}", PTXBUILDER_VERSION_MAJOR,
                                                 PTXBUILDER_VERSION_MINOR, PTXBUILDER_VERSION_PATCH)},
                         {"rules", rules_}};
    return Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                {"version", "2.1.0"},
                {"runs", {{{"tool", {{"driver", driver}}}, {"results", results_}}}}}
        .dump(2);
  }

 private:
  Json place(uint32_t line, uint32_t column) const {
    return {{"artifactLocation", {{"uri", file_}}},
            {"region", {{"startLine", line}, {"startColumn", std::max<uint32_t>(column, 1)}}}};
  }

  std::string file_;
  Json rules_ = Json::array(), results_ = Json::array();
};

int list_rules() {
  for (const RuleText& rule : lint_rules())
    fmt::print("{:20} {}.\n{:20} {}\n", rule.name, rule.finds, "", rule.cure);
  return 0;
}

std::set<std::string, std::less<>> words_of(const std::string& list) {
  std::istringstream text(list);
  std::set<std::string, std::less<>> words;
  for (std::string word; std::getline(text, word, ',');) words.insert(word);
  return words;
}

std::string_view name_of(ScheduleProof::Verdict verdict) {
  constexpr std::string_view names[] = {"proved", "refuted", "undecided"};
  return names[static_cast<size_t>(verdict)];
}

// Proves the kernels, and returns the worst of their exit codes.
int prove_kernels(const ptx_text::Module& module, const std::vector<std::string>& kernels, bool json) {
  Json all = Json::array();
  bool refuted = false, undecided = false;
  for (const std::string& kernel : kernels) {
    const ScheduleProof p = prove_schedules(module, kernel);
    refuted = refuted || p.verdict == ScheduleProof::Verdict::refuted;
    undecided = undecided || p.verdict == ScheduleProof::Verdict::undecided;
    all.push_back({{"kernel", kernel},
                   {"verdict", name_of(p.verdict)},
                   {"what", p.what},
                   {"line", p.line},
                   {"column", p.column},
                   {"lines", p.lines},
                   {"late", p.late},
                   {"assumed", p.assumed},
                   {"turns", p.turns},
                   {"runs", p.runs}});
    if (!json) fmt::print("{}: {}\n", kernel, text(p));
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return refuted ? 1 : undecided ? 3 : 0;
}

void add_maps(const std::vector<LaunchParameter>& parameters, int number, TensorMaps& to) {
  for (const LaunchParameter& p : parameters) {
    const int own = number == kNone ? static_cast<int>(&p - parameters.data()) : number;
    if (p.kind == LaunchParameter::Kind::tensor_map) to[{own, p.at}] = p.map.recipe.swizzle;
    add_maps(p.members, own, to);
  }
}

// Returns the tensor maps from the launch file, or from a sidecar in the PTX's folder.
TensorMaps maps_of(const LintOptions& o, const std::string& kernel) {
  TensorMaps maps;
  if (!o.launch.empty()) {
    for (const KernelLaunch& launch : launch_from_json(file_text(o.launch), o.launch).launches)
      add_maps(launch.parameters, kNone, maps);
  } else if (o.words.size() == 1 && o.words[0].ends_with(".ptx")) {
    const std::string name = std::filesystem::path(o.words[0]).replace_extension().string();
    if (const auto signature = find_sidecar(name, kernel))
      for (const Parameter& p : signature->parameters)
        if (p.kind == Parameter::Kind::tensor_map)
          maps[{static_cast<int>(&p - signature->parameters.data()), 0}] = p.tensor_map.swizzle;
  }
  return maps;
}

int lint_kernels(const std::string& source, const LintOptions& o) {
  const ptx_text::Module module = ptx_text::parse(source);
  const std::vector<std::string> kernels = o.kernel.empty() ? kernels_of(module) : std::vector{o.kernel};
  if (kernels.empty()) throw Error("there is no kernel in it: no .entry with a body");
  if (o.prove) return prove_kernels(module, kernels, o.json);
  Json all = Json::array();
  Sarif sarif(o.words.size() == 1 ? o.words[0] : "kernel.ptx");
  size_t found = 0, undecided = 0;
  for (const std::string& kernel : kernels) {
    const std::vector<Finding> findings =
        lint(module, kernel, words_of(o.allowed), o.undecided ? Undecided::all : Undecided::given_up,
             maps_of(o, kernel));
    found += static_cast<size_t>(std::count_if(
        findings.begin(), findings.end(), [](const Finding& f) { return !f.is_advice && !f.is_undecided; }));
    undecided += static_cast<size_t>(
        std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return f.is_undecided; }));
    Json of_kernel = Json::array();
    for (const Finding& f : findings) {
      of_kernel.push_back(to_json(f));
      sarif.add(kernel, f);
    }
    all.push_back({{"kernel", kernel}, {"findings", of_kernel}});
    if (o.json || o.sarif) continue;
    fmt::print("{}: {}\n", kernel,
               findings.empty() ? "nothing found" : fmt::format("{} found", findings.size()));
    for (const Finding& f : findings) fmt::print("  {}\n", text(f));
  }
  if (o.sarif) fmt::print("{}\n", sarif.text());
  if (o.json && !o.sarif) fmt::print("{}\n", all.dump(2));
  return found > 0 ? 1 : undecided > 0 ? 3 : 0;
}

}  // namespace

Command lint_command(const Arguments& top, const PtxReader& reader) {
  const Arguments app = top.command("lint", "find mistakes in a kernel's PTX, without running it");
  auto o = std::make_shared<LintOptions>();
  app.option("from", o->words, reader.help);
  app.option("--kernel", o->kernel, "the kernel to check, if the file has several; by default all of them")
      .shown_as("NAME");
  app.option("--allow", o->allowed, "rules to leave out").shown_as("RULE,...");
  app.flag("--rules", o->rules, "only list the rules");
  app.option("--launch", o->launch,
             "the launch whose tensor maps are compared with the descriptors; by default a sidecar's")
      .shown_as("FILE.json");
  app.flag("--undecided", o->undecided, "also report what the rules skipped, and why");
  app.flag("--json", o->json, "as JSON");
  app.flag("--sarif", o->sarif, "print SARIF 2.1.0, which editors and code hosts show next to the lines");
  app.flag("--prove", o->prove, "prove that the protocol of mbarriers and copies holds for all schedules");
  app.footer(
      "Exit code 0: nothing was found, or only advice; 1: something was found; 2: an error; 3: nothing was "
      "found, but it is not decided: a rule gave up because the kernel is too large for it, or with "
      "--undecided skipped something unknown. With --prove 0: all kernels are proved; 1: one is refuted; 3: "
      "one is undecided, or does not wait for an mbarrier.");
  return {app, [o, reader] {
            if (o->rules) return with_errors_as_2(list_rules);
            return run_on_ptx("lint: pass a PTX file or a kernel, or --rules", o->words, "", reader,
                              [&](const std::string& ptx) { return lint_kernels(ptx, *o); });
          }};
}

}  // namespace ptxbuilder::command
