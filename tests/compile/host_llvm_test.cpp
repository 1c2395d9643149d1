// Tests that a process that uses NVPTX itself is not disturbed. Its own TargetMachines must return and print
// the same before, during and after the compilation of kernels, on this thread and on others.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "host_llvm_kit.h"
#include "library_kit.h"

namespace ptxbuilder::test::host_llvm_test {
namespace {

std::string hosts_layout() { return hosts_machine()->createDataLayout().getStringRepresentation(); }

// The host's own kernel loads through a shared pointer, with the number of bits that LLVM uses by default.
std::string hosts_ptx() {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  auto* pointer = llvm::PointerType::get(host.context, 3);
  llvm::Value* slot = host.shared("slot", 8);
  ir.CreateStore(llvm::ConstantExpr::getBitCast(host.shared("cell", 4), pointer), slot, true);
  ir.CreateStore(ir.CreateLoad(ir.getInt32Ty(), ir.CreateLoad(pointer, slot, true)), host.kernel->getArg(0));
  ir.CreateRetVoid();
  return host.ptx();
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
  CHECK(layout.find("p3:32") == std::string::npos);  // otherwise, the test would show nothing
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

}  // namespace ptxbuilder::test::host_llvm_test
