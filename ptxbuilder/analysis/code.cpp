#include "ptxbuilder/analysis/code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

#include "ptxbuilder/error.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/isa/recognise.h"

namespace ptxbuilder::analysis {
namespace {

using ptx_text::Statement;

// First words of the instructions for textures and surfaces, which isa/manual omits (PTX ISA 9.0).
constexpr std::array<std::string_view, 7> kOutsideManual = {"suld", "suq",  "sured", "sust",
                                                            "tex",  "tld4", "txq"};

void collect(const Value& v, std::vector<int>& registers) {
  if (v.kind == Value::Kind::reg) registers.push_back(v.number);
  for (const Value& part : v.parts) collect(part, registers);
}

std::optional<int64_t> whole(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Returns the text of an operand with each name replaced with "address". The declaration of a name determines
// the object at the address.
std::string written(const ptx_text::Operand& o) {
  std::string text = o.kind == ptx_text::Operand::Kind::name ? "address" : o.text;
  for (const ptx_text::Operand& part : o.parts) text.append(",").append(written(part));
  return text;
}

// Adds .shared, .const, .global, .local and .param variables.
void add_variables(const ptx_text::Declaration& d, bool is_of_module, std::vector<Variable>& all) {
  for (const char* space : {".shared", ".const", ".global", ".local", ".param"}) {
    if (!d.has(space)) continue;
    for (const ptx_text::Declarator& name : d.names) {
      Variable v{.name = name.name, .space = space, .declarator = &name, .is_of_module = is_of_module};
      const std::string& type = d.qualifiers.back();
      const size_t digits = type.find_first_of("0123456789");
      v.bytes = digits == std::string::npos ? 1 : whole(type.substr(digits)).value_or(8) / 8;
      v.bytes *= d.has(".v4") ? 4 : d.has(".v2") ? 2 : 1;
      v.align = whole(d.after(".align")).value_or(v.bytes);
      for (const std::string& extent : name.extents) v.bytes *= whole(extent).value_or(0);
      if (name.initializer) v.initializer = written(*name.initializer);
      all.push_back(v);
    }
    return;
  }
}

// Flattens the nested blocks of a function's body.
class Flattening {
 public:
  Flattening(Code& code, const ptx_text::Module& module) : code_(code), module_(module) {}

  void run() {
    scopes_.emplace_back();
    for (size_t v = 0; v < code_.variables.size(); ++v)
      scopes_.back().variables.emplace(code_.variables[v].name, static_cast<int>(v));
    scopes_.emplace_back();
    for (const auto* list : {&code_.function->results, &code_.function->parameters})
      for (const ptx_text::Declaration& d : *list) {
        declare(d);
        if (!d.has(".reg") || d.names.empty()) continue;
        const int reg = *register_of(d.names[0].name);
        (list == &code_.function->results ? results_ : code_.parameter_registers).push_back(reg);
      }
    block(code_.function->body);
    for (size_t v = 0; v < code_.variables.size(); ++v)
      if (const auto& initializer = code_.variables[v].declarator->initializer)
        find_mentions(*initializer, code_.variables[v].mentions);
    for (Operation& o : code_.operations)
      for (int& target : o.targets) target = labels_[static_cast<size_t>(target)];
  }

 private:
  struct Scope {
    std::map<std::string, int, std::less<>> registers;  // indexed by name
    std::map<std::string, std::pair<int64_t, std::string>, std::less<>>
        ranges;  // %r<12>: the number of registers, and their type
    std::map<std::string, std::string, std::less<>> single;  // the types of single registers
    std::map<std::string, int, std::less<>> labels;          // index in labels_ for each name
    std::map<std::string, std::vector<std::string>, std::less<>> target_lists;  // .branchtargets
    std::map<std::string, const ptx_text::Directive*, std::less<>> prototypes;  // .call* directives
    std::map<std::string, int, std::less<>> variables;  // index in the code's variables; kNone if hidden
  };

  void block(const std::vector<Statement>& statements) {
    scopes_.emplace_back();
    for (size_t i = 0; i < statements.size(); ++i) {
      const Statement& s = statements[i];
      if (s.kind == Statement::Kind::declaration) declare(s.declaration);
      if (s.kind != Statement::Kind::label) continue;
      scopes_.back().labels.emplace(s.label, static_cast<int>(labels_.size()));
      labels_.push_back(kNone);
      if (i + 1 == statements.size() || statements[i + 1].kind != Statement::Kind::directive) continue;
      const auto& tokens = statements[i + 1].directive.tokens;
      if (tokens[0].starts_with(".call")) scopes_.back().prototypes[s.label] = &statements[i + 1].directive;
      for (size_t t = 1; t < tokens.size() && tokens[0] == ".branchtargets"; ++t)
        if (tokens[t] != ",") scopes_.back().target_lists[s.label].push_back(tokens[t]);
    }
    for (const Statement& s : statements) {
      if (s.kind == Statement::Kind::label)
        labels_[static_cast<size_t>(scopes_.back().labels[s.label])] =
            static_cast<int>(code_.operations.size());
      if (s.kind == Statement::Kind::block) block(s.block);
      if (s.kind == Statement::Kind::instruction) operation(s);
    }
    scopes_.pop_back();
  }

  void declare(const ptx_text::Declaration& d) {
    if (!d.has(".reg")) {
      if (scopes_.size() == 2) {  // the function's parameters hide the module's variables
        for (const ptx_text::Declarator& name : d.names) scopes_.back().variables.emplace(name.name, kNone);
        return;
      }
      const size_t first = code_.variables.size();
      add_variables(d, false, code_.variables);
      for (size_t v = first; v < code_.variables.size(); ++v)
        scopes_.back().variables.emplace(code_.variables[v].name, static_cast<int>(v));
      return;
    }
    const std::string& type = d.qualifiers.back();
    for (const ptx_text::Declarator& name : d.names) {
      if (name.count.empty())
        scopes_.back().single.emplace(name.name, type);
      else
        scopes_.back().ranges.emplace(name.name, std::pair(whole(name.count).value_or(0), type));
    }
  }

  void find_mentions(const ptx_text::Operand& o, std::vector<Value>& mentions) {
    if (o.kind == ptx_text::Operand::Kind::name)
      if (Value v = name(o); v.number != kNone) mentions.push_back(std::move(v));
    for (const ptx_text::Operand& part : o.parts) find_mentions(part, mentions);
  }

  // Returns the number of the register in the innermost scope that declares it.
  std::optional<int> register_of(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto met = scope->registers.find(name); met != scope->registers.end()) return met->second;
      std::optional<std::string> type;
      if (const auto single = scope->single.find(name); single != scope->single.end()) type = single->second;
      const size_t digits = name.find_last_not_of("0123456789") + 1;
      if (const auto range = scope->ranges.find(name.substr(0, digits));
          !type && digits < name.size() && range != scope->ranges.end())
        if (const auto index = whole(name.substr(digits)); index && *index < range->second.first)
          type = range->second.second;
      if (!type) continue;
      const int number = static_cast<int>(code_.registers.size());
      code_.registers.push_back({std::string(name), *type});
      scope->registers.emplace(name, number);
      return number;
    }
    return std::nullopt;
  }

  std::optional<int> label_of(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto label = scope->labels.find(name); label != scope->labels.end()) return label->second;
    return std::nullopt;
  }

  Value name(const ptx_text::Operand& o) {
    if (o.text == "_") return {};
    if (const auto reg = register_of(o.text))
      return {.kind = Value::Kind::reg, .number = *reg, .text = o.text};
    if (o.text[0] == '%') return {.kind = Value::Kind::special, .text = o.text};
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->variables.find(o.text); found != scope->variables.end())
        return {.kind = Value::Kind::symbol, .number = found->second, .text = o.text};
      if (const auto found = scope->prototypes.find(o.text); found != scope->prototypes.end()) {
        Value prototype{.kind = Value::Kind::vector, .text = o.text};
        for (const std::string& token : found->second->tokens) {
          const auto callee = function_of(token);
          prototype.parts.push_back({.kind = callee ? Value::Kind::callee : Value::Kind::text,
                                     .number = callee.value_or(kNone),
                                     .text = token});
        }
        return prototype;
      }
    }
    if (const auto number = function_of(o.text))
      return {.kind = Value::Kind::callee, .number = *number, .text = o.text};
    return {.kind = Value::Kind::symbol, .text = o.text};
  }

  std::optional<int> function_of(const std::string& name) {
    const auto [known, is_new] = functions_.try_emplace(name, kNone);
    const ptx_text::Function* function = is_new ? module_.find(name) : nullptr;
    if (function && function->has_body) {
      known->second = static_cast<int>(code_.functions.size());
      code_.functions.push_back(function);
    }
    return known->second == kNone ? std::nullopt : std::optional(known->second);
  }

  Value parts(Value::Kind kind, const ptx_text::Operand& o) {
    Value v{.kind = kind, .text = o.text};
    for (const ptx_text::Operand& part : o.parts) v.parts.push_back(value(part));
    return v;
  }

  Value value(const ptx_text::Operand& o) {
    using Kind = ptx_text::Operand::Kind;
    if (const auto integer = ptx_text::integer_value(o))
      return {.kind = Value::Kind::integer, .value = *integer, .text = o.text};
    switch (o.kind) {
      case Kind::name:
        return name(o);
      case Kind::vector:
      case Kind::list:
        return parts(Value::Kind::vector, o);
      case Kind::address: {
        Value v = parts(Value::Kind::address, o);
        if (!o.parts.empty()) {
          const ptx_text::Operand& base = o.parts[0];
          const bool sum = base.kind == Kind::binary && (base.text == "+" || base.text == "-");
          if (const auto offset = sum ? ptx_text::integer_value(base.parts[1]) : std::nullopt) {
            v.parts[0] = value(base.parts[0]);
            v.value = base.text == "+" ? *offset : -*offset;
          }
        }
        return v;
      }
      case Kind::binary:  // p|q, and sums of a symbol and a constant
        if (o.text == "|") return parts(Value::Kind::vector, o);
        if (const auto offset = o.text == "+" ? ptx_text::integer_value(o.parts[1]) : std::nullopt) {
          Value v = value(o.parts[0]);
          v.value += *offset;
          return v;
        }
        return parts(Value::Kind::text, o);
      case Kind::unary:  // !p
        return o.text == "!" ? parts(Value::Kind::vector, o) : parts(Value::Kind::text, o);
      case Kind::call:
        return o.parts.size() == 1 && o.text == "generic" ? value(o.parts[0]) : parts(Value::Kind::text, o);
      default:
        return {.kind = Value::Kind::text, .text = o.text};
    }
  }

  void operation(const Statement& s) {
    const ptx_text::Instruction& text = s.instruction;
    Operation o{.text = &text, .at = s.at, .words = ptx_text::split_opcode(text.opcode)};
    if (text.guard) {
      const auto reg = register_of(text.guard->predicate);
      if (!reg)
        ptx_text::fail(s.at, fmt::format("the predicate '{}' is not declared", text.guard->predicate));
      o.guard = *reg;
      o.negated = text.guard->negated;
    }
    const bool branches = o.is("bra", "brx");
    if (branches) {
      branch(s, o);
    } else {
      for (const ptx_text::Operand& operand : text.operands) o.operands.push_back(value(operand));
    }
    // The carry is read from a register that is not among the operands.
    if (o.is("addc", "subc", "madc"))
      o.operands.push_back({.kind = Value::Kind::reg, .number = carry(), .text = "%carry"});
    set_results(o);
    for (size_t i = 0; i < o.operands.size(); ++i) {
      if (i < o.results) collect(o.operands[i], o.writes);
      if (i >= o.results || o.updates) collect(o.operands[i], o.reads);
    }
    if (o.has("cc")) o.writes.push_back(carry());
    if (o.is("ret")) o.reads.insert(o.reads.end(), results_.begin(), results_.end());
    o.falls_through = !(o.ends() || branches) || o.guard != kNone;
    code_.operations.push_back(std::move(o));
  }

  // An instruction writes its first operand if the row's syntax shows this. An instruction without a row is
  // assumed to write its first operand if the operand is a register, a list of registers, or _.
  void set_results(Operation& o) {
    const isa::Recognised known = isa::recognise(*o.text);
    o.row = known.row;
    if (o.operands.empty()) return;
    const Value& first = o.operands[0];
    const bool is_vector = first.kind == Value::Kind::vector;
    if (o.is("call")) {  // later instructions read the results from variables in the .param space
      o.results = o.operands.size() > 1 && is_vector && !first.parts.empty() &&
                  first.parts[0].kind == Value::Kind::reg;
    } else if (o.row) {
      for (const isa::Operand& operand : o.row->operands) {
        o.results |= operand.writes();
        o.updates |= operand.access == isa::Access::read_write;
      }
      o.results |= first.kind == Value::Kind::sink;
    } else {
      o.results = first.kind == Value::Kind::reg || first.kind == Value::Kind::sink || is_vector;
    }
  }

  int carry() {
    if (carry_ == kNone) {
      carry_ = static_cast<int>(code_.registers.size());
      code_.registers.push_back({"%carry", ".b32"});
    }
    return carry_;
  }

  void branch(const Statement& s, Operation& o) {
    std::vector<std::string> names;
    const auto& operands = s.instruction.operands;
    if (o.is("brx")) {
      if (!operands.empty()) o.operands.push_back(value(operands[0]));
      if (operands.size() > 1)
        for (const Scope& scope : scopes_)
          if (const auto list = scope.target_lists.find(operands[1].text); list != scope.target_lists.end())
            names = list->second;
    } else if (!operands.empty()) {
      names = {operands[0].text};
    }
    if (names.empty()) ptx_text::fail(s.at, "a branch without a target");
    for (const std::string& name : names) {
      const auto label = label_of(name);
      if (!label) ptx_text::fail(s.at, fmt::format("the label '{}' does not exist", name));
      o.targets.push_back(*label);
    }
  }

  Code& code_;
  const ptx_text::Module& module_;
  std::vector<int> results_;  // the function's results that are in registers
  int carry_ = kNone;
  std::map<std::string, int> functions_;  // index in the code's functions, or kNone
  std::vector<Scope> scopes_;
  std::vector<int> labels_;  // for each label, the instruction after it
};

bool is_kernel(const Statement& s) {
  return s.kind == Statement::Kind::function && s.function[0].entry && s.function[0].has_body;
}

}  // namespace

bool Operation::is_known() const {
  return row || !isa::forms_of(words[0]).empty() ||
         std::ranges::find(kOutsideManual, words[0]) != kOutsideManual.end();
}

std::vector<std::string_view> Operation::canonical_words() const {
  const bool is_bar = is("bar") || (is("barrier") && !has("cluster") && has("aligned"));
  const bool is_wait = has("try_wait", "test_wait");
  std::vector<std::string_view> plain;
  for (std::string_view word : words) {
    if (is_bar && word == "barrier") word = "bar";
    if (word == "shared" && !is("fence")) word = "shared::cta";
    const bool is_default_of_bar = is_bar && (word == "cta" || word == "aligned");
    const bool is_default_of_mbarrier =
        is("mbarrier") && (word == "cta" || word == (is_wait ? "acquire" : "release"));
    if (!is_default_of_bar && !is_default_of_mbarrier) plain.push_back(word);
  }
  return plain;
}

std::string Operation::canonical() const { return fmt::format("{}", fmt::join(canonical_words(), ".")); }

std::vector<int64_t> numbers_of(const ptx_text::Directive& directive) {
  std::vector<int64_t> numbers;
  for (const std::string& token : directive.tokens)
    if (const auto number = whole(token)) numbers.push_back(*number);
  return numbers;
}

std::array<int64_t, 3> Code::cta_shape() const {
  for (const char* name : {".reqntid", ".maxntid"})
    for (const ptx_text::Directive& d : function->directives) {
      if (d.tokens[0] != name) continue;
      std::array<int64_t, 3> shape = {1, 1, 1};
      const std::vector<int64_t> numbers = numbers_of(d);
      // Numbers above the maximum of a CTA are replaced with the maximum plus one, so that the product cannot
      // overflow.
      for (size_t i = 0; i < std::min(numbers.size(), shape.size()); ++i)
        shape[i] = std::clamp<int64_t>(numbers[i], 0, hopper::cta_threads + 1);
      return shape;
    }
  return {};
}

std::vector<std::string> kernels_of(const ptx_text::Module& module) {
  std::vector<std::string> names;
  for (const Statement& s : module.statements)
    if (is_kernel(s)) names.push_back(s.function[0].name);
  return names;
}

Code Code::of(const ptx_text::Module& module, std::string_view name) {
  const ptx_text::Function* function = nullptr;
  const std::vector<std::string> names = kernels_of(module);
  for (const Statement& s : module.statements)
    if (is_kernel(s) && (name.empty() ? names.size() == 1 : s.function[0].name == name))
      function = &s.function[0];
  if (names.empty()) throw Error("it has no kernel: no .entry with a body");
  if (!function)
    throw Error(name.empty()
                    ? fmt::format("the module has {} kernels; choose one by name: {}", names.size(),
                                  fmt::join(names, ", "))
                    : fmt::format("the module has no kernel '{}'; it has: {}", name, fmt::join(names, ", ")));
  return of(module, *function);
}

Code Code::of(const ptx_text::Module& module, const ptx_text::Function& function) {
  Code code;
  code.function = &function;
  code.name = function.name;
  for (const Statement& s : module.statements) {
    if (s.kind == Statement::Kind::directive && s.directive.tokens[0] == ".target")
      code.target =
          fmt::format("{}", fmt::join(s.directive.tokens.begin() + 1, s.directive.tokens.end(), ""));
    if (s.kind == Statement::Kind::declaration) add_variables(s.declaration, true, code.variables);
  }
  Flattening(code, module).run();
  return code;
}

}  // namespace ptxbuilder::analysis
