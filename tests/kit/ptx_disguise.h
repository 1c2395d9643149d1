// Creates PTX that has the same effect but looks different.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::test {

// Gives random names to the registers, labels, variables, parameters and functions of a module. Swaps
// adjacent statements that do not depend on each other, and declarations of variables.
class Disguise {
 public:
  explicit Disguise(uint64_t seed) : random_(seed) {}

  std::string operator()(const std::string& text) {
    ptx_text::Module module = ptx_text::parse(text);
    using enum ptx_text::Statement::Kind;
    std::set<std::string> with_body;
    for (const ptx_text::Statement& s : module.statements)
      if (s.kind == function && s.function[0].has_body && !s.function[0].entry)
        with_body.insert(s.function[0].name);
    for (ptx_text::Statement& s : module.statements) {
      if (s.kind == declaration) rename(s.declaration);
      if (s.kind != function) continue;
      ptx_text::Function& f = s.function[0];
      if (with_body.contains(f.name)) f.name = name_of(f.name);
      for (auto* list : {&f.results, &f.parameters})
        for (ptx_text::Declaration& d : *list) rename(d);
      shuffle(f.body);
      rename(f.body);
    }
    for (ptx_text::Statement& s : module.statements)
      for (ptx_text::Declarator& d : s.declaration.names)
        if (d.initializer) rename(*d.initializer);
    for (int round = 0; round < 3; ++round)
      for (size_t i = 0; i + 1 < module.statements.size(); ++i)
        if (are_apart(module.statements[i], module.statements[i + 1]) && random_() % 2)
          std::swap(module.statements[i], module.statements[i + 1]);
    return ptx_text::print(module);
  }

 private:
  static bool is_pure(const ptx_text::Statement& s) {
    static const std::set<std::string_view> pure = {"mov", "add",  "sub", "mul", "mad",  "shl",
                                                    "shr", "and",  "or",  "xor", "setp", "selp",
                                                    "cvt", "cvta", "bfe", "neg", "min",  "max"};
    return s.kind == ptx_text::Statement::Kind::instruction && !s.instruction.guard &&
           !s.instruction.operands.empty() && s.instruction.opcode.find(".cc") == std::string::npos &&
           !s.instruction.operands.back().text.starts_with("%clock") &&
           pure.contains(ptx_text::split_opcode(s.instruction.opcode)[0]);
  }
  // Returns whether two statements declare variables that do not name each other and that differ in more than
  // the name. The host can distinguish other variables only by their order.
  static bool are_apart(ptx_text::Statement a, ptx_text::Statement b) {
    if (a.kind != ptx_text::Statement::Kind::declaration || b.kind != a.kind) return false;
    for (ptx_text::Statement* s : {&a, &b})
      for (ptx_text::Declarator& d : s->declaration.names) {
        std::set<std::string> all;
        if (d.initializer) names(*d.initializer, all);
        if (!all.empty()) return false;
        d.name = "x";
      }
    a.comments = b.comments = {};
    return ptx_text::print(a) != ptx_text::print(b);
  }
  static void names(const ptx_text::Operand& o, std::set<std::string>& into) {
    if (o.kind == ptx_text::Operand::Kind::name) into.insert(o.text);
    for (const ptx_text::Operand& part : o.parts) names(part, into);
  }
  void shuffle(std::vector<ptx_text::Statement>& body) {
    for (int round = 0; round < 3; ++round)
      for (size_t i = 0; i + 1 < body.size(); ++i) {
        if (!is_pure(body[i]) || !is_pure(body[i + 1]) || random_() % 2 == 0) continue;
        std::set<std::string> first, second, written_first, written_second;
        for (const ptx_text::Operand& o : body[i].instruction.operands) names(o, first);
        for (const ptx_text::Operand& o : body[i + 1].instruction.operands) names(o, second);
        names(body[i].instruction.operands[0], written_first);
        names(body[i + 1].instruction.operands[0], written_second);
        const bool apart = std::none_of(written_first.begin(), written_first.end(),
                                        [&](const auto& n) { return second.contains(n); }) &&
                           std::none_of(written_second.begin(), written_second.end(),
                                        [&](const auto& n) { return first.contains(n); });
        if (apart) std::swap(body[i], body[i + 1]);
      }
  }

  std::string& name_of(const std::string& old) {
    std::string& name = names_[old];
    if (name.empty())
      name = fmt::format("{}{}_{}", old[0] == '%' ? "%" : "", "qzwv"[random_() % 4], names_.size());
    return name;
  }
  void rename(ptx_text::Declaration& d) {
    for (ptx_text::Declarator& name : d.names) name.name = name_of(name.name);
  }
  void rename(std::vector<ptx_text::Statement>& body) {
    std::vector<ptx_text::Statement> renamed;
    for (ptx_text::Statement s : body) {
      if (s.kind == ptx_text::Statement::Kind::declaration && s.declaration.has(".reg")) {
        // A range of names becomes separate names.
        std::vector<ptx_text::Declarator> all;
        for (const ptx_text::Declarator& d : s.declaration.names)
          for (int i = 0; i < (d.count.empty() ? 1 : std::stoi(d.count)); ++i)
            all.push_back({.name = name_of(d.count.empty() ? d.name : d.name + std::to_string(i)),
                           .count = {},
                           .extents = {},
                           .initializer = {},
                           .at = {}});
        s.declaration.names = all;
      } else if (s.kind == ptx_text::Statement::Kind::declaration) {
        rename(s.declaration);
      }
      renamed.push_back(std::move(s));
    }
    for (ptx_text::Statement& s : renamed) {
      if (s.kind == ptx_text::Statement::Kind::label) s.label = name_of(s.label);
      if (s.kind == ptx_text::Statement::Kind::block) rename(s.block);
    }
    for (ptx_text::Statement& s : renamed) {
      if (s.kind == ptx_text::Statement::Kind::directive)
        for (std::string& token : s.directive.tokens) token = known(token);
      for (ptx_text::Declarator& d : s.declaration.names)
        if (d.initializer) rename(*d.initializer);
      if (s.kind != ptx_text::Statement::Kind::instruction) continue;
      if (s.instruction.guard) s.instruction.guard->predicate = known(s.instruction.guard->predicate);
      for (ptx_text::Operand& o : s.instruction.operands) rename(o);
    }
    body = std::move(renamed);
  }
  void rename(ptx_text::Operand& o) {
    if (o.kind == ptx_text::Operand::Kind::name) o.text = known(o.text);
    for (ptx_text::Operand& part : o.parts) rename(part);
  }
  std::string known(const std::string& old) const {
    const auto found = names_.find(old);
    return found == names_.end() ? old : found->second;
  }

  std::mt19937_64 random_;
  std::map<std::string, std::string> names_;
};

}  // namespace ptxbuilder::test
