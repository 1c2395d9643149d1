#include "ptxbuilder/ir/module_needs.h"

#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <cctype>
#include <functional>
#include <vector>

#include "ptxbuilder/isa/query.h"

namespace ptxbuilder {
namespace {

// The module flags that hold the requirements: the .version, times ten, and the sets of targets without
// duplicates. Linking modules selects the greatest .version, and joins their sets.
constexpr const char *kPtxFlag = "ptxbuilder.ptx", *kTargetsFlag = "ptxbuilder.targets";
// The metadata that holds the requirements of an instruction: the name of its row, and the targets that
// support the row.
constexpr const char* kRow = "ptxbuilder.row";

// Returns the module's name, usually a file name. Errors begin with it.
std::string_view name_of(const llvm::Module& module) { return std::string_view(module.getName()); }

isa::Targets targets_of(const llvm::Metadata* names, std::string_view where) {
  const auto* text = llvm::dyn_cast_or_null<llvm::MDString>(names);
  try {
    return isa::Targets::parse(text ? std::string_view(text->getString()) : "");
  } catch (const char* reason) {
    throw Error(fmt::format("{}: {}", where, reason));
  }
}

// Returns the text of inline asm that was not emitted from a row, and otherwise "". For rows, the metadata
// contains more information than the text.
std::string_view own_asm(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  return text && !i.getMetadata(kRow) ? std::string_view(text->getAsmString()) : std::string_view();
}

// Calls `work` for each mnemonic and each special register in `text` that the manual lists, together with its
// requirements.
void each_floor(std::string_view text, const std::function<void(std::string_view, const isa::Floor&)>& work) {
  for (const auto& [mnemonic, operands] : isa::instructions_in(text))
    if (auto floor = isa::floor_of(mnemonic, operands); floor || (floor = isa::floor_of_alike(mnemonic)))
      work(mnemonic, *floor);
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < text.size() && is_of_name(text[end])) ++end;
    const std::string_view name = text.substr(at, end - at);
    if (const auto floor = isa::floor_of_register(name)) work(name, *floor);
  }
}

template <class Work>
void each_instruction(const llvm::Module& module, Work&& work) {
  for (const llvm::Function& f : module)
    for (const llvm::BasicBlock& block : f)
      for (const llvm::Instruction& i : block) work(i);
}

}  // namespace

Needs needs_of_asm(const llvm::Module& module) {
  Needs needs;
  each_instruction(module, [&](const llvm::Instruction& i) {
    each_floor(own_asm(i), [&](std::string_view, const isa::Floor& floor) {
      needs.ptx_version = std::max(needs.ptx_version, floor.ptx_version);
      needs.targets = needs.targets & floor.targets;
    });
  });
  return needs;
}

void require(llvm::Module& module, int ptx_version, isa::Targets targets) {
  if (needs_of(module).ptx_version < ptx_version)
    module.setModuleFlag(llvm::Module::Max, kPtxFlag, static_cast<uint32_t>(ptx_version));
  llvm::LLVMContext& context = module.getContext();
  const std::string names = targets.text("+");
  std::vector<llvm::Metadata*> all;
  if (auto* known = llvm::dyn_cast_or_null<llvm::MDNode>(module.getModuleFlag(kTargetsFlag)))
    for (const llvm::MDOperand& set : known->operands()) {
      if (auto* one = llvm::dyn_cast_or_null<llvm::MDString>(set.get());
          one && one->getString() == llvm::StringRef(names))
        return;
      all.push_back(set);
    }
  all.push_back(llvm::MDString::get(context, names));
  module.setModuleFlag(llvm::Module::AppendUnique, kTargetsFlag, llvm::MDNode::get(context, all));
}

Needs needs_of(const llvm::Module& module) {
  Needs needs;
  if (auto* version = llvm::mdconst::extract_or_null<llvm::ConstantInt>(module.getModuleFlag(kPtxFlag)))
    needs.ptx_version = static_cast<int>(version->getZExtValue());
  if (auto* sets = llvm::dyn_cast_or_null<llvm::MDNode>(module.getModuleFlag(kTargetsFlag)))
    for (const llvm::MDOperand& set : sets->operands())
      needs.targets = needs.targets & targets_of(set.get(), fmt::format("{}: the module flag {}",
                                                                        name_of(module), kTargetsFlag));
  return needs;
}

void note_row(llvm::Instruction& instruction, const isa::Row& row) {
  llvm::LLVMContext& context = instruction.getContext();
  const auto text = [&](std::string_view of) { return llvm::MDString::get(context, of); };
  instruction.setMetadata(kRow, llvm::MDNode::get(context, {text(row.name), text(row.targets.text("+"))}));
}

std::string line_of(const llvm::Instruction& instruction) {
  const llvm::DILocation* at = instruction.getDebugLoc().get();
  return at ? fmt::format(" at {}:{}", std::string_view(at->getFilename()), at->getLine()) : "";
}

std::string first_that_lacks(const llvm::Module& module, isa::Sm target) {
  std::string first;
  each_instruction(module, [&](const llvm::Instruction& i) {
    const auto check = [&](std::string_view what, isa::Targets targets) {
      if (!first.empty() || targets.has(target)) return;
      first = fmt::format("; {} in '{}'{} needs {}", what, std::string_view(i.getFunction()->getName()),
                          line_of(i), targets.text());
    };
    each_floor(own_asm(i),
               [&](std::string_view what, const isa::Floor& floor) { check(what, floor.targets); });
    const llvm::MDNode* note = i.getMetadata(kRow);
    if (!note || note->getNumOperands() != 2) return;
    if (const auto* name = llvm::dyn_cast_or_null<llvm::MDString>(note->getOperand(0).get()))
      check(std::string_view(name->getString()), targets_of(note->getOperand(1).get(), kRow));
  });
  return first;
}

std::string target_cpu(const llvm::Module& module) {
  const llvm::Function* first = nullptr;
  const auto cpu = [](const llvm::Function& f) {
    return std::string_view(f.getFnAttribute("target-cpu").getValueAsString());
  };
  const auto name = [](const llvm::Function& f) { return std::string_view(f.getName()); };
  for (const llvm::Function& f : module) {
    if (f.isDeclaration() || cpu(f).empty()) continue;
    if (std::ranges::none_of(isa::targets(), [&](const isa::Target& t) { return t.name == cpu(f); }))
      throw Error(
          fmt::format("{}: the target-cpu of the function '{}' is {}, but must be one of {}; choose another "
                      "target, such as --target sm_90a",
                      name_of(module), name(f), cpu(f), isa::names_of_targets()));
    if (!first) first = &f;
    if (cpu(f) != cpu(*first))
      throw Error(fmt::format("{}: the target-cpu of '{}' is {}, but that of '{}' is {}; state the target",
                              name_of(module), name(*first), cpu(*first), name(f), cpu(f)));
  }
  return first ? std::string(cpu(*first)) : "";
}

}  // namespace ptxbuilder
