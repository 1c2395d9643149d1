#include "ptxbuilder/ir/module_needs.h"

#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>

#include <vector>

namespace ptxbuilder {
namespace {

// What instructions of a module need: ten times a .version, which linking takes the greatest of, and sets of
// targets, each once, of which linking takes all.
constexpr const char *kPtxFlag = "ptxbuilder.ptx", *kTargetsFlag = "ptxbuilder.targets";
// Of an instruction: the name of its row and where that runs.
constexpr const char* kRow = "ptxbuilder.row";

isa::Targets targets_of(const llvm::Metadata* names, std::string_view where) {
  const auto* text = llvm::dyn_cast_or_null<llvm::MDString>(names);
  try {
    return isa::Targets::parse(text ? std::string_view(text->getString()) : "");
  } catch (const char* reason) {
    throw Error(fmt::format("{}: {}", where, reason));
  }
}

}  // namespace

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
      needs.targets = needs.targets & targets_of(set.get(), fmt::format("the module flag {}", kTargetsFlag));
  return needs;
}

void note_row(llvm::Instruction& instruction, const isa::Row& row) {
  llvm::LLVMContext& context = instruction.getContext();
  const auto text = [&](std::string_view of) { return llvm::MDString::get(context, of); };
  instruction.setMetadata(kRow, llvm::MDNode::get(context, {text(row.name), text(row.targets.text("+"))}));
}

std::string first_that_lacks(const llvm::Module& module, isa::Sm target) {
  for (const llvm::Function& f : module)
    for (const llvm::BasicBlock& block : f)
      for (const llvm::Instruction& i : block) {
        const llvm::MDNode* note = i.getMetadata(kRow);
        if (!note || note->getNumOperands() != 2) continue;
        const auto* name = llvm::dyn_cast_or_null<llvm::MDString>(note->getOperand(0).get());
        const isa::Targets targets = targets_of(note->getOperand(1).get(), kRow);
        if (!name || targets.has(target)) continue;
        const llvm::DILocation* at = i.getDebugLoc().get();
        return fmt::format(
            "; {} in '{}'{} needs {}", std::string_view(name->getString()), std::string_view(f.getName()),
            at ? fmt::format(" at {}:{}", std::string_view(at->getFilename()), at->getLine()) : "",
            targets.text());
      }
  return "";
}

std::string target_cpu(const llvm::Module& module) {
  const llvm::Function* first = nullptr;
  const auto cpu = [](const llvm::Function& f) {
    return std::string_view(f.getFnAttribute("target-cpu").getValueAsString());
  };
  for (const llvm::Function& f : module) {
    if (f.isDeclaration() || cpu(f).empty()) continue;
    if (!first) first = &f;
    if (cpu(f) != cpu(*first))
      throw Error(fmt::format("the target-cpu of '{}' is {}, but that of '{}' is {}; name the target",
                              std::string_view(first->getName()), cpu(*first), std::string_view(f.getName()),
                              cpu(f)));
  }
  return first ? std::string(cpu(*first)) : "";
}

}  // namespace ptxbuilder
