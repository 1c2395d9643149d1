#include "kernels/inspect/comparison.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/inspect/diff_page.h"
#include "kernels/inspect/sass.h"
#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

template <typename Read>
auto naming_file(const KernelText& kernel, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", kernel.from, e.what()));
  }
}

using ModulePointer = std::shared_ptr<const ptx_text::Module>;
ModulePointer parsed(const KernelText& kernel) {
  return naming_file(kernel,
                     [&] { return std::make_shared<const ptx_text::Module>(ptx_text::parse(kernel.ptx)); });
}
std::unique_ptr<KernelAnalysis> analysed(const KernelText& kernel, const ModulePointer& module,
                                         KernelAnalysis::Variables variables) {
  return naming_file(kernel,
                     [&] { return std::make_unique<KernelAnalysis>(module, kernel.kernel, variables); });
}

Json to_json(const Difference& d) {
  return {{"weight", name(d.weight)}, {"region", d.region}, {"event", d.event},
          {"attribute", d.attribute}, {"a", d.a},           {"b", d.b},
          {"effect", d.effect},       {"line_a", d.line_a}, {"line_b", d.line_b}};
}

// The numbers of occurrences of each mnemonic in A and in B, indexed by region and mnemonic.
using Counts = std::map<std::string, std::map<std::string, std::array<int, 2>>>;
Counts counts_of(const std::vector<Region>& a, const std::vector<Region>& b) {
  Counts counts;
  for (size_t side : {size_t{0}, size_t{1}})
    for (const Region& region : side == 0 ? a : b)
      for (const auto& [mnemonic, times] : region.mnemonics) counts[region.name][mnemonic][side] = times;
  return counts;
}

std::string text(const Counts& counts) {
  std::string all;
  for (const auto& [region, mnemonics] : counts) {
    all += fmt::format("\n{}\n       A       B\n", region);
    for (const auto& [mnemonic, times] : mnemonics)
      all += fmt::format("{:8}{:8}  {}\n", times[0], times[1], mnemonic);
  }
  return all;
}

SassKernel disassembled(const KernelCubin& k, const std::string& nvdisasm) {
  try {
    return sass_of(k.cubin, k.kernel, nvdisasm);
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", k.from, e.what()));
  }
}

Json to_json(const SassKernel& kernel) {
  Json loops = Json::array();
  for (const SassLoop& loop : mainloops(kernel))
    loops.push_back({{"name", loop.name},
                     {"instructions", loop.instructions.size()},
                     {"histogram", histogram(kernel, loop)}});
  return {{"kernel", kernel.name},
          {"registers", kernel.registers},
          {"stack_bytes", kernel.stack_bytes},
          {"instructions", kernel.instructions.size()},
          {"histogram", histogram(kernel)},
          {"loops", loops}};
}

// Converts differences to the result of a comparison. `more` holds members for the JSON in addition to the
// differences.
Comparison told(const std::vector<Difference>& differences, const Telling& telling, const Json& more) {
  Json facts = Json::array(), others = Json::array();
  for (const Difference& d : differences) (d.is_fact ? facts : others).push_back(to_json(d));
  Json json = {{"facts", facts}, {"differences", others}};
  json.update(more);
  return {differences.size(),
          differences.empty() ? "no difference of meaning\n" : report(differences, telling.all),
          json.dump(),
          {}};
}

}  // namespace

Comparison compare(const KernelText& a, const KernelText& b, const Telling& telling) {
  const ModulePointer module_a = parsed(a), module_b = parsed(b);
  const auto variables = have_same_variables(*module_a, *module_b) ? KernelAnalysis::Variables::by_name
                                                                   : KernelAnalysis::Variables::by_use;
  // The full analysis of A requires much memory, so it is kept only if the page needs it.
  auto in_a = analysed(a, module_a, variables);
  const std::vector<Region> regions_a = regions(*in_a);
  if (!telling.page) in_a.reset();
  const auto in_b = analysed(b, module_b, variables);
  const std::vector<Region> regions_b = regions(*in_b);
  const Counts counts = counts_of(regions_a, regions_b);
  const std::vector<Difference> differences = diff(regions_a, regions_b);
  Comparison comparison = told(differences, telling, {{"instructions", counts}});
  if (telling.counts) comparison.text += text(counts);
  if (telling.page) comparison.page = diff_page({a.from, a.ptx, *in_a}, {b.from, b.ptx, *in_b}, differences);
  return comparison;
}

Comparison compare_sass(const KernelCubin& a, const KernelCubin& b, const std::string& nvdisasm,
                        const Telling& telling) {
  const SassKernel in_a = disassembled(a, nvdisasm), in_b = disassembled(b, nvdisasm);
  Comparison comparison = told(diff(regions(in_a), regions(in_b)), telling,
                               {{"sass", {{"a", to_json(in_a)}, {"b", to_json(in_b)}}}});
  comparison.text = side_by_side(in_a, in_b) + "\n" + comparison.text;
  return comparison;
}

EditedDifference compare_edited(const std::string& kernel, const std::string& ptx, const std::string& edited,
                                const std::string& edited_file) {
  const Comparison comparison = compare({"the kernel", ptx, kernel}, {edited_file, edited, kernel});
  return {comparison.text, comparison.json};
}

}  // namespace ptxbuilder::command
