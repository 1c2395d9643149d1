// Tests kernels and device functions that a front end begins, with the library's values, tiles and roles in
// between.
#include <llvm/IR/Verifier.h>

#include <random>

#include "folder_kit.h"
#include "host_llvm_kit.h"
#include "library_kit.h"
#include "ptxas_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/llvm.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::hosted_test {
namespace {

// Launches one CTA on poisoned memory, and returns out[i] for each thread.
std::vector<uint32_t> run(const std::string& ptx, Signature signature, uint32_t n) {
  auto device = runtime::open_device("emulator");
  std::vector<uint32_t> values(signature.threads, 0xdeadbeef);
  const runtime::Address out = device->allocate(4 * values.size());
  device->copy_in(out, values.data(), 4 * values.size());
  auto program = device->load(ptx, signature);
  const void* parameters[] = {&out, &n};
  runtime::Launch launch;
  launch.grid = {1, 1, 1};
  launch.block = {signature.threads, 1, 1};
  launch.dynamic_shared_bytes = signature.dynamic_shared_bytes;
  device->launch(*program, launch, parameters);
  device->synchronize(std::chrono::seconds(60));
  device->copy_out(values.data(), out, 4 * values.size());
  return values;
}

void check_assembles(const std::string& ptx) {
  if (const Ptxas* ptxas = real_ptxas()) CHECK_FALSE(ptxas->assemble(ptx).cubin.empty());
}

// Stores a value for each thread, using the front end's own IR.
void store_for_thread(HostModule& host, llvm::Value* value) {
  llvm::Value* tid = emit(host.ir, isa::rows_def::tid_x, {})[0];
  host.ir.CreateStore(value, host.ir.CreateGEP(host.ir.getInt32Ty(), host.kernel->getArg(0), tid));
}

llvm::BasicBlock* block(HostModule& host, const char* name) {
  return llvm::BasicBlock::Create(host.context, name, host.kernel);
}

}  // namespace

TEST_CASE("values pass in both directions, and control flow is inserted in the middle of a block") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  // The front end completes its loop before the library fills the middle:
  //   for (i = 0; i < n; ++i) { x = i * i; HERE; sum += x; }
  llvm::BasicBlock *entry = ir.GetInsertBlock(), *body = block(host, "body"), *end = block(host, "end");
  ir.CreateBr(body);
  ir.SetInsertPoint(body);
  llvm::PHINode *i = ir.CreatePHI(ir.getInt32Ty(), 2), *sum = ir.CreatePHI(ir.getInt32Ty(), 2);
  auto* x = llvm::cast<llvm::Instruction>(ir.CreateMul(i, i));
  auto* more = llvm::cast<llvm::Instruction>(ir.CreateAdd(sum, x));
  llvm::Value* next = ir.CreateAdd(i, ir.getInt32(1));
  ir.CreateCondBr(ir.CreateICmpULT(next, host.kernel->getArg(1)), body, end);
  i->addIncoming(ir.getInt32(0), entry);
  i->addIncoming(next, body);
  sum->addIncoming(ir.getInt32(0), entry);
  sum->addIncoming(more, body);
  ir.SetInsertPoint(end);
  store_for_thread(host, more);
  ir.CreateRetVoid();

  Kernel k(*host.kernel);
  ir.SetInsertPoint(more);
  k.insert_at(ir, [&] {
    Var<u32> twice(u32(x) * 2);
    if_(u32(i) % 2 == 1, [&] { twice = twice + tid_x(); });
    for_(0, u32(3), [&](u32) { twice += 100u; });
    more->setOperand(1, twice.value().handle());
  });
  CHECK(&*ir.GetInsertPoint() == more);
  CHECK(ir.GetInsertBlock() != body);
  k.finish();
  std::string why;
  llvm::raw_string_ostream out(why);
  CHECK_MESSAGE(!llvm::verifyModule(host.module, &out), why);

  std::vector<uint32_t> wanted(128);
  for (uint32_t tid = 0; tid < 128; ++tid)
    for (uint32_t at = 0; at < 7; ++at) wanted[tid] += 2 * at * at + (at % 2 ? tid : 0) + 300;
  CHECK(run(generate_ptx(host.module), k.signature(), 7) == wanted);
  CHECK(run(host.ptx(), k.signature(), 7) == wanted);  // with the front end's own TargetMachine
}

TEST_CASE("a product of tiles, with barriers and TMA, inside a front end's kernel") {
  constexpr int M = 64, N = 16, K = 64;
  for (bool wide : {true, false}) {
    CAPTURE(wide);
    HostModule host;
    if (!wide)
      host.module.setDataLayout(
          "e-p3:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64");
    llvm::IRBuilder<>& ir = host.ir;
    llvm::Type* pointer = llvm::PointerType::get(host.context, 0);
    llvm::Function* f =
        host.function("scaled", {pointer, pointer, llvm::PointerType::get(host.context, 1), ir.getFloatTy()});
    f->setCallingConv(llvm::CallingConv::PTX_Kernel);
    ir.SetInsertPoint(&f->getEntryBlock());
    llvm::Value* factor = ir.CreateFMul(f->getArg(3), llvm::ConstantFP::get(ir.getFloatTy(), 2));

    Kernel k(*f);
    llvm::Value *tile = nullptr, *tid = nullptr;
    k.insert_at(ir, [&] {
      auto [A, B, out, scale] = k.params<TensorMap, TensorMap, gptr<f32>, f32>("A", "B", "out", "scale");
      auto a = k.shared<bf16>({M, K}, Swizzle128B);
      auto b = k.shared<bf16>({N, K}, Swizzle128B);
      auto d = k.shared<f32>({M, N});
      Barriers loaded(k, {1});
      sync_threads();
      elect([&] {
        mbarrier_arrive_expect_tx(loaded[0], a.stage_bytes() + b.stage_bytes());
        tma_load(a[0].on(loaded[0]), A, 0, 0);
        tma_load(b[0].on(loaded[0]), B, 0, 0);
      });
      barrier_wait(loaded[0], 0);
      Accumulator acc(M, N);
      wgmma_group([&] { mma(acc, a[0], b[0]); });
      wgmma_wait(0);
      store(d[0], load<f32>(acc) * f32(factor));
      sync_threads();
      tile = d[0].address().handle();
      tid = tid_x().handle();
    });
    for (int round = 0; round < M * N / 128; ++round) {
      llvm::Value* at = ir.CreateAdd(tid, ir.getInt32(128 * round));
      llvm::Value* value = ir.CreateLoad(ir.getFloatTy(), ir.CreateGEP(ir.getFloatTy(), tile, at));
      ir.CreateStore(ir.CreateFAdd(value, llvm::ConstantFP::get(ir.getFloatTy(), 1)),
                     ir.CreateGEP(ir.getFloatTy(), f->getArg(2), at));
    }
    ir.CreateRetVoid();
    k.finish();
    host.kernel->eraseFromParent();
    CHECK(k.signature().threads == 128);
    CHECK(k.signature().parameters.size() == 4);

    const std::string ptx = generate_ptx(host.module);
    check_assembles(ptx);
    const std::vector<ModuleKernel> kernels = signatures_of(host.module);
    REQUIRE(kernels.size() == 1);
    REQUIRE_MESSAGE(kernels[0].signature, kernels[0].why_unknown);
    CHECK(to_json(*kernels[0].signature) == to_json(k.signature()));
    const CompiledModule compiled = Compiler({.assemble = false}).compile(host.module);
    CHECK(compiled.ptx == ptx);
    CHECK(compiled.kernels[0].signature == kernels[0].signature);
    // The signature stays with a module that is written and read again.
    std::string text;
    llvm::raw_string_ostream written(text);
    host.module.print(written, nullptr);
    Folder folder;
    write_files(Compiler({.assemble = false}).compile_ir(text, "scaled.ll"), "scaled", folder.path(""));
    CHECK(to_json(read_sidecar(folder.path("scaled"))) == to_json(k.signature()));
    std::mt19937 random(4);
    std::vector<uint16_t> x(M * K), y(N * K);
    std::vector<float> product(M * N), wanted(M * N);
    auto number = [&](uint16_t& bits) {
      const int value = static_cast<int>(random() % 9) - 4;
      bits = static_cast<uint16_t>(encode(DType::bf16, value));
    };
    for (uint16_t& bits : x) number(bits);
    for (uint16_t& bits : y) number(bits);
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) {
        double sum = 0;
        for (int i = 0; i < K; ++i)
          sum += decode(DType::bf16, x[static_cast<size_t>(m * K + i)]) *
                 decode(DType::bf16, y[static_cast<size_t>(n * K + i)]);
        wanted[static_cast<size_t>(m * N + n)] = static_cast<float>(sum * 3 + 1);
      }
    auto device = runtime::open_device("emulator");
    auto dx = runtime::Buffer::of(*device, x), dy = runtime::Buffer::of(*device, y);
    auto dout = runtime::Buffer::of(*device, product);
    auto kernel = runtime::LoadedKernel::from_file(*device, folder.path("scaled.ptx"));
    kernel.launch({.grid = {1}},
                  {runtime::tensor(dx, DType::bf16, {K, M}), runtime::tensor(dy, DType::bf16, {K, N}),
                   runtime::pointer(dout, DType::f32), runtime::scalar(1.5f)});
    CHECK(dout.copy_out<float>() == wanted);
  }
}

TEST_CASE("several kernels and a device function in one module, with accumulators in named registers") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  llvm::Type *integer = ir.getInt32Ty(), *pointer = llvm::PointerType::get(host.context, 1);
  // A device function that counts the set bits of its argument, and is called twice.
  auto* bits = llvm::Function::Create(llvm::FunctionType::get(integer, {integer}, false),
                                      llvm::Function::InternalLinkage, "bits", host.module);
  llvm::IRBuilder<> in_bits(llvm::BasicBlock::Create(host.context, "entry", bits));
  Kernel device_function(*bits);
  llvm::Value* found = nullptr;
  device_function.insert_at(in_bits, [&] {
    u32 x(bits->getArg(0));
    Var<u32> n(0u);
    for_(0, u32(32), [&](u32 i) { n += (x >> i) & 1u; });
    found = n.value().handle();
  });
  in_bits.CreateRet(found);
  device_function.finish();
  llvm::Value* tid = emit(ir, isa::rows_def::tid_x, {})[0];
  store_for_thread(host,
                   ir.CreateAdd(ir.CreateCall(bits, {tid}), ir.CreateCall(bits, {host.kernel->getArg(1)})));
  ir.CreateRetVoid();
  Signature signature;
  signature.kernel = "kernel";

  std::vector<Kernel> kernels;
  for (const char* name : {"first", "second"}) {
    llvm::Function* f = host.function(name, {pointer});
    f->setCallingConv(llvm::CallingConv::PTX_Kernel);
    llvm::IRBuilder<> at(&f->getEntryBlock());
    Kernel& k = kernels.emplace_back(*f);
    k.insert_at(at, [&] {
      auto a = k.shared<bf16>({64, 64}, Swizzle128B);
      Accumulator acc(64, 64);
      acc.zero();
      sync_threads();
      wgmma_group([&] { mma(acc, a[0], a[0]); });
      wgmma_wait(0);
      store(gptr<f32>(f->getArg(0)), load<f32>(acc));
    });
    at.CreateRetVoid();
  }
  for (Kernel& k : kernels) k.finish();
  const std::string ptx = generate_ptx(host.module);
  CHECK(count(ptx, ".entry") == 3);
  CHECK(count(ptx, "acc0_<") == 2);
  check_assembles(ptx);
  std::vector<uint32_t> wanted(128);
  for (uint32_t i = 0; i < 128; ++i)
    wanted[i] = static_cast<uint32_t>(std::popcount(i) + std::popcount(0x7ffu));
  CHECK(run(ptx, signature, 0x7ff) == wanted);
}

TEST_CASE("a kernel is built inside another's role, and both are right") {
  std::string inner, outer, alone;
  auto small = [] {
    Kernel k("small");
    auto [p] = k.params<gptr<u32>>("p");
    p[tid_x()] = tid_x() * 3;
    return k;
  };
  auto big = [&](bool nested) {
    Kernel k("big");
    auto [p] = k.params<gptr<u32>>("p");
    k.warpgroups(1, 0, [&, &p = p](u32) {
      u32 x = tid_x() + 1;
      if (nested) {
        Kernel other = small();
        inner = ptx_of(other);
      }
      if_(x < 100, [&] { p[x] = x; });
    });
    return generate_ptx(k.builder());
  };
  Kernel k = small();
  alone = ptx_of(k);
  // Returns the PTX without the lines of C++, which differ.
  auto instructions = [](const std::string& ptx) {
    std::string out;
    std::istringstream lines(ptx);
    for (std::string line; std::getline(lines, line);)
      if (!contains(line, ".loc")) out += line + "\n";
    return out;
  };
  CHECK(instructions(big(true)) == instructions(big(false)));
  CHECK(instructions(inner) == instructions(alone));
}

namespace {

// A host for one mistake, with a function that has no Kernel yet.
struct Subject : HostModule {
  llvm::Function* device = function("device", {llvm::Type::getInt32Ty(context)});
  llvm::Value* out = kernel->getArg(0);
  llvm::Value* n = kernel->getArg(1);

  void in(llvm::Function* f, const std::function<void(Kernel&)>& body) {
    Kernel k(*f);
    llvm::IRBuilder<> at(&f->getEntryBlock());
    k.insert_at(at, [&] { body(k); });
    at.CreateRetVoid();
    k.finish();
  }
  llvm::GlobalVariable* dynamic(const char* name) {
    auto* variable = shared(name, 0);
    variable->setInitializer(nullptr);
    variable->setLinkage(llvm::GlobalValue::ExternalLinkage);
    return variable;
  }
};

void use(Subject& s, llvm::Value* address) {
  llvm::IRBuilder<> at(&s.kernel->getEntryBlock());
  at.CreateStore(at.getInt32(1), address);
}

}  // namespace

TEST_CASE("mistakes on a front end's function name the rule, the value and what to do") {
  struct Mistake {
    const char* what;
    std::function<void(Subject&)> make;
    const char* words;
  };
  const std::vector<Mistake> mistakes = {
      {"a value of another type", [](Subject& s) { s.in(s.kernel, [&](Kernel&) { (void)f32(s.n); }); },
       "f32: the type of the llvm::Value is u32"},
      {"an address of another space", [](Subject& s) { s.in(s.kernel, [&](Kernel&) { (void)smem(s.out); }); },
       "smem: the type of the llvm::Value is gmem"},
      {"a null pointer",
       [](Subject& s) { s.in(s.kernel, [&](Kernel&) { (void)u32(static_cast<llvm::Value*>(nullptr)); }); },
       "u32: the llvm::Value is a null pointer"},
      {"a value of another function",
       [](Subject& s) { s.in(s.kernel, [&](Kernel&) { (void)(u32(s.device->getArg(0)) + 1); }); },
       "kernel: the value belongs to another kernel"},
      {"a value of another context",
       [](Subject& s) {
         HostModule stranger;
         s.in(s.kernel, [&](Kernel&) { (void)(u32(stranger.kernel->getArg(1)) + 1); });
       },
       "kernel: the value belongs to another kernel"},
      {"an IRBuilder in another function",
       [](Subject& s) {
         Kernel k(*s.kernel);
         llvm::IRBuilder<> at(&s.device->getEntryBlock());
         k.insert_at(at, [] {});
       },
       "insert_at: the IRBuilder is in the function 'device', but the Kernel's is 'kernel'"},
      {"an IRBuilder after a terminator",
       [](Subject& s) {
         Kernel k(*s.kernel);
         s.ir.CreateRetVoid();
         k.insert_at(s.ir, [] {});
       },
       "insert_at: the IRBuilder is after the terminator of its block"},
      {"an IRBuilder before a phi",
       [](Subject& s) {
         Kernel k(*s.kernel);
         llvm::BasicBlock* loop = block(s, "loop");
         s.ir.CreateBr(loop);
         llvm::IRBuilder<> at(loop);
         at.SetInsertPoint(at.CreatePHI(at.getInt32Ty(), 2));
         k.insert_at(at, [] {});
       },
       "insert_at: the IRBuilder is before a phi, which must come first in its block"},
      {"a function without blocks",
       [](Subject& s) {
         Kernel k(*llvm::Function::Create(s.device->getFunctionType(), llvm::Function::ExternalLinkage,
                                          "declared", s.module));
       },
       "declared: the function has no entry block; begin it, then make the Kernel"},
      {"a function with a name that PTX does not have",
       [](Subject& s) {
         s.kernel->setName("a.b");
         Kernel k(*s.kernel);
       },
       "the function's name 'a.b' must be a C identifier"},
      {"a module for another machine",
       [](Subject& s) {
         s.module.setTargetTriple(llvm::Triple("x86_64-linux"));
         Kernel k(*s.kernel);
       },
       "the target triple of its module is x86_64-linux, but must be nvptx64's"},
      {"two Kernels on one function",
       [](Subject& s) {
         Kernel k(*s.kernel);
         Kernel second(*s.kernel);
       },
       "kernel: the function already has a Kernel, and can have only one; call insert_at() of that Kernel"},
      {"use outside of insert_at()",
       [](Subject& s) {
         Kernel k(*s.kernel);
         k.threads(64);
       },
       "kernel: it is used outside of its insert_at(), which determines where in the front end's function "
       "the code goes"},
      {"an instruction outside of insert_at()",
       [](Subject& s) {
         Kernel k(*s.kernel);
         (void)(u32(s.n) + 1);
       },
       "no kernel is being built on this thread"},
      {"insert_at() inside insert_at()",
       [](Subject& s) { s.in(s.kernel, [&](Kernel& k) { k.insert_at(s.ir, [] {}); }); },
       "insert_at: it cannot be called inside insert_at() of kernel"},
      {"insert_at() of a kernel of the library's own",
       [](Subject& s) {
         Kernel k("own");
         k.insert_at(s.ir, [] {});
       },
       "insert_at: own is a function that the library made; construct the Kernel from the llvm::Function"},
      {"insert_at() after finish()",
       [](Subject& s) {
         Kernel k(*s.kernel);
         s.ir.CreateRetVoid();
         k.finish();
         k.insert_at(s.ir, [] {});
       },
       "insert_at: kernel is finished"},
      {"a row above the function's target",
       [](Subject& s) {
         s.kernel->addFnAttr("target-cpu", "sm_80");
         s.in(s.kernel, [](Kernel&) { fence_mbarrier_init(); });
       },
       "fence_mbarrier_init: needs sm_90, but the kernel's target is sm_80"},
      {"a block without a terminator",
       [](Subject& s) {
         Kernel k(*s.kernel);
         k.finish();
       },
       "kernel: the block 'entry' has no terminator; end it before finish()"},
      {"parameters that the function does not have",
       [](Subject& s) { s.in(s.kernel, [](Kernel& k) { k.params<gptr<u32>>("out"); }); },
       "kernel: params: 1 are declared, but the function has 2"},
      {"a parameter of another type",
       [](Subject& s) { s.in(s.kernel, [](Kernel& k) { k.params<gptr<u32>, f32>("out", "n"); }); },
       "kernel: params: 'n' is f32, but the function's is u32"},
      {"a number of threads that the function contradicts",
       [](Subject& s) {
         s.kernel->addFnAttr("nvvm.maxntid", "256");
         s.in(s.kernel, [](Kernel& k) { k.threads(64); });
       },
       "kernel: the function's attribute nvvm.maxntid is 256, but the kernel was built for 64 threads"},
      {"blocks of two dimensions",
       [](Subject& s) {
         s.kernel->addFnAttr("nvvm.maxntid", "16,8,1");
         Kernel k(*s.kernel);
       },
       "kernel: its CTAs have 16 x 8 x 1 threads, but the library only counts threads along x"},
      {"dynamic shared memory of the front end's next to ours",
       [](Subject& s) {
         use(s, s.dynamic("theirs"));
         s.in(s.kernel, [](Kernel& k) { (void)k.shared<f32>({8, 8})[0].address(); });
       },
       "kernel: the module's 'theirs' and the kernel's own shared memory of 256 bytes are both dynamic, so "
       "they "
       "begin at the same address"},
      {"more shared memory than there is",
       [](Subject& s) {
         use(s, s.shared("theirs", 200'000));
         s.in(s.kernel, [](Kernel& k) { (void)k.shared<f32>({128, 128})[0].address(); });
       },
       "kernel: the module's variables take 200000 bytes of shared memory and the kernel 65536, but a CTA "
       "may "
       "have 232448"},
      {"a variable of the front end's with the name of ours",
       [](Subject& s) {
         s.shared("kernel_smem", 16);
         s.in(s.kernel, [](Kernel& k) { (void)k.shared<f32>({8, 8})[0].address(); });
       },
       "kernel: the module already has a 'kernel_smem'"},
      {"shared memory in a device function",
       [](Subject& s) { s.in(s.device, [](Kernel& k) {
                          k.shared<f32>({8, 8});
                        }); },
       "shared memory: 'device' is a device function"},
      {"accumulators in a device function",
       [](Subject& s) { s.in(s.device, [](Kernel&) { Accumulator acc(64, 64); }); },
       "named registers: 'device' is a device function. If it is inlined twice, they would be declared "
       "twice"},
      {"roles in a device function",
       [](Subject& s) { s.in(s.device, [](Kernel& k) { k.warpgroups(1, 0, [](u32) {}); }); },
       "roles: 'device' is a device function"},
      {"a cluster in a device function",
       [](Subject& s) { s.in(s.device, [](Kernel& k) { k.cluster(2, 1, 1); }); },
       "cluster: 'device' is a device function"},
      {"named barriers in a device function",
       [](Subject& s) { s.in(s.device, [](Kernel& k) { k.named_barrier(128); }); },
       "named_barrier: 'device' is a device function"},
      {"parameters of a device function",
       [](Subject& s) { s.in(s.device, [](Kernel& k) { k.params<u32>("n"); }); },
       "params: 'device' is a device function"},
      {"the module compiled as a kernel of the library's own",
       [](Subject& s) {
         Kernel k(*s.kernel);
         s.ir.CreateRetVoid();
         generate_ptx(k.builder());
       },
       "kernel: its module belongs to the front end; compile the module with generate_ptx(module) of "
       "ptxbuilder/llvm.h"},
      {"an exception from the body",
       [](Subject& s) {
         Kernel k(*s.kernel);
         try {
           k.insert_at(s.ir, [] { if_(tid_x() == 0, [] { throw std::runtime_error("their own"); }); });
         } catch (const std::runtime_error&) {
         }
         k.insert_at(s.ir, [] {});
       },
       "kernel: an exception from the body of this if_ left it unfinished: their own"},
  };
  for (const Mistake& m : mistakes) {
    std::string what = m.what;
    CAPTURE(what);
    Subject subject;
    const std::string text = error_of([&] { m.make(subject); });
    CAPTURE(text);
    CHECK(contains(text, m.words));
    CHECK(contains(text, "(hosted_test.cpp:"));
  }
}

TEST_CASE("the front end's shared memory is next to the library's") {
  Subject s;
  llvm::GlobalVariable* theirs = s.shared("theirs", 400);
  s.dynamic("of_nobody");
  Kernel k(*s.kernel);
  s.ir.SetInsertPoint(&s.kernel->getEntryBlock());
  k.insert_at(s.ir, [&] {
    sptr<u32> word(theirs);
    if_(tid_x() == 0, [&] { word[0] = 1u; });
  });
  k.insert_at(s.ir, [&] {
    auto tile = k.shared<u32>({1, 128});
    sptr<u32>(tile[0].address())[tid_x()] = tid_x() + 5;
    sync_threads();
    u32 mirrored = sptr<u32>(tile[0].address())[u32(127) - tid_x()];
    gptr<u32>(s.out)[tid_x()] = mirrored + sptr<u32>(theirs)[0].value();
  });
  s.ir.CreateRetVoid();
  k.finish();
  s.device->eraseFromParent();
  CHECK(k.signature().static_shared_bytes == 400);
  CHECK(k.signature().dynamic_shared_bytes == 512);
  std::vector<uint32_t> wanted(128);
  for (uint32_t i = 0; i < 128; ++i) wanted[i] = 127 - i + 5 + 1;
  CHECK(run(generate_ptx(s.module), k.signature(), 0) == wanted);
}

TEST_CASE("a kernel whose threads the front end requires keeps them") {
  for (const char* attribute : {"nvvm.reqntid", "nvvm.maxntid"}) {
    HostModule host;
    host.kernel->addFnAttr(attribute, "64,1,1");
    Kernel k(*host.kernel);
    k.insert_at(host.ir, [&] { gptr<u32>(host.kernel->getArg(0))[tid_x()] = tid_x() * 3; });
    host.ir.CreateRetVoid();
    k.finish();
    CHECK(k.signature().threads == 64);
    const std::string ptx = generate_ptx(host.module);
    CHECK(count(ptx, "ntid 64") == 1);  // ptxas refuses .maxntid together with .reqntid
    check_assembles(ptx);
    // The parameters were not declared to the Kernel, so the function defines them.
    const std::vector<ModuleKernel> kernels = signatures_of(host.module, {.ptx_version = 82});
    REQUIRE_MESSAGE(kernels[0].signature, kernels[0].why_unknown);
    Signature wanted = k.signature();
    wanted.ptx_version = 82;
    wanted.parameters = {{.name = "arg0", .kind = Parameter::Kind::pointer, .dtype = DType::u8},
                         {.name = "arg1", .dtype = DType::u32}};
    CHECK(to_json(*kernels[0].signature) == to_json(wanted));
    std::vector<uint32_t> values(64);
    for (uint32_t i = 0; i < 64; ++i) values[i] = 3 * i;
    CHECK(run(ptx, *kernels[0].signature, 0) == values);
  }
}

TEST_CASE("a module without a layout gets NVPTX's for its shared variables") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  // 16 bytes in NVPTX's layout, 12 in LLVM's default.
  auto* type = llvm::StructType::get(ir.getInt32Ty(), ir.getInt64Ty());
  auto* pair = new llvm::GlobalVariable(host.module, type, false, llvm::GlobalVariable::InternalLinkage,
                                        llvm::PoisonValue::get(type), "pair", nullptr,
                                        llvm::GlobalValue::NotThreadLocal, 3);
  ir.CreateStore(ir.getInt32(1), pair);
  ir.CreateRetVoid();
  host.kernel->addFnAttr("nvvm.maxntid", "32");
  for (const bool empty : {false, true}) {
    if (empty) host.module.setDataLayout("");
    const std::vector<ModuleKernel> kernels = signatures_of(host.module);
    REQUIRE_MESSAGE(kernels[0].signature, kernels[0].why_unknown);
    CHECK(kernels[0].signature->static_shared_bytes == 16);
  }
}

}  // namespace ptxbuilder::test::hosted_test
