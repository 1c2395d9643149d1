#include "ptxbuilder/compile/certify.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

// Returns the error message if ptxas rejects a module, otherwise "".
std::string refusal(const Ptxas& ptxas, const std::string& module) {
  try {
    ptxas.assemble(module);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::string refusal(const Ptxas& ptxas, const isa::Row& row, const isa::Target& target, int ptx_version) {
  return refusal(ptxas, standalone_module(row, target, ptx_version));
}

}  // namespace

bool names_a_floor(std::string_view message) {
  return message.find("requires") != std::string_view::npos ||
         message.find("not supported") != std::string_view::npos;
}

namespace {

std::string at(const isa::Target& target, int ptx_version) {
  return fmt::format("for {} and PTX {}", target.name, isa::version_text(ptx_version));
}

// Returns a description of a mistake in the row that can be found without ptxas, or "".
std::string flaw(const isa::Row& row) {
  const isa::Target& least = row.targets.least();
  if (std::count(row.syntax.begin(), row.syntax.end(), ';') != 1 || !row.syntax.ends_with(';'))
    return "a row must be one instruction that ends in a semicolon; use ptx() for several";
  if (row.syntax.starts_with('@'))
    return "a row must not have a predicate of its own: add it to the call with .when(p)";
  if (!row.does_something()) return "it is pure and writes no operand, so it would be dropped";
  if (row.ptx_version < least.ptx_version)
    return fmt::format("{} is its lowest target, but PTX {} does not have it; raise the .version to {}",
                       least.name, isa::version_text(row.ptx_version), isa::version_text(least.ptx_version));
  return "";
}

std::string cure(std::string_view text) {
  if (text.find("32-Bit compilation") != std::string_view::npos)
    return "give the address a class of the instruction's state space: smem has 32 bits, gmem and generic 64";
  return names_a_floor(text) ? "raise the minimum" : "correct the syntax line or a class";
}

// Returns a module that contains the row, with `number` in place of operand `o`, which the row reads.
std::string module_with(const isa::Row& row, const isa::Operand& o, int64_t number) {
  const isa::Target& target = row.targets.least();
  if (o.cls == isa::Class::imm) {
    isa::Row changed = row;
    changed.operands.items[static_cast<size_t>(&o - row.operands.begin())].least = number;
    return standalone_module(changed, target, row.ptx_version);
  }
  std::string module = standalone_module(row, target, row.ptx_version);
  const std::string used = fmt::format("{}_0", o.name);
  return module.replace(module.rfind(used), used.size(), std::to_string(number));
}

// Checks that ptxas accepts the smallest and the largest number that an operand's class allows.
void check_numbers(const Ptxas& ptxas, const isa::Row& row) {
  for (const isa::Operand& o : row.operands) {
    if (!o.reads() || !o.takes_numbers() || (o.cls != isa::Class::imm && !row.takes_numbers())) continue;
    for (const int64_t number : {o.least, o.greatest})
      if (const std::string text = refusal(ptxas, module_with(row, o, number)); !text.empty())
        throw Error(fmt::format(
            "row {}: operand '{}' may be {}, but ptxas refuses {}: {}; bound the class, as {}<0..15>{}",
            row.name, o.name, bounds_text(o), number, text, name(o.cls),
            o.cls == isa::Class::imm
                ? ""
                : fmt::format(", or {0}<> for a register alone, or ={0} where the instruction writes it",
                              name(o.cls))));
  }
}

}  // namespace

void certify(const Ptxas& ptxas, const isa::Row& row, Where where) {
  CallersLine line(where);
  isa::version_before(row.ptx_version);  // throws if the .version does not exist
  if (const std::string text = flaw(row); !text.empty())
    throw Error(fmt::format("row {}: {}, in \"{}\"", row.name, text, row.syntax));
  const isa::Target& least = row.targets.least();
  if (const std::string text = refusal(ptxas, row, least, row.ptx_version); !text.empty())
    throw Error(fmt::format("row {}: ptxas refuses it {}, its floor: {}; {}", row.name,
                            at(least, row.ptx_version), text, cure(text)));
  check_numbers(ptxas, row);
  auto check_refused = [&](const isa::Target& t, int version, std::string_view floor) {
    const std::string text = refusal(ptxas, row, t, version);
    if (names_a_floor(text)) return;
    throw Error(fmt::format("row {}: {} ptxas should refuse what is below its floor, but {}; {}", row.name,
                            at(t, version), text.empty() ? "takes it" : "says otherwise: " + text, floor));
  };
  if (const isa::Target* before = isa::target_before(least.sm))
    check_refused(*before, std::max(row.ptx_version, before->ptx_version), "lower the target");
  if (const auto before = isa::version_before(row.ptx_version); before && *before >= least.ptx_version)
    check_refused(least, *before, "lower the .version");
  for (const isa::Target& t : isa::targets()) {
    const int version = std::max(row.version_on(t.sm), t.ptx_version);
    if (!row.targets.has(t.sm))
      check_refused(t, version, fmt::format("add {} to its targets", t.name));
    else if (const std::string text = refusal(ptxas, row, t, version); !text.empty())
      throw Error(
          fmt::format("row {}: ptxas refuses it {}, one of its targets: {}", row.name, at(t, version), text));
  }
}

}  // namespace ptxbuilder
