// Somebody else's compiler: parses "d[i] = a[i] * b[i] + c", writes LLVM's IR with an IRBuilder of its own,
// takes Hopper's instructions from the installed library's rows, and lets the library make the PTX. The
// kernel brings its inputs to shared memory by bulk copies that an mbarrier counts.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cctype>
#include <iostream>
#include <set>

#include "ptxbuilder/llvm.h"
#include "ptxbuilder/ptxbuilder.h"
#include "runtime/runtime.h"

using namespace ptxbuilder;
namespace rows = isa::rows_def;

constexpr int kThreads = 128, kBytes = 4 * kThreads;

// The kernel of one statement: names with [i] are vectors, others are numbers that all threads share.
// Parameters are in the order of their names.
class FrontEnd {
 public:
  FrontEnd(const std::string& statement, llvm::Module& module)
      : text_(statement), module_(module), ir_(module.getContext()) {
    for (size_t at = 0; at < text_.size(); ++at)
      if (std::isalpha(text_[at]) && text_[at] != 'i')
        (text_.substr(at + 1, 3) == "[i]" ? vectors_ : numbers_).insert(text_[at]);
    std::vector<llvm::Type*> types(vectors_.size(), llvm::PointerType::get(module.getContext(), 1));
    types.insert(types.end(), numbers_.size(), ir_.getFloatTy());
    function_ = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), types, false),
                                       llvm::Function::ExternalLinkage, "statement", module);
    function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
    size_t n = 0;
    for (const auto* names : {&vectors_, &numbers_})
      for (char name : *names) values_[name] = function_->getArg(n++);
  }

  void compile() {
    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
    llvm::Value *bar = shared(8), *tid = emit(ir_, rows::tid_x, {})[0],
                *block = emit(ir_, rows::ctaid_x, {})[0];
    index_ = ir_.CreateAdd(ir_.CreateMul(block, ir_.getInt32(kThreads)), tid);
    llvm::Value* first = ir_.CreateICmpEQ(tid, ir_.getInt32(0));
    emit(ir_, rows::mbarrier_init, {bar, 1}, first);
    emit(ir_, rows::fence_mbarrier_init, {});
    emit(ir_, rows::bar_sync_all, {0});
    const char target = text_[0];
    emit(ir_, rows::mbarrier_arrive_expect_tx, {bar, kBytes * static_cast<int>(vectors_.size() - 1)}, first);
    for (char name : vectors_) {
      if (name == target) continue;
      llvm::Value *to = shared(kBytes),
                  *from = element(values_[name], ir_.CreateMul(block, ir_.getInt32(kThreads)));
      emit(ir_, rows::cp_async_bulk_load, {to, from, kBytes, bar}, first);
      staged_[name] = to;
    }
    auto* wait = llvm::BasicBlock::Create(module_.getContext(), "wait", function_);
    auto* compute = llvm::BasicBlock::Create(module_.getContext(), "compute", function_);
    ir_.CreateBr(wait);
    ir_.SetInsertPoint(wait);
    ir_.CreateCondBr(emit(ir_, rows::mbarrier_try_wait_parity, {bar, 0})[0], compute, wait);
    ir_.SetInsertPoint(compute);
    for (auto& [name, tile] : staged_) loaded_[name] = ir_.CreateLoad(ir_.getFloatTy(), element(tile, tid));
    at_ = text_.find('=') + 1;
    ir_.CreateStore(sum(), element(values_[target], index_));
    ir_.CreateRetVoid();
  }

 private:
  llvm::Value* sum() {
    llvm::Value* left = product();
    while (next() == '+') ++at_, left = ir_.CreateFAdd(left, product());
    return left;
  }
  llvm::Value* product() {
    llvm::Value* left = name();
    while (next() == '*') ++at_, left = ir_.CreateFMul(left, name());
    return left;
  }
  llvm::Value* name() {
    const char name = next();
    at_ += vectors_.count(name) ? 4 : 1;
    return vectors_.count(name) ? loaded_.at(name) : values_.at(name);
  }
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  llvm::Value* element(llvm::Value* base, llvm::Value* i) { return ir_.CreateGEP(ir_.getFloatTy(), base, i); }
  llvm::Value* shared(int bytes) {
    auto* type = llvm::ArrayType::get(ir_.getInt8Ty(), bytes);
    auto* variable = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::InternalLinkage,
                                              llvm::PoisonValue::get(type), "tile", nullptr,
                                              llvm::GlobalValue::NotThreadLocal, 3);
    variable->setAlignment(llvm::Align(128));
    return variable;
  }

  std::string text_;
  llvm::Module& module_;
  llvm::IRBuilder<> ir_;
  llvm::Function* function_;
  llvm::Value* index_ = nullptr;
  std::set<char> vectors_, numbers_;
  std::map<char, llvm::Value*> values_, staged_, loaded_;
  size_t at_ = 0;
};

int main(int count, char** words) {
  llvm::LLVMContext context;
  llvm::Module module("front_end", context);
  FrontEnd(count > 1 ? words[1] : "d[i] = a[i] * b[i] + c", module).compile();
  const std::string ptx = generate_ptx(module);
  std::cout << ptx;

  auto device = runtime::open_device("emulator");
  std::vector<float> a(256), b(256);
  for (int i = 0; i < 256; ++i) a[i] = i, b[i] = 256 - i;
  auto of_a = runtime::Buffer::of(*device, a), of_b = runtime::Buffer::of(*device, b);
  runtime::Buffer d(*device, 256 * sizeof(float));
  Signature signature;
  signature.kernel = "statement";
  signature.threads = kThreads;
  auto program = device->load(ptx, signature);
  const runtime::Address addresses[] = {of_a.address(), of_b.address(), d.address()};
  const float c = 0.5f;
  const void* parameters[] = {&addresses[0], &addresses[1], &addresses[2], &c};
  runtime::Launch launch;
  launch.grid = {2, 1, 1};
  launch.block = {kThreads, 1, 1};
  device->launch(*program, launch, parameters);
  device->synchronize(std::chrono::seconds(60));
  int wrong = 0;
  const std::vector<float> result = d.copy_out<float>();
  for (int i = 0; i < 256; ++i) wrong += result[i] != a[i] * b[i] + c;
  std::cout << "front end: " << wrong << " of 256 wrong\n";
  return wrong != 0;
}
