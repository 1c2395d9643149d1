// `ptxb isa`: the instructions.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/command/commands.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"
#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string key, family, target, text;
  bool json = false;

  bool asks_the_manual() const { return !family.empty() || !target.empty() || !text.empty(); }
};

// Whether the emulator knows the instruction.
bool is_emulated(const isa::Row& row) {
  try {
    const ptx::Module module = ptx::parse(standalone_module(row, row.targets.least(), row.ptx_version));
    runtime::emulator::GlobalMemory memory;
    return runtime::emulator::Decoder(module, "row", memory).run().refused.empty();
  } catch (const Error&) {  // of a form that it cannot read
    return false;
  }
}

Json as_json(const isa::Row& row, std::string_view section) {
  Json operands = Json::array();
  for (const isa::Operand& o : row.operands) {
    constexpr std::string_view access[] = {"read", "write", "read-write"};
    operands.push_back({{"name", o.name},
                        {"class", name(o.cls)},
                        {"count", o.count},
                        {"access", access[static_cast<int>(o.access)]}});
    if (o.takes_numbers()) operands.back().update({{"numbers", bounds_text(o)}});
    if (o.cls == isa::Class::imm)
      operands.back().update({{"least", o.least}, {"greatest", o.greatest}, {"step", o.step}});
  }
  return {{"name", row.name},
          {"syntax", row.syntax},
          {"effect", row.effect == isa::Effect::pure ? "pure" : "memory"},
          {"ptx_version", isa::version_text(row.ptx_version)},
          {"target", row.targets.text()},
          {"intrinsic", row.intrinsic},
          {"operands", operands},
          {"section", section},
          {"emulated", is_emulated(row)},
          {"example", isa::example(row)}};
}

// One instruction in full.
std::string page(const isa::Row& row) {
  std::string text = fmt::format("{}\n\n  {}\n\n", row.name, row.syntax);
  text += fmt::format("section   {}\n", section_of(row));
  text += fmt::format("needs     PTX {}, {}\n", isa::version_text(row.ptx_version), row.targets.text());
  text += fmt::format("effect    {}\n", row.effect == isa::Effect::pure
                                            ? "pure: its results depend on its operands alone"
                                            : "memory: it keeps its place");
  text += fmt::format("emulator  {}\n", is_emulated(row) ? "executes it" : "does not know it");
  for (const isa::Operand& o : row.operands) {
    const char* access = !o.writes() ? "read" : o.reads() ? "read and written" : "written";
    text += fmt::format("operand   {}: {}{}, {}\n", o.name, name(o.cls),
                        o.cls == isa::Class::imm ? " " + bounds_text(o)
                        : o.list                 ? fmt::format(" x {}", o.count)
                                                 : "",
                        access);
  }
  return text + fmt::format("C++       {}\n", isa::example(row));
}

int run(const Options& options) {
  if (!options.key.empty()) {
    const isa::Row* named = isa::find(options.key);
    const isa::Row& row = named ? *named : isa::instruction(options.key, Where{});
    fmt::print("{}", options.json ? as_json(row, section_of(row)).dump(2) + "\n" : page(row));
    return 0;
  }
  Json all = Json::array();
  const auto tell = [&](const isa::Row& row, std::string_view section) {
    if (options.json)
      all.push_back(as_json(row, section));
    else
      fmt::print("{}\n", isa::listing(row));
  };
  int found = 0;
  if (options.asks_the_manual()) {
    const isa::Target* target = options.target.empty() ? nullptr : &isa::target(options.target, Where{});
    isa::for_each_instruction([&](const isa::MadeRow& made, std::string_view section) {
      const std::string_view key = made.name.view();
      if (target && !made.targets.has(target->sm)) return;
      if (!options.family.empty() && key.substr(0, key.find_first_of(". ")) != options.family) return;
      if (key.find(options.text) == std::string_view::npos) return;
      ++found;
      tell(made.row(), section);
    });
    if (found == 0)
      throw Error("isa: no instruction of PTX is such; `ptxb isa --json --sm sm_90a` lists all of a target");
  } else {
    for (const isa::Row& row : isa::rows()) tell(row, options.json ? section_of(row) : "");
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command(
      "isa",
      "the instructions: those with short names, or of all in PTX's manual the ones that are asked for");
  auto o = std::make_shared<Options>();
  app.option("key", o->key, "one instruction, told in full: a short name or a mnemonic, as tanh.approx.f32");
  app.option("--find", o->text, "those with TEXT in the mnemonic").shown_as("TEXT");
  app.option("--family", o->family, "those with this first word, as mbarrier").shown_as("WORD");
  app.option("--sm", o->target, "those that run on a target, as sm_90a").shown_as("SM");
  app.flag("--json", o->json,
           "with operands, section, example, and whether the emulator executes them, as JSON");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::command
