// Checks that ptxas makes on a module before it examines instructions, and that the parser does not make. A
// kernel that ptxas would not build does not run here either.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {
namespace {

using ptx_text::Directive;
using ptx_text::Statement;

constexpr std::array targets = {10u, 11u, 12u, 13u, 20u, 21u, 30u, 32u, 35u, 37u, 50u, 52u, 53u,
                                60u, 61u, 62u, 70u, 72u, 75u, 80u, 86u, 87u, 88u, 89u, 90u, 100u};
constexpr std::array<std::string_view, 4> target_words = {"texmode_unified", "texmode_independent", "debug",
                                                          "map_f64_to_f32"};
constexpr std::array<std::string_view, 8> of_modules = {".version", ".target", ".address_size", ".file",
                                                        ".section", ".pragma", ".alias",        ".loc"};
constexpr std::array<std::string_view, 6> of_bodies = {".loc",           ".pragma",      ".branchtargets",
                                                       ".callprototype", ".calltargets", ".file"};
constexpr std::array<std::string_view, 13> of_functions = {
    ".maxntid",           ".reqntid",      ".minnctapersm",        ".maxnctapersm", ".maxnreg",
    ".explicitcluster",   ".noreturn",     ".reqnctapercluster",   ".pragma",       ".maxclusterrank",
    ".blocksareclusters", ".abi_preserve", ".abi_preserve_control"};

template <size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& words) {
  return std::ranges::find(words, word) != words.end();
}

void check_target(const Directive& d) {
  const std::string& name = d.tokens[1];
  const bool arch = name.size() > 3 && (name.back() == 'a' || name.back() == 'f');
  const std::string digits = name.starts_with("sm_") ? name.substr(3, name.size() - 3 - arch) : "";
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  const uint32_t sm = number ? to_number(digits) : 0;
  if (std::ranges::find(targets, sm) == targets.end() || (arch ? sm != 90 && sm != 100 : sm == 100))
    ptx_text::fail(d.at, fmt::format("the target {} does not exist, or sm_90a does not run its code", name));
  for (size_t k = 3; k < d.tokens.size(); k += 2)
    if (!is_one_of(d.tokens[k], target_words))
      ptx_text::fail(d.at, fmt::format("the target has no option {}", d.tokens[k]));
}

void check_version(const Directive& d) {
  const std::string& v = d.tokens[1];
  if (v.size() != 3 || v[0] < '1' || v[0] > '9' || v[1] != '.' || v[2] < '0' || v[2] > '9')
    ptx_text::fail(d.at, fmt::format("there is no PTX ISA version {}", v));
}

void check_module_directive(const Directive& d) {
  const std::string& name = d.tokens[0];
  if (!is_one_of(name, of_modules)) ptx_text::fail(d.at, fmt::format("there is no directive {}", name));
  if (name == ".version") check_version(d);
  if (name == ".target") check_target(d);
  if (name == ".address_size" && d.tokens[1] != "64")
    ptx_text::fail(d.at, fmt::format("the address size is {}, but sm_90 has 64", d.tokens[1]));
}

void check_function_directive(const Directive& d) {
  const std::string& name = d.tokens[0];
  if (!is_one_of(name, of_functions)) ptx_text::fail(d.at, fmt::format("there is no directive {}", name));
  if (name != ".maxntid" && name != ".reqntid" && name != ".minnctapersm" && name != ".maxnreg") return;
  for (size_t k = 1; k < d.tokens.size(); k += 2)
    if (to_number(d.tokens[k]) == 0)
      ptx_text::fail(d.at, fmt::format("{} is {}, but must be at least 1", name, d.tokens[k]));
}

// Checks that the braces of an initializer nest like the extents, and contain no more values than the extents
// allow.
void check_values(const ptx_text::Operand& o, const std::string& name, std::span<const std::string> extents) {
  const bool braces = o.kind == ptx_text::Operand::Kind::vector;
  if (braces == extents.empty())
    ptx_text::fail(o.at, fmt::format("the initial values of {} do not nest as its extents do", name));
  if (!braces) return;
  if (!extents[0].empty() && o.parts.size() > to_number(extents[0]))
    ptx_text::fail(
        o.at, fmt::format("{} has {} initial values, but only {} fit", name, o.parts.size(), extents[0]));
  for (const ptx_text::Operand& part : o.parts) check_values(part, name, extents.subspan(1));
}

void check_declaration(const ptx_text::Declaration& d) {
  for (const ptx_text::Declarator& name : d.names) {
    if (!name.count.empty() && to_number(name.count) > ptx_text::most_registers)
      ptx_text::fail(name.at, fmt::format("{}<{}>: there cannot be more than {} registers", name.name,
                                          name.count, ptx_text::most_registers));
    std::vector<std::string> extents = name.extents;
    if (d.has(".v2") || d.has(".v4")) extents.push_back(d.has(".v2") ? "2" : "4");
    if (name.initializer) check_values(*name.initializer, name.name, extents);
    const bool open = !name.extents.empty() && name.extents[0].empty();
    if (open && !name.initializer && !d.has(".extern") && !d.has(".param"))
      ptx_text::fail(name.at, fmt::format("{} has no extent, and is not .extern", name.name));
  }
}

void check_body(const std::vector<Statement>& body) {
  for (const Statement& s : body) {
    if (s.kind == Statement::Kind::directive && !is_one_of(s.directive.tokens[0], of_bodies))
      ptx_text::fail(s.at, fmt::format("there is no directive {}", s.directive.tokens[0]));
    if (s.kind == Statement::Kind::declaration) check_declaration(s.declaration);
    if (s.kind == Statement::Kind::block) check_body(s.block);
  }
}

}  // namespace

void validate(const ptx_text::Module& module) {
  for (const Statement& s : module.statements) {
    if (s.kind == Statement::Kind::directive) check_module_directive(s.directive);
    if (s.kind == Statement::Kind::declaration) check_declaration(s.declaration);
    if (s.kind != Statement::Kind::function) continue;
    for (const Directive& d : s.function[0].directives) check_function_directive(d);
    check_body(s.function[0].body);
  }
}

}  // namespace ptxbuilder::runtime::emulator
