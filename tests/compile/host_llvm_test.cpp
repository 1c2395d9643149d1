// A process that uses NVPTX itself is not disturbed: what its own TargetMachines say and print is the same
// before, while and after kernels are compiled, on this thread and on others.
#include <doctest/doctest.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <memory>
#include <thread>

#include "library_kit.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

std::unique_ptr<llvm::TargetMachine> hosts_machine() {
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

std::string hosts_layout() { return hosts_machine()->createDataLayout().getStringRepresentation(); }

// The host's own kernel: a load through a shared pointer of as many bits as LLVM gives it.
std::string hosts_ptx() {
  llvm::LLVMContext context;
  llvm::Module module("host", context);
  auto machine = hosts_machine();
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  auto* pointer = llvm::PointerType::get(context, 3);
  auto* type = llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "first", module);
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(context, "entry", function));
  auto* at = ir.CreateLoad(pointer, function->getArg(0));
  ir.CreateStore(function->getArg(1), function->getArg(0));
  ir.CreateRet(ir.CreateLoad(ir.getInt32Ty(), at));
  llvm::SmallString<4096> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  REQUIRE_FALSE(machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile));
  passes.run(module);
  return std::string(text);
}

std::string a_kernel_of_ours(int number) {
  Kernel k("k", {.line_info = false});
  auto [to] = k.params<gptr<u32>>("to");
  smem base = Builder::current().shared_base();
  sptr<u32> words(base);
  words[tid_x()] = u32(number);
  sync_threads();
  to[tid_x()] = words[tid_x() ^ 1];
  return ptx_of(k);
}

}  // namespace

TEST_CASE("a host that uses NVPTX itself keeps its data layout and its PTX") {
  const std::string layout = hosts_layout(), ptx = hosts_ptx();
  CHECK(layout.find("p3:32") == std::string::npos);  // else the test shows nothing
  std::atomic<bool> compiling = true;
  std::atomic<int> looked = 0, others = 0;
  std::thread host([&] {
    while (compiling || looked < 100) {
      others += hosts_layout() != layout;
      others += looked % 10 == 0 && hosts_ptx() != ptx;
      ++looked;
    }
  });
  int shared_in_32_bits = 0;
  for (int i = 0; i < 1000; ++i) {
    shared_in_32_bits += a_kernel_of_ours(i).find("st.shared.b32 \t[%r") != std::string::npos;
    if (i % 100 == 0) others += hosts_layout() != layout;
  }
  compiling = false;
  host.join();
  CHECK(shared_in_32_bits == 1000);
  CHECK(others == 0);
  CHECK(looked >= 100);
  CHECK(hosts_layout() == layout);
  CHECK(hosts_ptx() == ptx);
}
