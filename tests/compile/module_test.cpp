// Tests the compilation of LLVM IR from other front ends to PTX: the results, and the errors for IR that does
// not compile.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "folder_kit.h"
#include "library_kit.h"
#include "options.h"
#include "ptxas_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/compile/typed_pointers.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/row.h"
#include "runtime/emulator/emulator.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::test::module_test {
namespace {

// d[i] = a * x[i] + d[i], as a front end or `opt` writes it, without a triple or a data layout.
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

// Runs a kernel of 32 threads on the emulator, and returns the floats of `d` after it.
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

TEST_CASE("a module of LLVM IR becomes PTX and runs") {
  const std::string ptx = ptx_of_ir(saxpy, "saxpy.ll").ptx;
  CHECK(contains(ptx, ".target sm_90a"));
  CHECK(contains(ptx, ".visible .entry saxpy("));
  std::vector<float> d(32), x(32), wanted(32);
  for (size_t i = 0; i < 32; ++i) {
    d[i] = static_cast<float>(i);
    x[i] = static_cast<float>(3 * i + 1);
    wanted[i] = i < 20 ? 2 * x[i] + d[i] : d[i];
  }
  CHECK(run(ptx, "saxpy", d, x, 2.0f, int32_t{20}) == wanted);
  CHECK(contains(ptx_of_ir(saxpy, "saxpy.ll", {.target = "sm_80", .ptx_version = 72}).ptx,
                 ".version 7.2\n.target sm_80"));
}

TEST_CASE("functions of libdevice are linked") {
  std::string ptx;
  const std::string text = error_of([&] { ptx = ptx_of_ir(exponential, "exponential.ll").ptx; });
  if (contains(text, "no libdevice.10.bc is in CUDA_PATH or /usr/local/cuda"))
    return skip("no CUDA toolkit with libdevice.10.bc");
  REQUIRE_MESSAGE(text.empty(), text);
  CHECK(contains(ptx, "ex2.approx"));
  CHECK_FALSE(contains(ptx, "__nv_expf;"));
  const std::vector<float> d = run(ptx, "exponential", {1.0f}, {});
  CHECK(d[0] == doctest::Approx(2.718281828).epsilon(1e-6));
}

TEST_CASE("IR that does not compile is an Error with its place, and the process survives") {
  struct Mistake {
    const char* what;
    std::string ir;
    ModuleOptions options;
    const char* words;
  };
  const std::string begin = "define ptx_kernel void @k(ptr %p) {\n", end = "  ret void\n}\n";
  const std::vector<Mistake> mistakes = {
      {"text that is not IR",
       begin + "  %x = frobnicate i32 1\n" + end,
       {},
       "m.ll:2:8: expected instruction opcode, in \"  %x = frobnicate i32 1\""},
      {"nothing that is IR", "\x01\x02", {}, "m.ll:1:1: "},
      {"bitcode that is cut off", "BC\xC0\xDE", {}, "m.ll: "},
      {"a block without a terminator", "define void @k() {\n  %x = add i32 1, 2\n}\n", {}, "m.ll:3:1: "},
      {"a phi that LLVM's verifier refuses",
       "define ptx_kernel void @k(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\na:\n  br label %b\nb:\n"
       "  %x = phi i32 [ 1, %a ]\n  ret void\n}\n",
       {},
       "LLVM rejects the module: PHINode should have one entry for each predecessor"},
      {"another triple",
       "target triple = \"amdgcn-amd-amdhsa\"\n" + begin + end,
       {},
       "its target triple is amdgcn-amd-amdhsa, but must be nvptx64's"},
      {"another layout",
       "target datalayout = \"e-p:32:32\"\n" + begin + end,
       {},
       "its data layout is e-p:32:32, but NVPTX's is "
       "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64: ptr has 4 bytes, aligned to 4, instead "
       "of 8, aligned to 8. Compile it for nvptx64-nvidia-cuda"},
      {"a layout with another alignment of a used type",
       "target datalayout = \"e-i64:32\"\ndefine ptx_kernel void @k(i64 %n) {\n" + end,
       {},
       "i64 has 8 bytes, aligned to 4, instead of 8, aligned to 8"},
      {"a big-endian layout", "target datalayout = \"E-i64:64\"\n" + begin + end, {}, "it is big-endian"},
      {"no text", " \n", {}, "m.ll: it is empty"},
      {"no kernel",
       "define i32 @f(i32 %x) {\n  ret i32 %x\n}\n",
       {},
       "m.ll: the module has no kernel; a kernel is a function"},
      {"host code with PTX",
       "@k_binary = internal constant [41 x i8] c\"//\\0A.version 8.0\\0A.target sm_90a\\0A.func x()\\00\"\n",
       {},
       "m.ll: this is host code whose kernels are PTX in @k_binary and no longer IR: MLIR keeps "
       "them as IR with gpu-module-to-binary=format=llvm"},
      {"host code with a cubin",
       "@k_binary = internal constant [5 x i8] c\"\\7FELF\\02\"\n",
       {},
       "whose kernels are a cubin in @k_binary"},
      {"host code with two modules of kernels",
       "@a = internal constant [4 x i8] c\"BC\\C0\\DE\"\n@b = internal constant [4 x i8] c\"BC\\C0\\DE\"\n",
       {},
       "m.ll: this is host code with kernels as bitcode in both @a and @b: pass one gpu.module at a time"},
      {"host code with what only begins as bitcode",
       "@a = internal constant [8 x i8] c\"BC\\C0\\DE....\"\n",
       {},
       "m.ll: @a is not bitcode: "},
      {"a kernel's name with dots",
       "define ptx_kernel void @a.b() {\n" + end,
       {},
       "the kernel 'a.b' is not valid in PTX, where names consist of letters, digits, _ and $ and do not "
       "begin with a digit: rename it, for example to 'a_b'"},
      {"a variable of a thread",
       "@t = thread_local global i32 0\n" + begin + end,
       {},
       "the variable 't' is thread_local, which GPUs do not support"},
      {"initial values of shared memory",
       "@s = internal addrspace(3) global [2 x i32] [i32 1, i32 2]\n" + begin + end,
       {},
       "the variable 's' in shared memory has initial values"},
      {"an alloca in shared memory",
       begin + "  %a = alloca i32, addrspace(3)\n" + end,
       {},
       "function 'k' has an alloca in address space 3, but allocas must be in local memory, which each "
       "thread has for itself: "
       "declare a global variable of the module in addrspace(3) instead"},
      {"a function of mathematics that libdevice has",
       begin +
           "  %v = load double, ptr %p\n  %x = call double @llvm.sinh.f64(double %v)\n  store double %x, ptr "
           "%p\n" +
           end + "declare double @llvm.sinh.f64(double)\n",
       {},
       "function 'k' calls llvm.sinh.f64, for which NVPTX has no instruction: call __nv_sinh of libdevice"},
      {"an intrinsic of another target",
       begin + "  call void @llvm.nvvm.tcgen05.relinq.alloc.permit.cg1()\n" + end +
           "declare void @llvm.nvvm.tcgen05.relinq.alloc.permit.cg1()\n",
       {},
       "function 'k' calls llvm.nvvm.tcgen05.relinq.alloc.permit.cg1, which sm_90a does not have: choose the "
       "target that supports it, such as --target sm_100a"},
      {"inline asm of another target",
       begin + "  call void asm sideeffect \"tcgen05.wait::ld.sync.aligned;\", \"\"()\n" + end,
       {.target = "sm_90a"},
       "its instructions need sm_100f, sm_110f, but the target is sm_90a; "
       "tcgen05.wait::ld.sync.aligned in 'k' needs"},
      {"a target-cpu that is too old",
       "define ptx_kernel void @k() #0 {\n" + end + "attributes #0 = { \"target-cpu\"=\"sm_60\" }\n",
       {},
       "m.ll: the target-cpu of the function 'k' is sm_60, but must be one of sm_75, "},
      {"a fault of LLVM's own",
       "define ptr @pick() {\nstart:\n  %slot = alloca i16\n  br label %first\nfirst:\n"
       "  %a = phi ptr [ null, %start ]\n  br i1 false, label %second, label %side\nside:\n  br label "
       "%second\n"
       "second:\n  %b = phi ptr [ %slot, %side ], [ %a, %first ]\n  ret ptr %b\n}\n" +
           begin + "  %q = call ptr @pick()\n  store ptr %q, ptr %p\n" + end,
       {},
       "crashed in its pass 'Early CSE', on the function 'pick', which is a bug in LLVM"},
      {"an intrinsic that NVPTX does not have",
       begin + "  %x = call i32 @llvm.x86.rdpid()\n  store i32 %x, ptr %p\n" + end +
           "declare i32 @llvm.x86.rdpid()\n",
       {},
       "function 'k' calls llvm.x86.rdpid, which sm_90a does not have: "},
      {"inline asm with a constraint that is none",
       begin + "  call void asm sideeffect \"nanosleep.u32 $0;\", \"y\"(i32 1)\n" + end,
       {},
       "constraint"},
      {"an operand that inline asm does not have",
       begin + "  call void asm sideeffect \"nanosleep.u32 $7;\", \"r\"(i32 1)\n" + end,
       {},
       "m.ll: LLVM"},
      {"no such target", begin + end, {.target = "sm_42"}, "sm_42"},
      {"a version below the target's", begin + end, {.ptx_version = 70}, ".version 7.0 is requested, but"},
      {"a version that LLVM does not have",
       begin + end,
       {.ptx_version = 99},
       "this LLVM has no .version 9.9"},
      {"rows above the target",
       begin + end +
           "!llvm.module.flags = !{!0}\n!0 = !{i32 6, !\"ptxbuilder.targets\", !1}\n"
           "!1 = !{!\"sm_90\", !\"sm_90a+sm_100f\"}\n",
       {.target = "sm_90"},
       "its instructions need sm_90a, sm_100f, but the target is sm_90"},
      {"a flag that is none",
       begin + end +
           "!llvm.module.flags = !{!0}\n!0 = !{i32 6, !\"ptxbuilder.targets\", !1}\n!1 = !{!\"hopper\"}\n",
       {},
       "m.ll: the module flag ptxbuilder.targets: a target is named sm_NUMBER"},
      {"a libdevice that is not there",
       exponential,
       {.libdevice = "/nowhere/libdevice.bc"},
       "it calls __nv_expf of libdevice, but /nowhere/libdevice.bc is not there"},
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

TEST_CASE("data layouts of other versions of LLVM are accepted if they agree about the types in use") {
  const char* layouts[] = {// LLVM 3 to 18, and 19 to 20
                           "e-i64:64-v16:16-v32:32-n16:32:64", "e-i64:64-i128:128-v16:16-v32:32-n16:32:64",
                           "e-p6:32:32-i64:64-i128:128-v16:16-v32:32-n16:32:64",
                           // NVVM, as in Numba
                           "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-"
                           "f64:64:64-v16:16:16-v32:32:"
                           "32-v64:64:64-v128:128:128-n16:32:64",
                           // 32-bit shared pointers of an older LLVM
                           "e-p3:32:32-i64:64-v16:16-v32:32-n16:32:64"};
  for (const char* layout : layouts) {
    CAPTURE(layout);
    const std::string ptx =
        ptx_of_ir(fmt::format("target datalayout = \"{}\"\n{}", layout, saxpy), "m.ll").ptx;
    CHECK(contains(ptx, ".visible .entry saxpy("));
  }
}

TEST_CASE("ptxas optimizes a module with debug information of any kind, which keeps its lines") {
  const std::string function = R"(
define ptx_kernel void @k(ptr addrspace(1) %x) !dbg !5 {
    #dbg_value(ptr addrspace(1) %x, !8, !DIExpression(), !7)
  store i32 1, ptr addrspace(1) %x, !dbg !7
  ret void, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!1 = !DIFile(filename: "user.mylang", directory: "/src")
!2 = !{i32 2, !"Dwarf Version", i32 4}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!5 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 10, type: !6, unit: !0, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !{null})
!7 = !DILocation(line: 12, column: 3, scope: !5)
!8 = !DILocalVariable(name: "x", arg: 1, scope: !5, file: !1, line: 10, type: !9)
!9 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
)";
  for (const char* kind : {"FullDebug", "LineTablesOnly", "DebugDirectivesOnly"}) {
    CAPTURE(kind);
    const std::string ir =
        function + fmt::format(
                       "!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, "
                       "isOptimized: false, emissionKind: {})\n",
                       kind);
    const std::string ptx = ptx_of_ir(ir, "m.ll").ptx;
    CHECK(contains(ptx, ".loc\t1 12 3"));
    CHECK(contains(ptx, "user.mylang"));
    CHECK_FALSE(contains(ptx, ", debug"));
    CHECK_FALSE(contains(ptx, ".debug_info"));
  }
}

// Checks out[i] = 2 * in[i] + i for i < n. Each module has a kernel 'k', with its own form of parameters.
TEST_CASE("modules of four front ends compile and run on the emulator") {
  constexpr int32_t kN = 20;
  const int64_t zero = 0, one = 1, count = 32;
  const int32_t n = kN;
  runtime::Address out = 0, in = 0;
  struct FrontEnd {
    const char* file;
    std::vector<const void*> parameters;
  };
  const FrontEnd all[] = {
      {"clang_O0_g.ll", {&out, &in, &n}},
      {"llvm14.ll", {&out, &in, &n}},
      {"nvvm_numba.ll", {&out, &count, &in, &count, &n}},
      {"mlir_host.ll", {&out, &in, &n}},
      {"mlir.ll", {&out, &out, &zero, &count, &one, &in, &in, &zero, &count, &one, &n}},
  };
  for (const FrontEnd& f : all) {
    CAPTURE(std::string(f.file));
    const std::string path = fmt::format("{}/compile/front_ends/{}", PTXBUILDER_TEST_DIR, f.file);
    const CompiledModule module = Compiler({.cache = false}).compile_ir(file_text(path), f.file);
    CHECK_FALSE(module.cubin.empty());
    auto device = runtime::open_emulator({});
    std::vector<float> x(count), wanted(count, -1.0f), got(count);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(3 * i) + 0.5f;
      if (i < kN) wanted[i] = 2 * x[i] + static_cast<float>(i);
    }
    out = device->allocate(4 * x.size()), in = device->allocate(4 * x.size());
    const std::vector<float> before(count, -1.0f);
    device->copy_in(out, before.data(), 4 * x.size());
    device->copy_in(in, x.data(), 4 * x.size());
    Signature signature;
    signature.kernel = "k";
    signature.threads = 32;
    auto program = device->load(module.ptx, signature);
    runtime::Launch launch;
    launch.grid = {1, 1, 1};
    launch.block = {32, 1, 1};
    device->launch(*program, launch, f.parameters);
    device->synchronize(std::chrono::seconds(60));
    device->copy_out(got.data(), out, 4 * x.size());
    CHECK(got == wanted);
  }
}

TEST_CASE("text of LLVM 14 is read with all kinds of pointer types, and nothing else is changed") {
  const std::pair<const char*, const char*> texts[] = {
      {"i32* %p, i8 addrspace(3)** @q", "ptr %p, ptr @q"},
      {"%\"class.a::b\"* %p, %0* %q, %struct.S addrspace(1)* %r", "ptr %p, ptr %q, ptr addrspace(1) %r"},
      {"call void (i8*, ...) @f(i8* %p)", "call void (ptr, ...) @f(ptr %p)"},
      {"load void (i32, { i8*, <2 x float*> })*, [4 x i8*]* %p", "load ptr, ptr %p"},
      {"type <{ i8*, [2 x [3 x i32*]], i64 }>", "type <{ ptr, [2 x [3 x ptr]], i64 }>"},
      {"c\"i8* \" ; i8*\n@x = global i8 () * null", "c\"i8* \" ; i8*\n@x = global ptr null"},
      {"{ i32 1, i8* null }, i32 (i32) @f, <4 x i1> %m, x i32*",
       "{ i32 1, ptr null }, i32 (i32) @f, <4 x i1> %m, x ptr"},
      {"ptr addrspace(3) %p, [0 x i8], void (), {}", "ptr addrspace(3) %p, [0 x i8], void (), {}"},
      {"{ i8*, ", "{ ptr, "},
      {"[3 x", "[3 x"},
      {"\"open", "\"open"},
  };
  for (const auto& [older, newer] : texts) CHECK(without_typed_pointers(older) == newer);
}

TEST_CASE("target and .version are those that inline asm needs") {
  struct Asm {
    const char *text, *target, *version;
  };
  const Asm all[] = {
      {"nanosleep.u32 1;", "sm_90a", "8.0"},
      {"{ .reg .b32 r; // a comment; here\\0A mov.u32 r, %clusterid.x; }", "sm_90a", "8.0"},
      {"{ .reg .b64 t; again: @p0 mov.u64 t, 1; /* two; */ fence.proxy.tensormap::generic.acquire.gpu [t], "
       "128; }",
       "sm_90a", "8.3"},
      {"fence.proxy.async.global; fence.acquire.sync_restrict::shared::cluster.cluster;", "sm_90a", "8.6"},
      {"tcgen05.wait::ld.sync.aligned;", "sm_100a", "8.6"},
      {"tcgen05.mma.sp.cta_group::1.kind::f16.collector::a::discard.ashift [1];", "sm_100a",
       "8.6"},  // the manual does not have this order of modifiers
  };
  for (const Asm& a : all) {
    const std::string ir = fmt::format(
        "define ptx_kernel void @k() {{\n  call void asm sideeffect \"{}\", \"\"()\n  ret void\n}}\n",
        a.text);
    CAPTURE(a.text);
    const std::string ptx = ptx_of_ir(ir, "m.ll").ptx;
    CAPTURE(ptx.substr(0, 200));
    CHECK(contains(ptx, fmt::format(".version {}\n.target {}\n", a.version, a.target)));
  }
}

// Turns a module with only one row into inline asm, in the form of another front end.
std::string as_module(const isa::Row& row, const isa::Target& target) {
  const std::string ptx = isa::standalone_module(row, target, target.ptx_version);
  const size_t begin = ptx.find("\n{\n") + 1, end = ptx.rfind("\tret;");
  std::string text;
  for (const char c : ptx.substr(begin, end - begin) + "}") {
    if (c == '\n' || c == '\t')
      text += ' ';
    else
      text += c == '$' ? "$$" : std::string(1, c);
  }
  return fmt::format(
      "define ptx_kernel void @k() {{\n  call void asm sideeffect \"{}\", \"\"()\n  ret void\n}}\n", text);
}

TEST_CASE("inline asm of every .version assembles without a given version") {
  const Compiler compiler({.cache = false});
  if (!compiler.ptxas()) return skip("no ptxas");
  constexpr size_t kOfEach = 6;
  std::map<int, std::vector<std::pair<std::string, std::string>>>
      modules;  // mnemonics and modules, indexed by .version
  isa::for_each_instruction([&](const isa::MadeRow& made, std::string_view) {
    const isa::Row row = made.row();
    std::vector<std::pair<std::string, std::string>>& of_version = modules[row.ptx_version];
    if (of_version.size() == kOfEach || row.targets.empty() || row.ptx_version > 90) return;
    const std::string mnemonic(row.mnemonic()), family = mnemonic.substr(0, mnemonic.find('.'));
    // One row of each family is used, except rows that need more than registers, or a higher version for some
    // numbers.
    if (family == "call" || family == "ret" || family == "exit" || family == "stackrestore" ||
        family == "setmaxnreg" || family == "tensormap" || family == "alloca")
      return;
    for (const auto& [known, module] : of_version)
      if (known.starts_with(family + ".")) return;
    const isa::Target& target =
        row.targets.has(isa::Sm::sm_90a) ? isa::target(isa::Sm::sm_90a) : row.targets.least();
    of_version.emplace_back(mnemonic, as_module(row, target));
  });
  size_t assembled = 0;
  for (const auto& [version, all] : modules)
    for (const auto& [mnemonic, module] : all) {
      CAPTURE(version);
      CAPTURE(mnemonic);
      const std::string problem =
          error_of([&] { assembled += !compiler.compile_ir(module, "asm.ll").cubin.empty(); });
      CHECK_MESSAGE(problem.empty(), problem);
    }
  CHECK(assembled >= 60);
  CHECK(modules.size() >= 15);
}

TEST_CASE("notes report the costs of a foreign module, and its directives without effect") {
  const std::string ir = R"(
@zero = internal addrspace(3) global [32 x i32] zeroinitializer
@a.b = internal global i32 7
define i32 @c.d(i32 %x) noinline {
  %y = load i32, ptr @a.b
  %z = mul i32 %x, %y
  ret i32 %z
}
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %n) {
  %a = alloca [16 x i32]
  %p = getelementptr i32, ptr %a, i32 %n
  store volatile i32 %n, ptr %p
  %v = load volatile i32, ptr %p
  %w = call i32 @c.d(i32 %v)
  store i32 %w, ptr addrspace(3) @zero
  store i32 %w, ptr addrspace(1) %x
  ret void
}
)";
  const CompiledModule compiled = Compiler({.cache = false}).compile_ir(ir, "m.ll");
  REQUIRE(compiled.notes.size() == 2);
  CHECK(compiled.notes[0].starts_with("the variable 'zero' in shared memory is not zero when a CTA begins"));
  CHECK(compiled.notes[1].starts_with("64 bytes of stack in function 'k'."));
  CHECK(Compiler({.cache = false}).compile_ir(ir, "m.ll", {}, {"stack"}).notes.size() == 1);
}

TEST_CASE("modules and kernels compile side by side") {
  const std::string wanted = ptx_of_ir(saxpy, "saxpy.ll").ptx;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        if (t % 2 == 0) {
          wrong += ptx_of_ir(saxpy, "saxpy.ll").ptx != wanted;
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

namespace {

// The first kernel computes scaled[i] = a * x[i]. The second computes out[i] = x[i] + y[i] for i < n, through
// shared memory. The third does nothing.
const std::string three_kernels = R"(
@tile = internal addrspace(3) global [64 x float] undef, align 16
define ptx_kernel void @scale(ptr %scaled, ptr addrspace(1) %x, float %a) #0 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr addrspace(1) %x, i32 %tid
  %to = getelementptr float, ptr %scaled, i32 %tid
  %v = load float, ptr addrspace(1) %from
  %product = fmul float %a, %v
  store float %product, ptr %to
  ret void
}
define ptx_kernel void @add(ptr addrspace(1), ptr addrspace(1), ptr addrspace(1), i32 %n) #1 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr float, ptr addrspace(1) %1, i32 %tid
  %py = getelementptr float, ptr addrspace(1) %2, i32 %tid
  %po = getelementptr float, ptr addrspace(1) %0, i32 %tid
  %place = getelementptr float, ptr addrspace(3) @tile, i32 %tid
  %x = load float, ptr addrspace(1) %px
  store volatile float %x, ptr addrspace(3) %place
  %inside = icmp ult i32 %tid, %n
  br i1 %inside, label %then, label %end
then:
  %again = load volatile float, ptr addrspace(3) %place
  %y = load float, ptr addrspace(1) %py
  %sum = fadd float %again, %y
  store float %sum, ptr addrspace(1) %po
  br label %end
end:
  ret void
}
define ptx_kernel void @nothing() #0 {
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
attributes #0 = { "nvvm.maxntid"="64" }
attributes #1 = { "nvvm.reqntid"="64,1,1" }
)";

CompilerOptions options_of(const Ptxas* ptxas) {
  CompilerOptions options;
  options.assemble = ptxas != nullptr;
  options.cache = false;
  return options;
}

Parameter scalar(const char* name, DType type) { return {.name = name, .dtype = type}; }
Parameter pointer(const char* name) {
  return {.name = name, .kind = Parameter::Kind::pointer, .dtype = DType::u8};
}

}  // namespace

TEST_CASE("a module's PTX and sidecars are launched from their files") {
  const Ptxas* ptxas = real_ptxas();
  const CompiledModule compiled = Compiler(options_of(ptxas)).compile_ir(three_kernels, "m.ll");
  Folder folder;
  const std::vector<std::string> files = write_files(compiled, "m", folder.path(""));
  std::vector<std::string> wanted = {folder.path("m.ptx"), folder.path("m.scale.json"),
                                     folder.path("m.add.json"), folder.path("m.nothing.json")};
  if (ptxas) wanted.insert(wanted.begin() + 1, folder.path("m.cubin"));
  CHECK(files == wanted);
  for (const ModuleKernel& k : compiled.kernels) {
    REQUIRE_MESSAGE(k.signature, k.why_unknown);
    CHECK(k.signature->registers.has_value() == (ptxas != nullptr));
    if (ptxas) CHECK(k.signature->spill_bytes == 0u);
    if (ptxas) CHECK(k.signature->stack_bytes == 0u);
  }
  if (ptxas) {
    const uint32_t scale = *compiled.kernels[0].signature->registers,
                   add = *compiled.kernels[1].signature->registers,
                   nothing = *compiled.kernels[2].signature->registers;
    CHECK(std::max(scale, add) == compiled.assembled.registers);
    CHECK(nothing < std::min(scale, add));  // each kernel has its own register count
  }

  auto device = runtime::open_emulator({});
  const std::string image = folder.path("m");
  auto scale = runtime::LoadedKernel::from_file(*device, image, "scale");
  auto add = runtime::LoadedKernel::from_file(*device, image, "add");
  std::mt19937 engine(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> x(64), poison(64, std::nanf(""));
  for (float& v : x) v = normal(engine);
  auto dx = runtime::Buffer::of(*device, x), scaled = runtime::Buffer::of(*device, poison),
       sum = runtime::Buffer::of(*device, poison);
  const float a = normal(engine);
  scale.launch({.grid = {1}}, {runtime::pointer(scaled, DType::u8).named("scaled"),
                               runtime::pointer(dx, DType::u8).named("x"), runtime::scalar(a).named("a")});
  add.launch({.grid = {1}},
             {runtime::pointer(sum, DType::u8).named("arg0"), runtime::pointer(scaled, DType::u8),
              runtime::pointer(dx, DType::u8), runtime::scalar(50u).named("n")});
  device->synchronize(std::chrono::seconds(60));
  const std::vector<float> found = sum.copy_out<float>();
  for (size_t i = 0; i < 64; ++i) {
    CAPTURE(i);
    if (i < 50)
      CHECK(found[i] == a * x[i] + x[i]);
    else
      CHECK(std::isnan(found[i]));
  }
  // Launches are checked like those of the library's own kernels.
  CHECK(contains(error_of([&] { add.launch({.grid = {1}}, {runtime::scalar(a)}); }),
                 "takes 4 arguments (arg0, arg1, arg2, n), but 1 were given"));
  CHECK(contains(error_of([&] {
                   scale.launch({.grid = {1}}, {runtime::pointer(scaled, DType::u8),
                                                runtime::pointer(dx, DType::u8), runtime::scalar(1u)});
                 }),
                 "it takes a scalar of f32, but one of u32 was given"));
  // If there are several kernels, the caller must name one.
  CHECK(contains(error_of([&] { runtime::LoadedKernel::from_file(*device, image); }),
                 "m.json: cannot be read; " + image + " has sidecars for the kernels add, nothing, scale"));
  CHECK(
      contains(error_of([&] { runtime::LoadedKernel::from_file(*device, image, "sub"); }),
               "m.sub.json: cannot be read; " + image + " has sidecars for the kernels add, nothing, scale"));
}

TEST_CASE("sidecars of kernels that a module no longer has are removed, and other files are not") {
  namespace fs = std::filesystem;
  Folder folder;
  const Compiler compiler(options_of(nullptr));
  auto compile = [&](const std::string& ir) {
    return write_files(compiler.compile_ir(ir, "m.ll"), "m", folder.path(""));
  };
  const std::string of_scale = three_kernels.substr(0, three_kernels.find("define ptx_kernel void @add")) +
                               three_kernels.substr(three_kernels.find("declare"));
  compile(of_scale);
  CHECK(fs::exists(folder.path("m.json")));
  CHECK(read_sidecar(folder.path("m"), "scale") == read_sidecar(folder.path("m")));
  CHECK_FALSE(find_sidecar(folder.path("m"), "add"));
  compile(three_kernels);
  CHECK_FALSE(fs::exists(folder.path("m.json")));
  CHECK(read_sidecar(folder.path("m"), "add").kernel == "add");
  compile(saxpy);  // the number of threads is not known
  CHECK(fs::exists(folder.path("m.ptx")));
  CHECK_FALSE(fs::exists(folder.path("m.json")));
  CHECK(fs::exists(folder.path("m.add.json")));  // apparently this file belongs to another module

  std::ofstream(folder.path("m.json")) << R"({"grid": 1})";
  CHECK(contains(error_of([&] { compile(of_scale); }),
                 "m.json: this file is not a sidecar, but a sidecar would be"));
  CHECK(contains(error_of([&] { compile(saxpy); }), "m.json: this file is not a sidecar"));
  CHECK(fs::exists(folder.path("m.json")));
}

TEST_CASE("a signature has the module's values for a launch") {
  const std::string ir = R"(
@a = internal addrspace(3) global [3 x i8] undef
@b = internal addrspace(3) global [100 x float] undef, align 16
@c = internal addrspace(3) global [2 x { i32, i64 }] undef
@of_another = internal addrspace(3) global [999 x i8] undef
@unused = external addrspace(3) global [0 x i8]
define internal void @device(ptr addrspace(3) %p) {
  store i8 1, ptr addrspace(3) @a
  ret void
}
define ptx_kernel void @k(i1 %flag, i8 %b, i16, i32 %n, i64 %l, half %h, bfloat %"odd name", float %f, double %d,
                          ptr %p, ptr addrspace(1) %"q.coerce", i32 %arg2) #0 {
  call void @device(ptr addrspace(3) @b)
  store i8 1, ptr addrspace(3) @c
  ret void
}
define ptx_kernel void @another() #1 {
  store i8 1, ptr addrspace(3) @of_another
  ret void
}
attributes #0 = { "nvvm.reqntid"="96" "nvvm.cluster_dim"="2,4" }
attributes #1 = { "nvvm.maxntid"="32,1,1" "nvvm.maxclusterrank"="8" "nvvm.cluster_dim"="2" }
)";
  const std::vector<ModuleKernel> kernels =
      ptx_of_ir(ir, "k.ll", {.target = "sm_90", .ptx_version = 83}).kernels;
  REQUIRE(kernels.size() == 2);
  REQUIRE_MESSAGE(kernels[0].signature, kernels[0].why_unknown);
  Signature wanted;
  wanted.kernel = "k";
  wanted.target = "sm_90";
  wanted.ptx_version = 83;
  wanted.threads = 96;
  wanted.cluster = {2, 4, 1};
  wanted.static_shared_bytes = 448;  // 3 bytes, 400 bytes at offset 16, and 32 bytes
  wanted.parameters = {scalar("flag", DType::u8),   scalar("b", DType::u8),
                       scalar("arg2_", DType::u16), scalar("n", DType::u32),
                       scalar("l", DType::u64),     scalar("h", DType::f16),
                       scalar("arg6", DType::bf16), scalar("f", DType::f32),
                       scalar("d", DType::f64),     pointer("p"),
                       pointer("q.coerce"),         scalar("arg2", DType::u32)};
  CHECK(to_json(*kernels[0].signature) == to_json(wanted));
  REQUIRE_MESSAGE(kernels[1].signature, kernels[1].why_unknown);
  CHECK(kernels[1].signature->threads == 32);
  CHECK(kernels[1].signature->static_shared_bytes == 999 + 3);  // the device function may be called
}

TEST_CASE("values that the module does not give are not guessed") {
  struct Gap {
    const char *parameters, *attributes, *body, *why;  // `why` is "" if there is no error
  };
  const std::string globals = R"(
@dynamic = external addrspace(3) global [0 x i8], align 16
@elsewhere = external addrspace(3) global [64 x i8]
@plain = internal addrspace(3) global [64 x i8] undef
)";
  const char* good = R"("nvvm.maxntid"="128")";
  const std::vector<Gap> gaps = {
      {"ptr %p, i32 %n", good, "", ""},
      {"", "nounwind", "",
       "its number of threads is not known; give the function the attribute nvvm.reqntid or nvvm.maxntid"},
      {"", R"("nvvm.maxntid"="128,1,1")", "", ""},
      {"", R"("nvvm.maxntid"="16,8,1")", "", ""},
      {"", R"("nvvm.reqntid"="1,128")", "", ""},
      {"", R"("nvvm.reqntid"="16,8,1,1")", "", "its nvvm.reqntid has 4 extents instead of 3"},
      {"", R"("nvvm.maxntid"="2048")", "", "it has 2048 threads, but must have 1 to 1024"},
      {"ptr byval([128 x i8]) align 64 %map", good, "",
       "parameter 0 'map' is [128 x i8] byval, which may be a tensor map, and LLVM does not specify the "
       "layout of its tensor"},
      {"[128 x i8] %s", good, "", "parameter 0 's' is [128 x i8]; a sidecar has"},
      {"i37 %n", good, "", "parameter 0 'n' is i37; a sidecar has"},
      {"<3 x float> %v", good, "",
       "parameter 0 'v' is <3 x float>, whose fields are at other offsets than in a C struct"},
      {"<{ i8, i32 }> %s", good, "", "parameter 0 's' is <{ i8, i32 }>, whose fields are at other offsets"},
      {"i32 %n, <4 x float> %v, i128 %w, { float, i32 } %s, [2 x { ptr, i8 }] %t", good, "", ""},
      {"ptr addrspace(3) %s", good, "", "parameter 0 's' is a pointer to address space 3, but a launch"},
      {"", good, "  store i8 1, ptr addrspace(3) @plain\n", ""},
      {"", good, "  store i8 1, ptr addrspace(3) @dynamic\n",
       "the launch chooses the size of its dynamic shared memory 'dynamic'"},
      {"", good, "  store i8 1, ptr addrspace(3) @elsewhere\n",
       "the launch chooses the size of its dynamic shared memory 'elsewhere'"},
      {"", R"("nvvm.maxntid"="128" "nvvm.maxclusterrank"="8")", "",
       "the launch chooses its cluster, up to nvvm.maxclusterrank; give the function nvvm.cluster_dim"},
      {"", R"("nvvm.reqntid"="128" "nvvm.cluster_dim"="2" "nvvm.blocksareclusters")", "",
       "its grid counts clusters (nvvm.blocksareclusters)"},
      {"", R"("nvvm.reqntid"="128" "nvvm.cluster_dim"="2")", "", ""},
  };
  for (const Gap& gap : gaps) {
    const std::string ir =
        fmt::format("{}define ptx_kernel void @k({}) #0 {{\n{}  ret void\n}}\nattributes #0 = {{ {} }}\n",
                    globals, gap.parameters, gap.body, gap.attributes);
    CAPTURE(ir);
    const ModulePtx compiled = ptx_of_ir(ir, "m.ll", {.ptx_version = 90});
    REQUIRE(compiled.kernels.size() == 1);
    const ModuleKernel& k = compiled.kernels[0];
    CAPTURE(k.why_unknown);
    CHECK(contains(compiled.ptx, ".entry k("));
    CHECK(k.name == "k");
    CHECK(k.signature.has_value() == std::string_view(gap.why).empty());
    CHECK(k.why_unknown.starts_with(gap.why));
    CHECK(k.why_unknown.empty() == k.signature.has_value());
  }
}

TEST_CASE("a signature has the block size of a kernel, and the parts of structs, arrays and vectors") {
  const ModulePtx compiled = ptx_of_ir(R"(
%P = type { ptr, i32, float, [2 x { i8, i16 }] }
define ptx_kernel void @k(ptr byval(%P) align 8 %p, <2 x float> %v, i128 %w) #0 {
  ret void
}
attributes #0 = { "nvvm.reqntid"="16,4,2" }
)",
                                       "m.ll");
  REQUIRE_MESSAGE(compiled.kernels[0].signature, compiled.kernels[0].why_unknown);
  const Signature& s = *compiled.kernels[0].signature;
  CHECK(s.threads == 128);
  CHECK(s.block() == std::array<uint32_t, 3>{16, 4, 2});
  REQUIRE(s.parameters.size() == 3);
  const auto parts = [&](size_t i) {
    std::string text;
    for (const Parameter& f : s.parameters[i].fields)
      text += fmt::format("{} {}; ", f.name, f.kind == Parameter::Kind::pointer ? "pointer" : name(f.dtype));
    return text;
  };
  CHECK(parts(0) == "f0 pointer; f1 u32; f2 f32; f3_0_0 u8; f3_0_1 u16; f3_1_0 u8; f3_1_1 u16; ");
  CHECK(s.parameters[0].size_bytes() == 24);
  CHECK(parts(1) == "f0 f32; f1 f32; ");
  CHECK(parts(2) == "f0 u64; f1 u64; ");
  const std::string json = to_json(s);
  CHECK(contains(json, "\"format\": 2"));
  CHECK(signature_from_json(json, "k.json") == s);
  const auto with = [&](const char* block) {
    std::string text = json;
    const size_t at = text.find("\"block\": [");
    return text.replace(at, text.find(']', at) + 1 - at, fmt::format("\"block\": {}", block));
  };
  CHECK(contains(error_of([&] { signature_from_json(with("[16, 4, 4]"), "k.json"); }),
                 "k.json.block: 16 x 4 x 4 does not have 128 threads, as `threads` states"));
  for (const char* block : {"[0, 4, 2]", "[16, 8, 0]", "[4294967295, 4294967295, 4294967295]", "[128]", "7"})
    CHECK(contains(error_of([&] { signature_from_json(with(block), "k.json"); }), "k.json.block: "));
}

TEST_CASE("sidecars of kernels with long names are found, and pipes are not sidecars") {
  const Folder folder;
  const std::string first(1000, 'a'), second = first + "b";
  const auto kernel = [](const std::string& name, int threads) {
    return fmt::format(
        "define ptx_kernel void @{}() #{} {{\n  ret void\n}}\nattributes #{} = {{ \"nvvm.reqntid\"=\"{}\" "
        "}}\n",
        name, threads, threads, threads);
  };
  write_files(Compiler({.assemble = false}).compile_ir(kernel(first, 32) + kernel(second, 64), "m.ll"), "m",
              folder.path());
  const std::string image = folder.path() + "/m";
  REQUIRE(find_sidecar(image, first));
  CHECK(find_sidecar(image, first)->threads == 32);
  CHECK(read_sidecar(image, second).threads == 64);
  CHECK_FALSE(find_sidecar(image, std::string(300, 'x')));
  REQUIRE(mkfifo((image + ".json").c_str(), 0666) == 0);
  CHECK(read_sidecar(image, second).threads == 64);
  CHECK(contains(error_of([&] { read_sidecar(image, ""); }),
                 "m.json: cannot be read: a sidecar must be a regular file"));
}

TEST_CASE("a kernel of a block of two dimensions and a struct is launched by its sidecar") {
  const Folder folder;
  const std::string ir = R"(
define ptx_kernel void @k({ ptr, i32 } %s) #0 {
  %p = extractvalue { ptr, i32 } %s, 0
  %factor = extractvalue { ptr, i32 } %s, 1
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %row = mul i32 %y, 8
  %at = add i32 %row, %x
  %q = getelementptr i32, ptr %p, i32 %at
  %tens = mul i32 %y, %factor
  %v = add i32 %tens, %x
  store i32 %v, ptr %q
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
attributes #0 = { "nvvm.reqntid"="8,4,1" }
)";
  write_files(Compiler({.assemble = false}).compile_ir(ir, "k.ll"), "k", folder.path());
  auto device = runtime::open_emulator({});
  runtime::LoadedKernel kernel = runtime::LoadedKernel::from_file(*device, folder.path() + "/k.ptx");
  runtime::Buffer to(*device, 4 * 32);
  kernel.launch({1, 1, 1}, {runtime::structure({runtime::pointer(to, DType::u8), runtime::scalar(10u)})});
  device->synchronize();
  std::vector<uint32_t> got(32), wanted(32);
  to.copy_out(got);
  for (uint32_t i = 0; i < 32; ++i) wanted[i] = 10 * (i / 8) + i % 8;
  CHECK(got == wanted);
}

TEST_CASE("metadata of a Kernel is read as far as it fits the function") {
  Signature left;
  left.kernel = "k";
  left.threads = 64;
  left.dynamic_shared_bytes = 512;
  left.parameters = {scalar("count", DType::s32), pointer("to")};
  left.parameters[1].dtype = DType::f32;
  auto of = [](const std::string& text, const char* parameters) {
    std::string quoted;
    for (char c : text) quoted += c == '"' ? "\\22" : c == '\n' ? " " : std::string(1, c);
    return ptx_of_ir(fmt::format("@k_smem = external addrspace(3) global [0 x i8], align 16\n"
                                 "define ptx_kernel void @renamed({}) #0 !ptxbuilder.signature !0 {{\n"
                                 "  store i8 1, ptr addrspace(3) @k_smem\n  ret void\n}}\n"
                                 "attributes #0 = {{ \"nvvm.maxntid\"=\"64\" }}\n!0 = !{{!\"{}\"}}\n",
                                 parameters, quoted),
                     "m.ll")
        .kernels[0];
  };
  const ModuleKernel good = of(to_json(left), "i32, ptr addrspace(1)");
  REQUIRE_MESSAGE(good.signature, good.why_unknown);
  Signature wanted = left;
  wanted.kernel = "renamed";
  CHECK(*good.signature == wanted);
  CHECK(of(to_json(left), "i32").why_unknown ==
        "its metadata !ptxbuilder.signature has 2 parameters, but the function has 1");
  CHECK(of(to_json(left), "i64, ptr").why_unknown ==
        "parameter 0 'count' has 4 bytes in its metadata !ptxbuilder.signature, but 8 in the function");
  CHECK(contains(of("no JSON", "i32, ptr").why_unknown,
                 "its metadata is broken: !ptxbuilder.signature: line 1, column 2: no JSON"));
  left.dynamic_shared_bytes = 0;
  CHECK(of(to_json(left), "i32, ptr").why_unknown ==
        "the launch chooses the size of its dynamic shared memory 'k_smem'");
}

}  // namespace ptxbuilder::test::module_test
