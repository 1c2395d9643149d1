// Rules about declarations, directives and constants of a module that ptxas rejects, or that ptxas accepts
// although they cannot be intended.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/isa/query.h"

namespace ptxbuilder::analysis {
namespace {

using ptx_text::Declaration;
using ptx_text::Declarator;
using ptx_text::Directive;
using ptx_text::Operand;
using ptx_text::Position;
using ptx_text::Statement;

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Returns whether this is the module's first kernel. Statements at module scope are reported only for the
// first kernel, whereas statements in bodies are reported for each kernel.
bool is_first(const LintKernel& kernel) { return kernel.code.name == kernels_of(kernel.module).front(); }

// Calls `visit` for each list of statements that forms a scope, with the function whose body contains it.
void visit_scopes(
    const std::vector<Statement>& statements, const ptx_text::Function* function,
    const std::function<void(const std::vector<Statement>&, const ptx_text::Function*)>& visit) {
  visit(statements, function);
  for (const Statement& s : statements)
    if (s.kind == Statement::Kind::block) visit_scopes(s.block, nullptr, visit);
}

void visit_own_scopes(
    const LintKernel& kernel,
    const std::function<void(const std::vector<Statement>&, const ptx_text::Function*)>& visit) {
  if (is_first(kernel)) {
    visit(kernel.module.statements, nullptr);
    for (const Statement& s : kernel.module.statements)
      if (s.kind == Statement::Kind::function && !s.function[0].entry)
        visit_scopes(s.function[0].body, &s.function[0], visit);
  }
  visit_scopes(kernel.code.function->body, kernel.code.function, visit);
}

// ---- .version and .target ----

// Returns whether a .version exists, according to a list that ends with the latest known version (PTX ISA,
// Release Notes).
bool is_version(int version) {
  for (const auto& [first, last] :
       {std::pair(10, 15), {20, 23}, {30, 32}, {40, 43}, {50, 50}, {60, 65}, {70, 78}, {80, 88}, {90, 90}})
    if (version >= first && version <= last) return true;
  return false;
}

struct Said {
  const Directive* directive = nullptr;
  Position at = {};
  std::string value = {};
};
Said said(const ptx_text::Module& module, std::string_view name) {
  for (const Statement& s : module.statements)
    if (s.kind == Statement::Kind::directive && s.directive.tokens[0] == name)
      return {&s.directive, s.at, s.directive.tokens.size() > 1 ? s.directive.tokens[1] : ""};
  return {};
}

const isa::Target* target_named(std::string_view name) {
  for (const isa::Target& target : isa::targets())
    if (target.name == name) return &target;
  return nullptr;
}

// Returns whether a target is older than the targets of the library, such as "sm_52", or is for another kind
// of device.
bool is_other_target(std::string_view name) {
  if (name == "sm_87" || name == "sm_88") return true;  // targets of Jetson modules
  if (!name.starts_with("sm_")) return false;
  const auto number = whole(name.substr(3));
  return number && *number >= 10 && *number < 75;
}

// ---- Declarations ----

class Declared {
 public:
  explicit Declared(Report& report) : report_(report) {}

  void scope(const std::vector<Statement>& statements, const ptx_text::Function* function) {
    names_.clear();
    if (function)
      for (const auto* list : {&function->results, &function->parameters})
        for (const Declaration& d : *list)
          for (const Declarator& name : d.names) add(d, name, name.at);
    for (const Statement& s : statements) {
      if (s.kind == Statement::Kind::label) add_name(s.label, s.at, "label");
      if (s.kind != Statement::Kind::declaration) continue;
      for (const Declarator& name : s.declaration.names) declaration(s.declaration, name, name.at);
    }
  }

 private:
  void declaration(const Declaration& d, const Declarator& name, Position at) {
    if (!d.has(".extern") && !d.has(".weak") && !d.has(".common")) add(d, name, at);
    if (!name.count.empty()) {
      const auto count = whole(name.count);
      if (!count || *count > ptx_text::most_registers)
        report_.add_at(at, fmt::format("'{}<{}>' declares more registers than ptxas can handle, {}",
                                       name.name, name.count, ptx_text::most_registers));
    }
    bool is_known = true;
    for (const std::string& extent : name.extents) {
      const bool is_number =
          !extent.empty() && std::isdigit(static_cast<unsigned char>(extent[0])) &&
          std::all_of(extent.begin(), extent.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
      is_known &= is_number;
      if (!extent.empty() && !is_number)
        report_.add_at(at, fmt::format("'{}' has an extent of '{}', but ptxas only accepts a number",
                                       name.name, extent));
      else if (extent == "0" && !d.has(".extern") && !d.has(".param"))
        report_.add_at(at, fmt::format("'{}' has an extent of 0", name.name));
    }
    if (name.initializer && name.initializer->kind == Operand::Kind::vector)
      initial(name, *name.initializer, 0, at);
  }

  // Checks an initial value. The depth of its nested lists must not exceed the number of extents, and the
  // length of each list must not exceed its extent.
  void initial(const Declarator& name, const Operand& list, size_t depth, Position at) {
    if (depth >= name.extents.size()) {
      report_.add_at(
          at, fmt::format("the initial value of '{}' has lists within {} lists, but there are {} extents",
                          name.name, depth, name.extents.size()));
      return;
    }
    const auto most = whole(name.extents[depth]);
    if (most && static_cast<int64_t>(list.parts.size()) > *most)
      report_.add_at(at, fmt::format("the initial value of '{}' has {} elements instead of at most {}",
                                     name.name, list.parts.size(), *most));
    for (const Operand& part : list.parts)
      if (part.kind == Operand::Kind::vector) initial(name, part, depth + 1, at);
  }

  void add(const Declaration& d, const Declarator& name, Position at) {
    if (!name.name.empty())
      add_name(name.count.empty() ? name.name : name.name + "<", at, d.has(".reg") ? "register" : "variable");
  }
  void add_name(const std::string& name, Position at, std::string_view what) {
    const auto [known, is_new] = names_.emplace(name, at.line);
    if (!is_new)
      report_.add_at(at,
                     fmt::format("the {} '{}' is already declared in line {}", what, name, known->second));
  }

  Report& report_;
  std::map<std::string, uint32_t> names_;  // names in a scope, and the lines of their declarations
};

// The directives (PTX ISA 9.0, "Directives"), and the sections of DWARF.
constexpr std::string_view kDirectives[] = {".version",
                                            ".target",
                                            ".address_size",
                                            ".file",
                                            ".loc",
                                            ".section",
                                            ".pragma",
                                            ".alias",
                                            ".branchtargets",
                                            ".calltargets",
                                            ".callprototype",
                                            ".noreturn",
                                            ".maxntid",
                                            ".maxnctapersm",
                                            ".minnctapersm",
                                            ".maxnreg",
                                            ".reqntid",
                                            ".reqnctapercluster",
                                            ".explicitcluster",
                                            ".maxclusterrank",
                                            ".blocksareclusters",
                                            ".b8",
                                            ".b16",
                                            ".b32",
                                            ".b64",
                                            ".4byte",
                                            ".byte",
                                            ".2byte",
                                            ".8byte",
                                            ".abi_preserve",
                                            ".abi_preserve_control",
                                            ".local_maxnreg",
                                            ".unified"};

void check_directive(const Directive& d, Position at, Report& report) {
  const std::string& name = d.tokens[0];
  if (name.starts_with(".") && !name.starts_with("@") &&
      std::find(std::begin(kDirectives), std::end(kDirectives), name) == std::end(kDirectives)) {
    report.add_at(at, fmt::format("'{}' is not a directive of PTX", name));
    return;
  }
  if (name == ".address_size" && d.tokens.size() > 1 && d.tokens[1] != "64" && d.tokens[1] != "32")
    report.add_at(at, fmt::format("'.address_size {}' is neither 32 nor 64", d.tokens[1]));
}

}  // namespace

void check_target(LintKernel& kernel, Report& report) {
  const Said version = said(kernel.module, ".version"), target = said(kernel.module, ".target");
  const int number = version_number(version.value);
  const isa::Target* known = target_named(target.value);
  if (is_first(kernel)) {
    const Position start = {1, 1};
    if (!version.directive) report.add_at(start, "there is no .version");
    if (!target.directive) report.add_at(start, "there is no .target");
    if (version.directive && number <= Operation::known_version && !is_version(number))
      report.add_at(version.at, fmt::format("'.version {}' is not a version of PTX", version.value));
    if (target.directive && !known && !is_other_target(target.value) && number <= Operation::known_version)
      report.add_at(target.at, fmt::format("'.target {}' is not a target of PTX {}", target.value,
                                           isa::version_text(Operation::known_version)));
    if (known && version.directive && is_version(number) && number < known->ptx_version)
      report.add_at(version.at, fmt::format("the version is {}, but the target {} needs {}", version.value,
                                            known->name, isa::version_text(known->ptx_version)));
    const Said size = said(kernel.module, ".address_size");
    if (size.directive && is_version(number) && number < 23)
      report.add_at(size.at, fmt::format("the version is {}, but .address_size needs 2.3", version.value));
  }
  for (int i = 0; i < kernel.count(); ++i) {
    const isa::Row* row = kernel.operation(i).row;
    if (!row) continue;
    const isa::Floor floor = isa::floor_of(*row);
    if (is_version(number) && floor.ptx_version > number)
      report.add(i, fmt::format("the version is {}, but {} needs {}", version.value, row->mnemonic(),
                                isa::version_text(floor.ptx_version)));
    else if (known && !floor.targets.empty() && !floor.targets.has(known->sm))
      report.add(i, fmt::format("the target is {}, but {} needs {}", known->name, row->mnemonic(),
                                floor.targets.text()));
  }
}

void check_declarations(LintKernel& kernel, Report& report) {
  Declared declared(report);
  visit_own_scopes(kernel, [&](const std::vector<Statement>& statements, const ptx_text::Function* function) {
    declared.scope(statements, function);
    for (const Statement& s : statements)
      if (s.kind == Statement::Kind::directive) check_directive(s.directive, s.at, report);
  });
  Position at = {};  // position of the kernel
  for (const Statement& s : kernel.module.statements)
    if (s.kind == Statement::Kind::function && &s.function[0] == kernel.code.function) at = s.at;
  for (const Directive& d : kernel.code.function->directives) {
    check_directive(d, at, report);
    constexpr std::array kPositive = {".maxntid", ".reqntid", ".maxnreg", ".minnctapersm", ".maxnctapersm"};
    if (std::find(kPositive.begin(), kPositive.end(), d.tokens[0]) == kPositive.end()) continue;
    for (int64_t value : numbers_of(d))
      if (value <= 0)
        report.add_at(at, fmt::format("'{}' has {}, but only numbers above 0 are legal", d.tokens[0], value));
  }
}

void check_constants(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (o.is("createpolicy") && o.has("fractional") && o.text->operands.size() > 1) {
      const std::string& fraction = o.text->operands[1].text;
      char* end = nullptr;
      const double value = std::strtod(fraction.c_str(), &end);
      if (end != fraction.c_str() && *end == '\0' && fraction.find('.') != std::string::npos &&
          !(value > 0 && value <= 1))
        report.add(i, fmt::format("the fraction is {}, but must be above 0 and at most 1", fraction));
    }
    if (o.is("cp") && o.has("async") && !o.has("bulk") && o.operands.size() > 3) {
      const Sum bytes = kernel.operand(i, 2), source = kernel.operand(i, 3);
      if (bytes.is_constant() && source.is_constant() && source.constant > bytes.constant)
        report.add(i, fmt::format("{} bytes are read for a copy of {}", source.constant, bytes.constant));
    }
  }
}

// Finds writes to constant memory through a generic address. ptxas rejects only writes that name .const.
void check_constant_space(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (!o.is("st") && !o.is("atom") && !o.is("red")) continue;
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (addresses.empty()) continue;
    for (const auto& [number, factor] : addresses[0].terms)
      if (const Variable* v = factor == 1 ? kernel.variable_of(kernel.values.atom(number)) : nullptr;
          v && v->space == ".const")
        report.add(i, fmt::format("{} writes to '{}', which is in .const", o.text->opcode, v->name));
  }
}

}  // namespace ptxbuilder::analysis
