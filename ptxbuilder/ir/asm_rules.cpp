#include "ptxbuilder/ir/asm_rules.h"

#include <fmt/format.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstrTypes.h>

#include <charconv>
#include <string>
#include <vector>

namespace ptxbuilder {
namespace {

constexpr std::string_view kBlanks = " \t\n,";

// Removes the next word from a statement, and returns the word; empty at the end of the statement.
std::string_view next_word(std::string_view& statement) {
  statement.remove_prefix(std::min(statement.find_first_not_of(kBlanks), statement.size()));
  const std::string_view word = statement.substr(0, statement.find_first_of(kBlanks));
  statement.remove_prefix(word.size());
  return word;
}

// The result of parsing a declaration such as `.reg .f32 acc0_<64>;`: its type, and the numbers of the
// declared registers, from `first` up to but not including `end`.
struct Declared {
  std::string_view type;
  int first, end;
};

void add_declared(std::string_view statement, std::string_view base, std::vector<Declared>& all) {
  if (next_word(statement) != ".reg") return;
  const std::string_view type = next_word(statement);
  for (std::string_view word = next_word(statement); !word.empty(); word = next_word(statement)) {
    if (!word.starts_with(base)) continue;
    word.remove_prefix(base.size());
    const bool counted = word.starts_with('<') && word.ends_with('>');
    if (counted) word = word.substr(1, word.size() - 2);
    int number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || rest != word.data() + word.size()) continue;
    all.push_back(counted ? Declared{type, 0, number} : Declared{type, number, number + 1});
  }
}

void add_declared(const llvm::BasicBlock& block, std::string_view base, std::vector<Declared>& all) {
  for (const llvm::Instruction& i : block) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (!call || !call->isInlineAsm()) continue;
    std::string_view text = llvm::cast<llvm::InlineAsm>(call->getCalledOperand())->getAsmString();
    if (text.find(".reg") == std::string_view::npos) continue;
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of(";{}"), text.size());
      add_declared(text.substr(0, end), base, all);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
}

bool serves(std::string_view declared, std::string_view needed) {
  return declared == needed ||
         (declared[1] == 'b' && needed[1] == 'f' && declared.substr(2) == needed.substr(2));
}

}  // namespace

void check_declared(const llvm::Function& function, const isa::Row& row, const isa::Operand& operand,
                    const Registers& registers) {
  std::vector<Declared> declared;
  add_declared(function.getEntryBlock(), registers.base, declared);
  if (declared.empty())
    for (const llvm::BasicBlock& block : function) add_declared(block, registers.base, declared);
  const std::string_view needed = isa::register_type(operand.cls);
  for (int i = registers.first; i < registers.first + registers.count; ++i) {
    const auto of = std::find_if(declared.begin(), declared.end(),
                                 [&](const Declared& d) { return i >= d.first && i < d.end; });
    if (of == declared.end())
      isa::refuse_operand(
          row, operand,
          declared.empty()
              ? fmt::format("names the register {}{}, which no .reg statement of the function declares",
                            registers.base, i)
              : fmt::format("names the register {}{}, but the last one that is declared is {}{}",
                            registers.base, i, registers.base, declared.back().end - 1));
    if (!serves(of->type, needed))
      isa::refuse_operand(
          row, operand,
          fmt::format("is a {} register, but {}{} is declared as {}", needed, registers.base, i, of->type));
  }
}

void check_cta_group(llvm::Function& function, std::string_view text) {
  constexpr std::string_view kGroup = ".cta_group::";
  constexpr const char* kAttribute = "ptxbuilder.cta_group";  // the group, and the instruction that set it
  for (size_t at = text.find(kGroup); at != std::string_view::npos; at = text.find(kGroup, at + 1)) {
    const size_t begin = text.find_last_of(" \t\n;{}", at) + 1;
    std::string_view instruction = text.substr(begin);
    instruction = instruction.substr(0, instruction.find_first_of(" \t\n;"));
    if (!instruction.starts_with("tcgen05.")) continue;  // copies may use either group
    const char group = text[at + kGroup.size()];
    const llvm::StringRef known = function.getFnAttribute(kAttribute).getValueAsString();
    if (known.empty()) {
      const Where line = callers::open_line;
      function.addFnAttr(kAttribute,
                         fmt::format("{}{}{}", group, instruction, line ? " at " + to_string(line) : ""));
    } else if (known[0] != group) {
      throw Error(
          fmt::format("{}: .cta_group is {}, but {} in {} earlier, set by {}; all tcgen05 instructions of a "
                      "kernel must have the same",
                      instruction, group, known.substr(0, 1).str(), std::string_view(function.getName()),
                      known.substr(1).str()));
    }
  }
}

}  // namespace ptxbuilder
