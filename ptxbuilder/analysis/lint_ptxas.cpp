// Rules about errors that ptxas reports: undeclared names, words that are not instructions, and illegal
// alignments and register counts.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>

#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/isa/nearest.h"
#include "ptxbuilder/isa/recognise.h"
#include "ptxbuilder/isa/target.h"

namespace ptxbuilder::analysis {
namespace {

using ptx_text::Statement;

// Special registers (PTX ISA 9.0, "Special Registers") and the constant WARP_SZ; registers with numbers, such
// as %envreg0, are listed without the number.
constexpr std::string_view kPredefined[] = {"%tid",
                                            "%ntid",
                                            "%laneid",
                                            "%warpid",
                                            "%nwarpid",
                                            "%ctaid",
                                            "%nctaid",
                                            "%smid",
                                            "%nsmid",
                                            "%gridid",
                                            "%is_explicit_cluster",
                                            "%clusterid",
                                            "%nclusterid",
                                            "%cluster_ctaid",
                                            "%cluster_nctaid",
                                            "%cluster_ctarank",
                                            "%cluster_nctarank",
                                            "%lanemask_eq",
                                            "%lanemask_le",
                                            "%lanemask_lt",
                                            "%lanemask_ge",
                                            "%lanemask_gt",
                                            "%clock",
                                            "%clock_hi",
                                            "%clock64",
                                            "%globaltimer",
                                            "%globaltimer_lo",
                                            "%globaltimer_hi",
                                            "%reserved_smem_offset_begin",
                                            "%reserved_smem_offset_end",
                                            "%reserved_smem_offset_cap",
                                            "%total_smem_size",
                                            "%aggr_smem_size",
                                            "%dynamic_smem_size",
                                            "%current_graph_exec",
                                            "WARP_SZ"};
constexpr std::string_view kCounted[] = {"%pm", "%envreg", "%reserved_smem_offset_"};

bool is_predefined(std::string_view name) {
  if (std::find(std::begin(kPredefined), std::end(kPredefined), name) != std::end(kPredefined)) return true;
  return std::any_of(std::begin(kCounted), std::end(kCounted), [&](std::string_view start) {
    return name.starts_with(start) && name.size() > start.size() &&
           std::isdigit(static_cast<unsigned char>(name[start.size()]));
  });
}

// The declared names of variables, parameters, functions and labels. Registers are not included, because Code
// resolves them.
class Names {
 public:
  explicit Names(const LintKernel& kernel) {
    for (const Statement& s : kernel.module.statements) {
      add(s);
      if (s.kind == Statement::Kind::function) all_.insert(s.function[0].name);
    }
    for (const ptx_text::Declaration& parameter : kernel.code.function->parameters) add(parameter);
    for (const Statement& s : kernel.code.function->body) add(s);
  }

  bool contains(std::string_view name) const { return all_.contains(name); }

 private:
  void add(const ptx_text::Declaration& d) {
    if (d.has(".reg")) return;
    for (const ptx_text::Declarator& name : d.names) all_.insert(name.name);
  }
  void add(const Statement& s) {
    if (s.kind == Statement::Kind::declaration) add(s.declaration);
    if (s.kind == Statement::Kind::label) all_.insert(s.label);
    for (const Statement& inner : s.block) add(inner);
  }

  std::set<std::string, std::less<>> all_;
};

// Collects the undeclared names in an operand. A name with a dot is an element of a vector or a selector.
void collect_undeclared(const Names& names, const Value& v, std::vector<std::string_view>& all) {
  const bool is_name = v.kind == Value::Kind::symbol || v.kind == Value::Kind::special;
  if (is_name && v.text.find('.') == std::string_view::npos && !is_predefined(v.text) &&
      !names.contains(v.text))
    all.push_back(v.text);
  for (const Value& part : v.parts) collect_undeclared(names, part, all);
}

void check_align(const ptx_text::Declaration& d, ptx_text::Position at, Report& report) {
  const std::string_view text = d.after(".align");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return;
  if (!std::has_single_bit(bytes))
    report.add_at(at, fmt::format("'{}' has .align {}, which is not a power of two",
                                  d.names.empty() ? std::string() : d.names[0].name, bytes));
}

void check_aligns(const std::vector<Statement>& statements, Report& report) {
  for (const Statement& s : statements) {
    if (s.kind == Statement::Kind::declaration) check_align(s.declaration, s.at, report);
    check_aligns(s.block, report);
  }
}

// Returns whether a mnemonic may exist. ptxas accepts the words of a mnemonic in most orders. If the first
// word is not in isa/manual, the mnemonic is assumed to exist.
bool may_be_known(const Operation& o) {
  bool has_rows = isa::forms_of(o.words[0]).empty();
  isa::for_each_row_of(o.text->opcode, [&](const isa::Form&, const isa::Choices&) { has_rows = true; });
  return has_rows || isa::nearest(o.text->opcode).has_same_words;
}

}  // namespace

void check_declared(LintKernel& kernel, Report& report) {
  const Names names(kernel);
  for (int i = 0; i < kernel.count(); ++i) {
    std::vector<std::string_view> all;
    for (const Value& v : kernel.operation(i).operands) collect_undeclared(names, v, all);
    if (!all.empty()) report.add(i, fmt::format("'{}' is not declared where it is used", all[0]));
  }
}

// Reports unknown words. Modules for later versions of PTX are skipped, because these versions may contain
// more instructions.
void check_known(LintKernel& kernel, Report& report) {
  for (const Statement& s : kernel.module.statements)
    if (s.kind == Statement::Kind::directive && s.directive.tokens[0] == ".version" &&
        s.directive.tokens.size() > 1 && version_number(s.directive.tokens[1]) > Operation::known_version)
      return;
  std::map<std::string_view, bool> known;  // caches the results of searches
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (o.row) continue;
    const std::string version = isa::version_text(Operation::known_version);
    if (!o.is_known()) {
      report.add(i, fmt::format("'{}' is not an instruction of PTX {}", o.words[0], version));
      continue;
    }
    // If the mnemonic has rows, then the operands are wrong, and other rules report them.
    const auto [entry, is_new] = known.try_emplace(o.text->opcode);
    if (is_new) entry->second = may_be_known(o);
    if (!entry->second)
      report.add(i, fmt::format("'{}' is not an instruction of PTX {}: {}", o.text->opcode, version,
                                isa::why_unknown(*o.text)));
  }
}

// Variables of the module are reported only for the module's first kernel.
void check_variable_alignment(LintKernel& kernel, Report& report) {
  if (kernel.code.name == kernels_of(kernel.module).front()) check_aligns(kernel.module.statements, report);
  for (const ptx_text::Declaration& parameter : kernel.code.function->parameters)
    if (!parameter.names.empty()) check_align(parameter, parameter.names[0].at, report);
  check_aligns(kernel.code.function->body, report);
}

void check_register_count(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    if (!kernel.operation(i).is("setmaxnreg")) continue;
    const Sum asked = kernel.operand(i, 0);
    if (asked.is_constant() &&
        (asked.constant % hopper::role_register_step != 0 || asked.constant < hopper::least_role_registers ||
         asked.constant > hopper::most_role_registers))
      report.add(i,
                 fmt::format("setmaxnreg has {} registers, but only multiples of {} from {} to {} are legal",
                             asked.constant, hopper::role_register_step, hopper::least_role_registers,
                             hopper::most_role_registers));
  }
}

}  // namespace ptxbuilder::analysis
