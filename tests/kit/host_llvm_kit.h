// A front end that uses LLVM's NVPTX independently of the library.
#pragma once

#include <doctest/doctest.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ptxbuilder::test {

inline std::unique_ptr<llvm::TargetMachine> hosts_machine() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  const llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  REQUIRE_MESSAGE(target, message);
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, "sm_90a", "+ptx80", {}, std::nullopt));
}

// A module with a kernel of the host, "kernel(ptr addrspace(1), i32)", and an IRBuilder at the kernel's
// entry.
struct HostModule {
  HostModule() : module("host", context), machine(hosts_machine()), ir(context) {
    module.setTargetTriple(machine->getTargetTriple());
    module.setDataLayout(machine->createDataLayout());
    kernel = function("kernel", {llvm::PointerType::get(context, 1), llvm::Type::getInt32Ty(context)});
    kernel->setCallingConv(llvm::CallingConv::PTX_Kernel);
    ir.SetInsertPoint(&kernel->getEntryBlock());
  }

  llvm::Function* function(const char* name, const std::vector<llvm::Type*>& parameters) {
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, false);
    auto* made = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
    llvm::BasicBlock::Create(context, "entry", made);
    return made;
  }
  llvm::GlobalVariable* shared(const char* name, uint64_t bytes) {
    auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), bytes);
    auto* variable = new llvm::GlobalVariable(module, type, false, llvm::GlobalVariable::InternalLinkage,
                                              llvm::PoisonValue::get(type), name, nullptr,
                                              llvm::GlobalValue::NotThreadLocal, 3);
    variable->setAlignment(llvm::Align(16));
    return variable;
  }

  std::string ptx() {
    llvm::SmallString<4096> text;
    llvm::raw_svector_ostream out(text);
    llvm::legacy::PassManager passes;
    REQUIRE_FALSE(machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile));
    passes.run(module);
    return std::string(text);
  }

  llvm::LLVMContext context;
  llvm::Module module;
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::Function* kernel;
  llvm::IRBuilder<> ir;
};

}  // namespace ptxbuilder::test
