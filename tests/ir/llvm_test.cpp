// Tests rows in a module that a front end owns, with its own IRBuilder, data layout and TargetMachine.
#include "ptxbuilder/llvm.h"

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Scalar.h>

#include <set>

#include "host_llvm_kit.h"
#include "library_kit.h"
#include "ptxas_kit.h"
#include "ptxbuilder/isa/lower.h"
#include "ptxbuilder/isa/manual.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::llvm_test {

namespace rows = isa::rows_def;

namespace {

uint64_t flag(const llvm::Module& module, const char* key) {
  auto* value = llvm::mdconst::extract_or_null<llvm::ConstantInt>(module.getModuleFlag(key));
  return value ? value->getZExtValue() : 0;
}

// The kernel computes out[tid] = the greatest n * tid in the warp, through an mbarrier.
void greatest(HostModule& host) {
  llvm::IRBuilder<>& ir = host.ir;
  llvm::Value* bar = host.shared("bar", 8);
  llvm::Value* tid = emit(ir, rows::tid_x, {})[0];
  llvm::Value* first = ir.CreateICmpEQ(tid, ir.getInt32(0));
  emit(ir, rows::mbarrier_init, {bar, 32}, first);
  emit(ir, rows::bar_sync_all, {0});
  emit(ir, rows::mbarrier_arrive, {bar});
  auto* loop = llvm::BasicBlock::Create(host.context, "wait", host.kernel);
  auto* after = llvm::BasicBlock::Create(host.context, "after", host.kernel);
  ir.CreateBr(loop);
  ir.SetInsertPoint(loop);
  ir.CreateCondBr(emit(ir, rows::mbarrier_try_wait_parity, {bar, 0})[0], after, loop);
  ir.SetInsertPoint(after);
  llvm::Value* product = ir.CreateMul(tid, host.kernel->getArg(1));
  llvm::Value* most = emit(ir, rows::redux_sync_max_u32, {product})[0];
  ir.CreateStore(most, ir.CreateGEP(ir.getInt32Ty(), host.kernel->getArg(0), tid));
  ir.CreateRetVoid();
}

size_t calls_of_asm(const llvm::Function& function) {
  size_t n = 0;
  for (const llvm::BasicBlock& block : function)
    for (const llvm::Instruction& i : block)
      if (auto* call = llvm::dyn_cast<llvm::CallInst>(&i)) n += call->isInlineAsm();
  return n;
}

// Optimizes the module as a front end's pipeline would.
void optimize(HostModule& host) {
  llvm::legacy::FunctionPassManager passes(&host.module);
  passes.add(llvm::createEarlyCSEPass());
  passes.add(llvm::createDeadCodeEliminationPass());
  passes.doInitialization();
  passes.run(*host.kernel);
}

}  // namespace

TEST_CASE("a front end's kernel uses rows and runs") {
  HostModule host;
  REQUIRE(host.module.getDataLayout().getPointerSizeInBits(3) == 64);
  greatest(host);
  CHECK(flag(host.module, "ptxbuilder.ptx") == 78);
  auto* targets = llvm::cast<llvm::MDNode>(host.module.getModuleFlag("ptxbuilder.targets"));
  std::set<std::string> sets;  // targets of mbarrier.init, and of Hopper's first new instructions
  for (const llvm::MDOperand& set : targets->operands())
    sets.insert(llvm::cast<llvm::MDString>(set)->getString().str());
  CHECK(sets.contains("sm_90"));
  CHECK(sets.contains("sm_80"));
  const std::string ptx = host.ptx();
  CHECK(contains(ptx, "mbarrier.init.shared::cta.b64 [%r"));  // a 32-bit address
  CHECK(contains(ptx, "bar.sync 0;"));
  auto device = runtime::open_emulator({});
  std::vector<uint32_t> values(32, 0xdeadbeef);
  runtime::Address out = device->allocate(4 * values.size());
  device->copy_in(out, values.data(), 4 * values.size());
  Signature signature;
  signature.kernel = "kernel";
  signature.threads = 32;
  auto program = device->load(ptx, signature);
  const uint32_t n = 7;
  const void* parameters[] = {&out, &n};
  runtime::Launch launch;
  launch.grid = {1, 1, 1};
  launch.block = {32, 1, 1};
  device->launch(*program, launch, parameters);
  device->synchronize(std::chrono::seconds(60));
  device->copy_out(values.data(), out, 4 * values.size());
  CHECK(values == std::vector<uint32_t>(32, 7 * 31));
  if (const Ptxas* ptxas = real_ptxas()) CHECK_FALSE(ptxas->assemble(ptx).cubin.empty());
}

TEST_CASE("LLVM drops and merges pure rows, and leaves the others") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  llvm::Value* x = ir.CreateLoad(ir.getFloatTy(), host.kernel->getArg(0));
  llvm::Value* a = emit(ir, rows::ex2_approx_f32, {x})[0];
  llvm::Value* b = emit(ir, rows::ex2_approx_f32, {x})[0];  // the same row again
  emit(ir, rows::lg2_approx_ftz_f32, {a});                  // nothing reads the result
  emit(ir, rows::redux_sync_max_u32, {host.kernel->getArg(1)});
  emit(ir, rows::redux_sync_max_u32, {host.kernel->getArg(1)});  // the lanes synchronize twice
  ir.CreateStore(ir.CreateFAdd(a, b), host.kernel->getArg(0));
  ir.CreateRetVoid();
  CHECK(calls_of_asm(*host.kernel) == 5);
  optimize(host);
  CHECK(calls_of_asm(*host.kernel) == 3);
  const std::string ptx = host.ptx();
  CHECK(count(ptx, "ex2.approx.f32") == 1);
  CHECK(count(ptx, "lg2.approx") == 0);
  CHECK(count(ptx, "redux.sync.max.u32") == 2);
}

TEST_CASE("a row of the front end's own, and wgmma by its form") {
  static constexpr isa::Row vote = {"vote_all", "vote.sync.all.pred {all:=pred}, {p:pred}, {mask:u32};",
                                    isa::Effect::memory, 60, isa::Sm::sm_75};
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  llvm::Value* all = emit(ir, vote, {ir.CreateICmpEQ(host.kernel->getArg(1), ir.getInt32(3)), -1})[0];
  CHECK(all->getType()->isIntegerTy(1));
  const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::bf16, DType::bf16, 8});
  std::vector<llvm::Value*> d(4, llvm::ConstantFP::get(ir.getFloatTy(), 0));
  llvm::Value* descriptor = ir.CreateLoad(ir.getInt64Ty(), host.kernel->getArg(0));
  d = emit(ir, wgmma, {d, descriptor, descriptor, all, 1, 1, 0, 0});
  REQUIRE(d.size() == 4);
  for (llvm::Value* v : d) ir.CreateStore(v, host.kernel->getArg(0), true);
  ir.CreateRetVoid();
  const std::string ptx = squeezed(host.ptx());
  CHECK(contains(ptx, "vote.sync.all.pred %p"));
  CHECK(contains(ptx, ", -1;"));
  CHECK(contains(ptx, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r"));
}

TEST_CASE("mistakes at the interface name the row, the operand and what to do, and emit nothing") {
  HostModule host, stranger;
  llvm::IRBuilder<>& ir = host.ir;
  llvm::Value *bar = host.shared("bar", 8), *out = host.kernel->getArg(0), *n = host.kernel->getArg(1);
  llvm::Value* generic = ir.CreateAddrSpaceCast(bar, llvm::PointerType::get(host.context, 0));
  llvm::Value* f = llvm::ConstantFP::get(ir.getFloatTy(), 1);
  llvm::Value* yes = ir.CreateICmpEQ(n, ir.getInt32(3));
  llvm::Function* other = host.function("other", {ir.getInt32Ty()});
  llvm::Function* old = host.function("old", {});
  old->addFnAttr("target-cpu", "sm_80");
  llvm::IRBuilder<> nowhere(host.context), in_old(&old->getEntryBlock()), closed(&other->getEntryBlock());
  llvm::IRBuilder<> in_other(&other->getEntryBlock());
  in_other.CreateRetVoid();
  closed.SetInsertPoint(&other->getEntryBlock());
  const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::bf16, DType::bf16, 8});
  const std::vector<llvm::Value*> three(3, f);

  struct Mistake {
    const char* what;
    llvm::IRBuilderBase& at;
    const isa::Row& row;
    std::vector<LlvmArgument> arguments;
    llvm::Value* guard;
    const char* words;
  };
  const std::vector<Mistake> mistakes = {
      {"an operand too few", ir, rows::mbarrier_init, {bar}, nullptr, "takes 2 operands, but 1 was given"},
      {"an operand too many", ir, rows::mbarrier_arrive, {bar, 1}, nullptr, "takes 1 operand, but 2"},
      {"another width",
       ir,
       rows::mbarrier_init,
       {bar, ir.getInt64(1)},
       nullptr,
       "operand 'count' is u32, but the value given is u64"},
      {"a float for an integer",
       ir,
       rows::mbarrier_init,
       {bar, f},
       nullptr,
       "operand 'count' is u32, but the value given is f32"},
      {"a generic address for shared memory",
       ir,
       rows::mbarrier_arrive,
       {generic},
       nullptr,
       "operand 'bar' is smem, but the value given is a generic address"},
      {"a global address for shared memory",
       ir,
       rows::mbarrier_arrive,
       {out},
       nullptr,
       "operand 'bar' is smem, but the value given is gmem"},
      {"an integer for an address",
       ir,
       rows::mbarrier_arrive,
       {n},
       nullptr,
       "operand 'bar' is smem, but the value given is u32"},
      {"a number for an address",
       ir,
       rows::mbarrier_arrive,
       {64},
       nullptr,
       "operand 'bar' is a smem register, but the number 64 was given"},
      {"a number that does not fit",
       ir,
       rows::mbarrier_init,
       {bar, int64_t{1} << 32},
       nullptr,
       "operand 'count' must be from -2147483648 to 4294967295, but is 4294967296"},
      {"a value for an immediate",
       ir,
       rows::bar_sync_all,
       {n},
       nullptr,
       "operand 'id' is an immediate: its value must be known while the kernel is built"},
      {"an immediate out of bounds",
       ir,
       rows::bar_sync_all,
       {16},
       nullptr,
       "operand 'id' must be from 0 to 15, but is 16"},
      {"a list too short",
       ir,
       wgmma,
       {three, ir.getInt64(0), ir.getInt64(0), yes, 1, 1, 0, 0},
       nullptr,
       "operand 'd' is 4 registers, but 3 were given"},
      {"a list for one register",
       ir,
       rows::redux_sync_max_u32,
       {std::vector<llvm::Value*>{n, n}},
       nullptr,
       "operand 'a' is 1 registers, but 2 were given"},
      {"named registers for an immediate",
       ir,
       rows::bar_sync_all,
       {Registers{"acc", 0, 1}},
       nullptr,
       "operand 'id' is an immediate, but named registers were given"},
      {"a null pointer",
       ir,
       rows::redux_sync_max_u32,
       {static_cast<llvm::Value*>(nullptr)},
       nullptr,
       "operand 'a' is a null pointer, not a value"},
      {"a value of another context",
       ir,
       rows::redux_sync_max_u32,
       {stranger.kernel->getArg(1)},
       nullptr,
       "operand 'a' is a value of another LLVMContext"},
      {"a value of another function",
       ir,
       rows::redux_sync_max_u32,
       {other->getArg(0)},
       nullptr,
       "operand 'a' is a value of the function 'other', but the IRBuilder is in 'kernel'"},
      {"a guard that is not an i1",
       ir,
       rows::mbarrier_arrive,
       {bar},
       n,
       "the guard is an i1, but the value given is u32"},
      {"a guard of another context",
       ir,
       rows::mbarrier_arrive,
       {bar},
       stranger.ir.getTrue(),
       "the guard is a value of another LLVMContext"},
      {"a guard before a result",
       ir,
       rows::redux_sync_max_u32,
       {n},
       yes,
       "cannot be guarded: 'd' would be undefined where the predicate is false"},
      {"an IRBuilder that is nowhere",
       nowhere,
       rows::bar_sync_all,
       {0},
       nullptr,
       "bar_sync_all: the IRBuilder is not in a function of a module; give it an insertion point"},
      {"an IRBuilder after a terminator",
       closed,
       rows::bar_sync_all,
       {0},
       nullptr,
       "bar_sync_all: the IRBuilder is after the terminator of its block"},
      {"a row above the target",
       in_old,
       rows::fence_mbarrier_init,
       {},
       nullptr,
       "fence_mbarrier_init: it needs sm_90, but the function's target-cpu is sm_80"},
  };
  for (const Mistake& m : mistakes) {
    std::string what = m.what;
    CAPTURE(what);
    Where line;
    const size_t before = calls_of_asm(*host.kernel);
    const std::string text = error_of([&] { line = Where::here(), emit(m.at, m.row, m.arguments, m.guard); });
    CAPTURE(text);
    CHECK(contains(text, m.words));
    CHECK(contains(text, std::string(m.row.name) + ":"));
    CHECK(text.ends_with("(" + to_string(line) + ")"));
    CHECK(calls_of_asm(*host.kernel) == before);
    CHECK(flag(host.module, "ptxbuilder.ptx") == 0);
  }
  emit(ir, rows::mbarrier_arrive, {bar}, yes);
  CHECK(calls_of_asm(*host.kernel) == 1);
}

TEST_CASE("named registers must be declared in the function's asm") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  auto* type = llvm::FunctionType::get(ir.getVoidTy(), false);
  ir.CreateCall(type, llvm::InlineAsm::get(type, ".reg .f32 d<3>, d3; .reg .b64 wide;", "", true));
  llvm::Value* descriptor = ir.CreateLoad(ir.getInt64Ty(), host.kernel->getArg(0));
  const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::bf16, DType::bf16, 8});
  const auto error = [&](const Registers& d) {
    return error_of([&] { emit(ir, wgmma, {d, descriptor, descriptor, ir.getTrue(), 1, 1, 0, 0}); });
  };
  CHECK(error({"d", 0, 4}) == "");
  CHECK(contains(error({"d", 1, 4}), "names the register d4, but the last one that is declared is d3"));
  CHECK(contains(error({"acc", 0, 4}), "names the register acc0, which no .reg statement of the function"));
}

TEST_CASE("tcgen05 instructions of a function are for one CTA or for a pair") {
  HostModule host;
  llvm::IRBuilder<>& ir = host.ir;
  const isa::Row& one = isa::instruction("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned");
  const isa::Row& pair = isa::instruction("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned");
  emit(ir, one, {});
  emit(ir, one, {});
  CHECK(contains(error_of([&] { emit(ir, pair, {}); }), ".cta_group is 2, but 1 in kernel earlier"));
  CHECK(calls_of_asm(*host.kernel) == 2);
  llvm::IRBuilder<> other(&host.function("other", {})->getEntryBlock());
  emit(other, pair, {});
}

TEST_CASE("a module is compiled for its own target, or for the lowest one that has its rows") {
  const auto module_of = [](std::initializer_list<const isa::Row*> rows, const char* cpu = nullptr) {
    auto host = std::make_unique<HostModule>();
    if (cpu) host->kernel->addFnAttr("target-cpu", cpu);
    for (const isa::Row* row : rows) emit(host->ir, *row, {});
    host->ir.CreateRetVoid();
    return host;
  };
  const isa::Row& blackwell = isa::instruction("tcgen05.fence::before_thread_sync");
  const auto head = [](const HostModule& host) { return squeezed(generate_ptx(host.module)); };
  CHECK(contains(head(*module_of({})), ".version 8.0 .target sm_90a "));
  CHECK(contains(head(*module_of({&rows::wgmma_fence})), ".target sm_90a "));
  CHECK(contains(head(*module_of({&blackwell})), ".version 8.6 .target sm_100a "));
  CHECK(contains(head(*module_of({&rows::fence_mbarrier_init}, "sm_90")), ".version 8.0 .target sm_90 "));

  // A target that lacks a row is refused. The message names the function and, if there is debug information,
  // the line.
  auto host = module_of({&blackwell, &rows::fence_mbarrier_init});
  const auto refused = [&] { return error_of([&] { generate_ptx(host->module, {.target = "sm_90a"}); }); };
  const std::string words =
      "host: its instructions need sm_100f, sm_110f, but the target is sm_90a; "
      "tcgen05.fence::before_thread_sync in 'kernel'";
  CHECK(contains(refused(), words + " needs sm_100f, sm_110f ("));
  llvm::DIBuilder debug(host->module);
  llvm::DIFile* file = debug.createFile("kernel.py", "/src");
  debug.createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_Python), file, "host", false, "",
                          0);
  auto* function = debug.createFunction(file, "kernel", "kernel", file, 3,
                                        debug.createSubroutineType(debug.getOrCreateTypeArray({})), 3,
                                        llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  host->kernel->setSubprogram(function);
  for (llvm::Instruction& i : host->kernel->getEntryBlock())
    i.setDebugLoc(llvm::DILocation::get(host->context, 12, 1, function));
  debug.finalize();
  CHECK(contains(refused(), words + " at kernel.py:12 needs sm_100f, sm_110f ("));

  auto two = module_of({}, "sm_90a");
  llvm::Function* other = two->function("other", {});
  other->addFnAttr("target-cpu", "sm_100a");
  llvm::IRBuilder<>(&other->getEntryBlock()).CreateRetVoid();
  CHECK(contains(error_of([&] { generate_ptx(two->module); }),
                 "the target-cpu of 'kernel' is sm_90a, but that of 'other' is sm_100a; state the target"));
}

TEST_CASE("lower() returns the requirements for any IR") {
  const isa::InlineAsm call =
      isa::lower(rows::mbarrier_init, std::vector<isa::Filling>{isa::ValueCount{}, int64_t{3}}, true);
  CHECK(call.text == "@$1 mbarrier.init.shared::cta.b64 [$0], 3;");
  CHECK(call.constraints == "r,b,~{memory}");
  CHECK(call.results.empty());
  REQUIRE(call.arguments.size() == 2);
  CHECK(call.arguments[1].operand == isa::InlineAsm::Register::kGuard);
  CHECK(call.stays);
  const isa::InlineAsm tied =
      isa::lower(rows::mov_to_f32, std::vector<isa::Filling>{isa::ValueCount{}, isa::ValueCount{}});
  CHECK(tied.text == "mov.f32 $0, $1;");
  CHECK(tied.constraints == "=f,f,0");
  CHECK_FALSE(tied.stays);
}

}  // namespace ptxbuilder::test::llvm_test
