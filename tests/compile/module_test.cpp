// LLVM's IR of somebody else's, to PTX: what it becomes, and what is said of what does not compile.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "library_kit.h"
#include "options.h"
#include "runtime/emulator/emulator.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

// d[i] = a * x[i] + d[i], as a front end or `opt` writes it; no triple, no layout.
const std::string saxpy = R"(
define ptx_kernel void @saxpy(ptr addrspace(1) %d, ptr addrspace(1) %x, float %a, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %inside = icmp slt i32 %tid, %n
  br i1 %inside, label %then, label %end
then:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %tid
  %pd = getelementptr float, ptr addrspace(1) %d, i32 %tid
  %vx = load float, ptr addrspace(1) %px
  %vd = load float, ptr addrspace(1) %pd
  %product = fmul float %a, %vx
  %sum = fadd float %product, %vd
  store float %sum, ptr addrspace(1) %pd
  br label %end
end:
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";

const std::string exponential = R"(
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @exponential(ptr addrspace(1) %d) {
  %x = load float, ptr addrspace(1) %d
  %y = call float @__nv_expf(float %x)
  store float %y, ptr addrspace(1) %d
  ret void
}
declare float @__nv_expf(float)
)";

// The floats at an address after a kernel of 32 threads has run on the emulator.
template <class... P>
std::vector<float> run(const std::string& ptx, const char* kernel, std::vector<float> d,
                       const std::vector<float>& x, const P&... more) {
  auto device = runtime::open_emulator({});
  const runtime::Address to = device->allocate(4 * d.size()), from = device->allocate(4 * x.size() + 4);
  device->copy_in(to, d.data(), 4 * d.size());
  if (!x.empty()) device->copy_in(from, x.data(), 4 * x.size());
  Signature signature;
  signature.kernel = kernel;
  signature.threads = x.empty() ? 1 : 32;
  auto program = device->load(ptx, signature);
  runtime::Launch launch;
  launch.grid = {1, 1, 1};
  launch.block = {signature.threads, 1, 1};
  std::vector<const void*> parameters = {&to};
  if (!x.empty()) parameters.push_back(&from);
  (parameters.push_back(&more), ...);
  device->launch(*program, launch, parameters);
  device->synchronize(std::chrono::seconds(60));
  device->copy_out(d.data(), to, 4 * d.size());
  return d;
}

}  // namespace

TEST_CASE("a module of LLVM's IR becomes PTX and runs") {
  const std::string ptx = ptx_of_ir(saxpy, "saxpy.ll");
  CHECK(contains(ptx, ".target sm_90a"));
  CHECK(contains(ptx, ".visible .entry saxpy("));
  std::vector<float> d(32), x(32), wanted(32);
  for (size_t i = 0; i < 32; ++i) {
    d[i] = static_cast<float>(i);
    x[i] = static_cast<float>(3 * i + 1);
    wanted[i] = i < 20 ? 2 * x[i] + d[i] : d[i];
  }
  CHECK(run(ptx, "saxpy", d, x, 2.0f, int32_t{20}) == wanted);
  CHECK(contains(ptx_of_ir(saxpy, "saxpy.ll", {.target = "sm_80", .ptx_version = 72}),
                 ".version 7.2\n.target sm_80"));
}

TEST_CASE("functions of libdevice are linked") {
  std::string ptx;
  const std::string text = error_of([&] { ptx = ptx_of_ir(exponential, "exponential.ll"); });
  if (contains(text, "no libdevice.10.bc is in CUDA_PATH or /usr/local/cuda"))
    return skip("no CUDA toolkit with libdevice.10.bc");
  REQUIRE_MESSAGE(text.empty(), text);
  CHECK(contains(ptx, "ex2.approx"));
  CHECK_FALSE(contains(ptx, "__nv_expf;"));
  const std::vector<float> d = run(ptx, "exponential", {1.0f}, {});
  CHECK(d[0] == doctest::Approx(2.718281828).epsilon(1e-6));
}

TEST_CASE("what does not compile is an Error that says where, and the process lives") {
  struct Mistake {
    const char* what;
    std::string ir;
    ModuleOptions options;
    const char* words;
  };
  const std::string begin = "define ptx_kernel void @k(ptr %p) {\n", end = "  ret void\n}\n";
  const std::vector<Mistake> mistakes = {
      {"text that is no IR",
       begin + "  %x = frobnicate i32 1\n" + end,
       {},
       "m.ll:2:8: expected instruction opcode, in \"  %x = frobnicate i32 1\""},
      {"nothing that is IR", "\x01\x02", {}, "m.ll:1:1: "},
      {"bitcode that is cut off", "BC\xC0\xDE", {}, "m.ll: "},
      {"a block without a terminator", "define void @k() {\n  %x = add i32 1, 2\n}\n", {}, "m.ll:3:1: "},
      {"a phi that LLVM's verifier refuses",
       "define void @k(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\na:\n  br label %b\nb:\n"
       "  %x = phi i32 [ 1, %a ]\n  ret void\n}\n",
       {},
       "LLVM refuses the module: PHINode should have one entry for each predecessor"},
      {"another triple",
       "target triple = \"amdgcn-amd-amdhsa\"\n" + begin + end,
       {},
       "its target triple is amdgcn-amd-amdhsa, which is not nvptx64's"},
      {"another layout",
       "target datalayout = \"e-p:32:32\"\n" + begin + end,
       {},
       "its data layout is e-p:32:32; NVPTX's is e-p6:32:32"},
      {"an intrinsic that NVPTX does not have",
       begin + "  %x = call i32 @llvm.x86.rdpid()\n  store i32 %x, ptr %p\n" + end +
           "declare i32 @llvm.x86.rdpid()\n",
       {},
       "LLVM gives up: Cannot select: "},
      {"inline asm with a constraint that is none",
       begin + "  call void asm sideeffect \"nanosleep.u32 $0;\", \"y\"(i32 1)\n" + end,
       {},
       "constraint"},
      {"an operand that inline asm does not have",
       begin + "  call void asm sideeffect \"nanosleep.u32 $7;\", \"r\"(i32 1)\n" + end,
       {},
       "m.ll: LLVM"},
      {"no such target", begin + end, {.target = "sm_42"}, "sm_42"},
      {"a version below the target's", begin + end, {.ptx_version = 70}, ".version 7.0 is wanted, but"},
      {"a version that LLVM does not have",
       begin + end,
       {.ptx_version = 99},
       "this LLVM has no .version 9.9"},
      {"rows above the target",
       begin + end + "!llvm.module.flags = !{!0}\n!0 = !{i32 7, !\"ptxbuilder.sm\", i32 901}\n",
       {.target = "sm_90"},
       "its instructions need sm_90a, but the target is sm_90"},
      {"a libdevice that is not there",
       exponential,
       {.libdevice = "/nowhere/libdevice.bc"},
       "it calls __nv_expf, which is libdevice's, and /nowhere/libdevice.bc is not there"},
      {"a function that libdevice does not have",
       begin + "  call void @__nv_frobnicate()\n" + end + "declare void @__nv_frobnicate()\n",
       {.libdevice = "/dev/null"},
       "m.ll: "},
  };
  for (const Mistake& m : mistakes) {
    std::string what = m.what;
    CAPTURE(what);
    Where line;
    const std::string text = error_of([&] { line = Where::here(), ptx_of_ir(m.ir, "m.ll", m.options); });
    CAPTURE(text);
    CHECK(contains(text, m.words));
    CHECK(text.ends_with("(" + to_string(line) + ")"));
  }
}

TEST_CASE("modules and kernels compile side by side") {
  const std::string wanted = ptx_of_ir(saxpy, "saxpy.ll");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        if (t % 2 == 0) {
          wrong += ptx_of_ir(saxpy, "saxpy.ll") != wanted;
          continue;
        }
        Kernel k("k", {.line_info = false});
        auto [to] = k.params<gptr<u32>>("to");
        to[tid_x()] = u32(i);
        wrong += !contains(ptx_of(k), "st.global.b32");
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
