#include "instruction_texts.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>

#include "ptxbuilder/error.h"
#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::test {
namespace {

// The meaning of each register: the parameter that it was loaded from, a number, or a result of the
// instruction.
class Names {
 public:
  Names(const std::string& function, const std::vector<std::string>& parameters)
      : prefix_(function + "_param_"), parameters_(parameters) {}

  void declare(const ptx_text::Declaration& d) {
    if (!d.has(".reg")) return;
    for (const ptx_text::Declarator& one : d.names)
      (one.count.empty() ? registers_ : ranges_).insert(one.name);
  }
  bool is_register(const std::string& name) const {
    return registers_.contains(name) ||
           ranges_.contains(name.substr(0, name.find_last_not_of("0123456789") + 1));
  }

  // Handles an instruction that only moves a parameter or a number.
  void follow(const ptx_text::Instruction& i) {
    if (i.operands.size() < 2) return;
    std::vector<ptx_text::Operand> targets = i.operands[0].parts;
    if (i.operands[0].kind == ptx_text::Operand::Kind::name) targets = {i.operands[0]};
    for (size_t n = 0; n < targets.size(); ++n)
      if (is_register(targets[n].text)) {
        const std::string of = stands_for(i.operands[1]);
        names_[targets[n].text] = targets.size() == 1 ? of : fmt::format("{}.{}", of, n);
      }
  }

  std::string name_of(const std::string& text) {
    if (!is_register(text)) return text;
    if (!names_.contains(text)) names_[text] = fmt::format("result{}", results_++);
    return names_[text];
  }
  ptx_text::Operand renamed(ptx_text::Operand o) {
    if (o.parts.empty()) o.text = name_of(o.text);
    for (ptx_text::Operand& part : o.parts) part = renamed(part);
    return o;
  }

 private:
  std::string stands_for(const ptx_text::Operand& source) {
    std::string text = print(source);
    if (const size_t at = text.find(prefix_); at != std::string::npos) {
      size_t number = 0;
      const char* digits = text.data() + at + prefix_.size();
      const char* end = std::from_chars(digits, text.data() + text.size(), number).ptr;
      return parameters_.at(number) + std::string(end, text.find(']', at) + text.data() - end);
    }
    return name_of(text);
  }

  std::string prefix_;
  const std::vector<std::string>& parameters_;
  std::set<std::string> registers_, ranges_;
  std::map<std::string, std::string> names_;
  int results_ = 0;
};

// .shared alone means .shared::cta (PTX ISA, "Shared State Space").
std::string spelled_alike(std::string opcode) {
  for (size_t at; (at = opcode.find(".shared::cta")) != std::string::npos;) opcode.erase(at + 7, 5);
  return opcode;
}

// Returns the function's instructions whose opcode starts with the same word as the mnemonic, with their
// registers renamed.
std::vector<std::string> instructions_of(const std::vector<ptx_text::Statement>& body, Names& names,
                                         std::string_view mnemonic) {
  // These instructions move parameters and results.
  static const std::set<std::string_view> kMoves = {"ld",   "st",   "mov", "cvt", "and",
                                                    "setp", "selp", "shr", "prmt"};
  std::vector<std::string> found;
  for (const ptx_text::Statement& s : body) {
    if (s.kind == ptx_text::Statement::Kind::declaration) names.declare(s.declaration);
    if (s.kind == ptx_text::Statement::Kind::block)
      for (std::string& one : instructions_of(s.block, names, mnemonic)) found.push_back(std::move(one));
    if (s.kind != ptx_text::Statement::Kind::instruction) continue;
    ptx_text::Instruction i = s.instruction;
    const std::string_view kind = ptx_text::split_opcode(i.opcode)[0];
    const bool is_move = kMoves.contains(kind);
    if (kind == ptx_text::split_opcode(mnemonic)[0] && (!is_move || i.opcode == mnemonic)) {
      i.opcode = spelled_alike(i.opcode);
      if (i.guard) i.guard->predicate = names.name_of(i.guard->predicate);
      for (ptx_text::Operand& o : i.operands) o = names.renamed(o);
      found.push_back(print(i));
    } else if (is_move) {
      names.follow(i);
    }
  }
  return found;
}

}  // namespace

struct InstructionTexts::Parsed {
  ptx_text::Module module;
  std::vector<std::string> parameters;
};

InstructionTexts::InstructionTexts(const std::string& text, std::vector<std::string> parameters)
    : parsed_(new Parsed{ptx_text::parse(text), std::move(parameters)}) {}

std::vector<std::string> InstructionTexts::of(const std::string& function, std::string_view mnemonic) const {
  const ptx_text::Function* found = parsed_->module.find(function);
  if (!found) throw Error("no function is named " + function);
  Names names(function, parsed_->parameters);
  return instructions_of(found->body, names, mnemonic);
}

}  // namespace ptxbuilder::test
