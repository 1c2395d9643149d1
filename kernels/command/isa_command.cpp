// `ptxb isa` lists and describes the instructions that the library supports.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/recognise.h"
#include "ptxbuilder/isa/rows.h"
#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::command::isa_command {

using isa::KeyParts;
using Json = nlohmann::ordered_json;

struct Options {
  std::string key, family, target, text;
  bool json = false;

  bool asks_the_manual() const { return !family.empty() || !target.empty() || !text.empty(); }
};

// A name that users search for although it is not an instruction, with its replacement.
struct Otherwise {
  std::string_view name, call;
};
constexpr Otherwise kOtherwise[] = {
    {"vprintf",
     "print(\"%u\\n\", {x}) of ptxbuilder/ir/memory.h calls CUDA's printf, a function of the driver"},
    {"bra", "if_, for_ and while_ of ptxbuilder/ir/control.h make branches"},
    {"ld.param", "Kernel::params of ptxbuilder/tile/kernel.h yields the parameters of a kernel"},
    {"tex", "textures and surfaces (tex, tld4, txq, suld, sust) have no rows; ptx(\"...\") writes them"},
};

// Prints the entries with names that contain `text`; returns false if there are none.
bool tell_otherwise(std::string_view text, bool as_json) {
  Json all = Json::array();
  for (const Otherwise& other : kOtherwise)
    if (other.name.find(text) != std::string_view::npos)
      all.push_back({{"name", other.name}, {"call", other.call}});
  if (as_json && !all.empty()) fmt::print("{}\n", all.dump(2));
  if (!as_json)
    for (const Json& other : all)
      fmt::print("{} is not a row: {}\n", other["name"].get<std::string>(), other["call"].get<std::string>());
  return !all.empty();
}

// Returns whether the emulator supports the instruction.
bool is_emulated(const isa::Row& row) {
  if (isa::example(row).empty())  // some operands are names, so a generated kernel cannot test the row
    return std::ranges::any_of(runtime::emulator::decode_table(),
                               [&](const auto& entry) { return row.mnemonic().starts_with(entry.first); });
  try {
    const ptx_text::Module module =
        ptx_text::parse(standalone_module(row, row.targets.least(), row.ptx_version));
    runtime::emulator::GlobalMemory memory;
    return runtime::emulator::Decoder(module, "row", memory).run().refused.empty();
  } catch (const Error&) {  // the emulator cannot read this form of the instruction
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
          {"early_ptx_version", row.early.ptx_version ? isa::version_text(row.early.ptx_version) : ""},
          {"early_target", row.early.ptx_version ? row.early.targets.text() : ""},
          {"intrinsic", row.intrinsic},
          {"operands", operands},
          {"section", section},
          {"emulated", is_emulated(row)},
          {"example", isa::example(row)}};
}

// Describes the numbers that may be written instead of a register, if their range is smaller than that of the
// register's type.
std::string numbers_text(const isa::Operand& o) {
  if (o.cls == isa::Class::imm) return " " + isa::bounds_text(o);
  const int bits = isa::detail::integer_bits(o.cls);
  const bool is_narrow =
      bits > 0 && o.takes_numbers() && o.greatest < (bits == 64 ? INT64_MAX : (int64_t{1} << bits) - 1);
  return is_narrow ? fmt::format(", or a number {}", isa::bounds_text(o)) : "";
}

// Returns a string that lists the other keys with the same mnemonic.
std::string siblings_text(const isa::Row& row) {
  std::string text;
  for (const isa::MadeRow& other : isa::rows_of(row.mnemonic()))
    if (other.name.view() != row.name)
      text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", other.name.view());
  return text;
}

// Returns whether a row's name and the title of its section together contain each word of `text`, such as
// "redux.f32" or "prefetch tensor". The word "sparse" also matches sp, as PTX abbreviates it.
bool has_words(std::string_view name, std::string_view section, std::string_view text) {
  std::string all =
      fmt::format("{} {}{}", name, section, name.find(".sp") != std::string_view::npos ? " sparse" : "");
  const auto lower = [](std::string& s) {
    for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  lower(all);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" .:", at), text.size());
    std::string word(text.substr(at, end - at));
    lower(word);
    if (all.find(word) == std::string::npos) return false;
    at = end + 1;
  }
  return true;
}

// Returns a page with all information about an instruction.
std::string page(const isa::Row& row) {
  std::string text = fmt::format("{}\n\n  {}\n\n", row.name, row.syntax);
  text += fmt::format("section   {}\n", isa::section_of(row));
  text += fmt::format("needs     PTX {}, {}\n", isa::version_text(row.ptx_version), row.targets.text());
  if (row.early.ptx_version != 0)
    text += fmt::format("          PTX {} on {}\n", isa::version_text(row.early.ptx_version),
                        row.early.targets.text());
  text += fmt::format("effect    {}\n", row.effect == isa::Effect::pure
                                            ? "pure: its results depend only on its operands"
                                            : "memory: it is not reordered");
  text += fmt::format("emulator  {}\n", is_emulated(row) ? "executes it" : "does not know it");
  for (const isa::Operand& o : row.operands) {
    const char* access = !o.writes() ? "read" : o.reads() ? "read and written" : "written";
    text += fmt::format("operand   {}: {}{}{}, {}\n", o.name, name(o.cls),
                        o.list ? fmt::format(" x {}", o.count) : "", numbers_text(o), access);
  }
  if (const std::string others = siblings_text(row); !others.empty() && row.name.starts_with(row.mnemonic()))
    text += fmt::format("also      {}\n", others);
  if (const std::string call = isa::example(row); !call.empty()) text += fmt::format("C++       {}\n", call);
  for (const isa::Row& named : isa::rows())  // the rows of the same instruction under a short name
    if (named.syntax == row.syntax && named.name != row.name)
      text += fmt::format("          {}\n", isa::example(named));
  return text;
}

// Returns whether a key belongs to a family, such as "mbarrier" or "cp.async.bulk".
bool is_of(std::string_view key, std::string_view family) {
  return key.starts_with(family) &&
         (key.size() == family.size() || key.find_first_of(".:; ", family.size()) == family.size());
}

// Returns the row of an instruction that is written with its operands, such as "ld.global.b32 %r1,
// [%rd1+4];"; null if the text is not an instruction.
const isa::Row* row_of_text(std::string text) {
  if (text.find(' ') == std::string::npos || isa::find_instruction(text)) return nullptr;
  if (!text.ends_with(';')) text += ';';
  const ptx_text::Module module = ptx_text::parse(".entry x() {\n" + text + "\n}");
  const std::vector<ptx_text::Statement>& body = module.statements[0].function[0].body;
  if (body.empty() || body[0].instruction.operands.empty()) return nullptr;
  const ptx_text::Instruction& instruction = body[0].instruction;
  const isa::Row* row = isa::recognise(instruction).row;
  if (!row)
    throw Error(fmt::format("isa: '{}' is not an instruction: {}", text, isa::why_unknown(instruction)));
  return row;
}

int tell_one(const Options& options) {
  const isa::Row* named = isa::find(options.key);
  if (!named) named = row_of_text(options.key);
  if (!named && !isa::find_instruction(options.key) && tell_otherwise(options.key, options.json)) return 0;
  const isa::Row& row = named ? *named : isa::instruction(options.key, Where{});
  if (!options.target.empty())
    if (const isa::Target& target = isa::target(options.target, Where{}); !row.targets.has(target.sm))
      throw Error(isa::refusal(row, target, row.ptx_version));
  fmt::print("{}", options.json ? as_json(row, isa::section_of(row)).dump(2) + "\n" : page(row));
  return 0;
}

int run(const Options& options) {
  if (!options.key.empty()) return tell_one(options);
  Json all = Json::array();
  const auto tell = [&](const isa::Row& row, std::string_view section) {
    if (options.json)
      all.push_back(as_json(row, section));
    else
      fmt::print("{}\n", isa::listing(row));
  };
  int found = 0, elsewhere = 0;
  if (options.asks_the_manual()) {
    const isa::Target* target = options.target.empty() ? nullptr : &isa::target(options.target, Where{});
    bool by_words = false;  // whether to search for each word, because no name contains the text literally
    const auto is_asked = [&](std::string_view name, std::string_view mnemonic, std::string_view section,
                              isa::Targets targets) {
      if (!options.family.empty() && !is_of(mnemonic, options.family)) return false;
      if (by_words ? !has_words(name, section, options.text)
                   : name.find(options.text) == std::string_view::npos)
        return false;
      const bool has_it = !target || targets.has(target->sm);
      ++(has_it ? found : elsewhere);
      return has_it;
    };
    if (!options.text.empty())  // the text may be a short name, which has no dots
      for (const isa::Row& row : isa::rows())
        if (is_asked(row.name, row.mnemonic(), "", row.targets))
          tell(row, options.json ? isa::section_of(row) : "");
    const auto tell_those = [&] {
      isa::for_each_instruction([&](const isa::MadeRow& made, std::string_view section) {
        if (is_asked(made.name.view(), KeyParts(made.name.view()).mnemonic, section, made.targets))
          tell(made.row(), section);
      });
    };
    tell_those();
    if (found == 0 && elsewhere == 0 && !options.text.empty()) {
      if (tell_otherwise(options.text, options.json)) return 0;
      by_words = true;
      tell_those();
    }
    if (found == 0 && elsewhere > 0)
      throw Error(
          fmt::format("isa: no row of {} matches; {} rows of other targets do", options.target, elsewhere));
    if (found == 0)
      throw Error("isa: no row matches; `ptxb isa --json --sm sm_90a` lists all rows of a target");
  } else {
    for (const isa::Row& row : isa::rows()) tell(row, options.json ? isa::section_of(row) : "");
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command(
      "isa", "list the instructions with short names or, of all in PTX's manual, those that are selected");
  auto o = std::make_shared<Options>();
  app.option("key", o->key,
             "describe one instruction: a short name, a mnemonic such as tanh.approx.f32, or PTX text such "
             "as 'bra.uni L;'");
  app.option("--find", o->text,
             "the instructions with TEXT in the mnemonic or the short name; if there are none, those with "
             "each word of TEXT there or in the title of their section")
      .shown_as("TEXT");
  app.option("--family", o->family,
             "the instructions that begin with these words, such as mbarrier or cp.async.bulk")
      .shown_as("WORD");
  app.option("--sm", o->target, "the instructions that run on a target, such as sm_90a").shown_as("SM");
  app.flag("--json", o->json,
           "print operands, section, example, and whether the emulator executes them, as JSON");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::isa_command
