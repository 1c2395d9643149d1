// `prove` shows that matrix instructions and stores read data from the addresses to which copies and
// registers have written it.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/outcome.h"
#include "kernels/family/run_line.h"
#include "ptxbuilder/proof/proof.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Counterexample& wrong) {
  auto element = [](const std::optional<Counterexample::Element>& e) {
    return e ? Json{e->row, e->col} : Json();
  };
  auto number = [](const std::optional<int64_t>& n) { return n ? Json(*n) : Json(); };
  return {{"operation", wrong.operation},         {"wanted", element(wrong.wanted)},
          {"wanted_at", number(wrong.wanted_at)}, {"found", element(wrong.found)},
          {"address", number(wrong.address)},     {"reason", wrong.reason},
          {"line", to_string(wrong.where)}};
}

Json to_json(const KernelRecord& record, const Fields& fields, const Proof& proof) {
  Json links = Json::array();
  for (const Proof::Link& link : proof.links)
    links.push_back({{"text", link.text},
                     {"elements", link.elements},
                     {"bank_ways", link.bank_ways},
                     {"line", to_string(link.where)}});
  return {{"kernel", record.kernel},
          {"fields", fields.text()},
          {"proved", static_cast<bool>(proof)},
          {"elements", proof.elements()},
          {"links", links},
          {"unproved", proof.unproved},
          {"counterexample", proof ? Json() : to_json(*proof.counterexample)}};
}

void print(const KernelRecord& record, const Fields& fields, const Proof& proof) {
  fmt::print("{} {}\n", record.kernel, fields.text());
  for (const Proof::Link& link : proof.links)
    fmt::print("  {}: {} elements ({})\n", link.text, link.elements, to_string(link.where));
  for (const std::string& text : proof.unproved) fmt::print("  not tried: {}\n", text);
  if (!proof)
    fmt::print("counterexample: {}\n", proof.counterexample->text());
  else if (proof.links.empty())
    fmt::print("nothing to prove: there is no copy whose source and reader are known\n");
  else
    fmt::print("proved: {} elements are where they are read\n", proof.elements());
}

}  // namespace

int prove_family(const Family& family, const Fields& fields, bool json) {
  Kernel kernel = family.build(fields);
  kernel.builder().finish();  // checks the rules that apply at a kernel's end
  const KernelRecord& record = kernel.record();
  const Proof proof = prove(record);
  if (json)
    fmt::print("{}\n", to_json(record, fields, proof).dump(2));
  else
    print(record, fields, proof);
  return static_cast<int>(proof ? Outcome::good : Outcome::wrong_result);
}

void add_prove(std::vector<Command>& commands, const Arguments& top) {
  auto json = std::make_shared<bool>(false);
  add_kernel_command(
      commands, top, "prove", what_prove_does,
      [json](const Arguments& app, const Family&) { app.flag("--json", *json, "as JSON"); },
      [json](const ChosenKernel& chosen) { return prove_family(chosen.family, chosen.fields, *json); });
}

}  // namespace ptxbuilder::command
