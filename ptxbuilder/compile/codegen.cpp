#include "ptxbuilder/compile/codegen.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

#include "ptxbuilder/ir/state.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ptxbuilder {
namespace {

const llvm::Target& nvptx() {
  static const llvm::Target* target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string message;
    const llvm::Target* found =
        llvm::TargetRegistry::lookupTarget(llvm::Triple("nvptx64-nvidia-cuda"), message);
    if (!found) throw Error(fmt::format("this LLVM has no NVPTX back end: {}", message));
    return found;
  }();
  return *target;
}

}  // namespace

std::string generate_ptx(Builder& builder) {
  builder.finish();
  Builder::State& s = builder.state();
  const Signature& signature = s.signature;

  // CodeGenOptLevel::Default: below it the registers of an asm with 128 operands are not coalesced.
  std::unique_ptr<llvm::TargetMachine> machine(nvptx().createTargetMachine(
      s.module->getTargetTriple(), signature.target, fmt::format("+ptx{}", signature.ptx_version), {},
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));

  std::string problems;
  s.context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* problems) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream out(*static_cast<std::string*>(problems));
        llvm::DiagnosticPrinterRawOStream printer(out);
        info->print(printer);
        out << "; ";
      },
      &problems);

  llvm::SmallString<65536> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw Error("this LLVM cannot print PTX");
  passes.run(*s.module);
  if (!problems.empty()) throw Error(fmt::format("{}: LLVM: {}", signature.kernel, problems));
  return std::string(text);
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace ptxbuilder
