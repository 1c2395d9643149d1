// An example of a user's compiler. It parses "d[i] = x@y * a[i] + c", and writes LLVM IR with its own
// IRBuilder. It uses the installed library's rows for Hopper's instructions and its tiles for the product
// x@y, and the library generates the PTX. Bulk copies that an mbarrier counts load vectors into shared
// memory.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cctype>
#include <iostream>
#include <random>
#include <set>

#include "ptxbuilder/llvm.h"
#include "ptxbuilder/ptxbuilder.h"
#include "ptxbuilder/runtime/runtime.h"

using namespace ptxbuilder;
namespace rows = isa::rows_def;

// A CTA computes a tile of kM x kN elements, row after row. i counts the elements of all tiles.
constexpr int kThreads = 128, kM = 64, kN = 16, kK = 64, kTile = kM * kN, kBytes = 4 * kTile;

// The kernel of one statement. Names with [i] are vectors. Names with an @ are matrices that are kK wide: x
// has kM rows for each CTA, and y has kN rows. Other names are numbers that all threads share. The parameters
// are the vectors, the numbers and the matrices, each in the order of their names.
class FrontEnd {
 public:
  FrontEnd(const std::string& statement, llvm::Module& module)
      : text_(statement), module_(module), ir_(module.getContext()) {
    for (size_t at = 0; at < text_.size(); ++at)
      if (std::isalpha(text_[at]) && text_[at] != 'i') {
        const bool matrix = text_[at + 1] == '@' || (at > 0 && text_[at - 1] == '@');
        (matrix ? matrices_ : text_[at + 1] == '[' ? vectors_ : numbers_).insert(text_[at]);
      }
    std::vector<llvm::Type*> types(vectors_.size(), llvm::PointerType::get(module.getContext(), 1));
    types.insert(types.end(), numbers_.size(), ir_.getFloatTy());
    types.insert(types.end(), matrices_.size(), ir_.getPtrTy());
    function_ = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), types, false),
                                       llvm::Function::ExternalLinkage, "statement", module);
    function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
  }

  // Returns the sidecar that is needed to launch the kernel.
  Signature compile() {
    Kernel kernel(*function_);
    kernel.insert_at(ir_, [&] { declare(kernel.builder()); });
    llvm::Value *bar = shared(8), *tid = emit(ir_, rows::tid_x, {})[0];
    llvm::Value *block = emit(ir_, rows::ctaid_x, {})[0], *start = ir_.CreateMul(block, ir_.getInt32(kTile));
    llvm::Value* first = ir_.CreateICmpEQ(tid, ir_.getInt32(0));
    emit(ir_, rows::mbarrier_init, {bar, 1}, first);
    emit(ir_, rows::fence_mbarrier_init, {});
    emit(ir_, rows::bar_sync_all, {0});
    const char target = text_[0];
    emit(ir_, rows::mbarrier_arrive_expect_tx, {bar, kBytes * static_cast<int>(vectors_.size() - 1)}, first);
    for (char name : vectors_) {
      if (name == target) continue;
      staged_[name] = shared(kBytes);
      llvm::Value* from = element(values_[name], start);
      emit(ir_, isa::cp_async_bulk_load({}), {staged_[name], from, kBytes, bar}, first);
    }
    llvm::BasicBlock *wait = new_block(), *compute = new_block(), *round = new_block(), *end = new_block();
    ir_.CreateBr(wait);
    ir_.SetInsertPoint(wait);
    ir_.CreateCondBr(emit(ir_, rows::mbarrier_try_wait_parity, {bar, 0})[0], compute, wait);
    ir_.SetInsertPoint(compute);
    for (size_t at = text_.find('@'); at != std::string::npos; at = text_.find('@', at + 1))
      kernel.insert_at(ir_, [&] { multiply(kernel, text_[at - 1], text_[at + 1], block); });

    llvm::BasicBlock* before = ir_.GetInsertBlock();
    ir_.CreateBr(round);
    ir_.SetInsertPoint(round);
    llvm::PHINode* index = ir_.CreatePHI(ir_.getInt32Ty(), 2);  // index in the tile
    index_ = index;
    at_ = text_.find('=') + 1;
    llvm::Value* result = sum();
    ir_.CreateStore(result, element(values_[target], ir_.CreateAdd(start, index)));
    llvm::Value* next = ir_.CreateAdd(index, ir_.getInt32(kThreads));
    index->addIncoming(tid, before);
    index->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpULT(next, ir_.getInt32(kTile)), round, end);
    ir_.SetInsertPoint(end);
    ir_.CreateRetVoid();
    kernel.finish();
    return kernel.signature();
  }

 private:
  void declare(Builder& builder) {
    std::vector<Parameter> parameters;
    std::string names;
    auto add = [&](const std::set<char>& of, Parameter::Kind kind) {
      for (char name : of) {
        parameters.push_back({.name = std::string(1, name), .kind = kind, .dtype = DType::f32});
        names += name;
      }
    };
    add(vectors_, Parameter::Kind::pointer);
    add(numbers_, Parameter::Kind::scalar);
    add(matrices_, Parameter::Kind::tensor_map);
    const std::vector<Value> given = builder.declare_parameters(parameters);
    for (size_t i = 0; i < given.size(); ++i) values_[names[i]] = given[i].handle();
  }

  // Adds the library's part: one tile of x y^T on the tensor cores, which stays in shared memory for the
  // front end's IR.
  void multiply(Kernel& kernel, char x, char y, llvm::Value* block) {
    auto a = kernel.shared<bf16>({kM, kK}, Swizzle128B), b = kernel.shared<bf16>({kN, kK}, Swizzle128B);
    auto product = kernel.shared<f32>({kM, kN});
    Barriers loaded(kernel, {1});
    sync_threads();
    elect([&] {
      mbarrier_arrive_expect_tx(loaded[0], a.stage_bytes() + b.stage_bytes());
      tma_load(a[0].on(loaded[0]), TensorMap(values_[x]), 0, u32(block) * kM);
      tma_load(b[0].on(loaded[0]), TensorMap(values_[y]), 0, 0);
    });
    barrier_wait(loaded[0], 0);
    Accumulator acc(kM, kN);
    wgmma_group([&] { mma(acc, a[0], b[0]); });
    wgmma_wait(0);
    store(product[0], load<f32>(acc));
    sync_threads();
    staged_[x] = product[0].address().handle();
  }

  llvm::Value* sum() {
    llvm::Value* left = product();
    while (next() == '+') ++at_, left = ir_.CreateFAdd(left, product());
    return left;
  }
  llvm::Value* product() {
    llvm::Value* left = operand();
    while (next() == '*') ++at_, left = ir_.CreateFMul(left, operand());
    return left;
  }
  llvm::Value* operand() {
    const char name = next();
    at_ += vectors_.count(name) ? 4 : matrices_.count(name) ? 3 : 1;
    if (numbers_.count(name)) return values_.at(name);
    return ir_.CreateLoad(ir_.getFloatTy(), element(staged_.at(name), index_));
  }
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  llvm::Value* element(llvm::Value* base, llvm::Value* i) { return ir_.CreateGEP(ir_.getFloatTy(), base, i); }
  llvm::BasicBlock* new_block() { return llvm::BasicBlock::Create(module_.getContext(), "", function_); }
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
  std::set<char> vectors_, numbers_, matrices_;
  std::map<char, llvm::Value*> values_, staged_;
  size_t at_ = 0;
};

int main() {
  llvm::LLVMContext context;
  llvm::Module module("front_end", context);
  const Signature signature = FrontEnd("d[i] = x@y * a[i] + b[i] * c", module).compile();
  const std::string ptx = generate_ptx(module);
  std::cout << ptx;

  constexpr int kCtas = 2;
  std::mt19937 random(std::random_device{}());
  auto numbers = [&](size_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = static_cast<float>(random() % 9) - 4;
    return values;
  };
  auto as_bf16 = [](const std::vector<float>& values) {
    std::vector<uint16_t> bits;
    for (float v : values) bits.push_back(static_cast<uint16_t>(encode(DType::bf16, v)));
    return bits;
  };
  const auto a = numbers(kCtas * kTile), b = numbers(kCtas * kTile), x = numbers(kCtas * kM * kK),
             y = numbers(kN * kK);
  const float c = 0.5f;
  auto device = runtime::open_device("emulator");
  auto of_a = runtime::Buffer::of(*device, a), of_b = runtime::Buffer::of(*device, b);
  auto of_x = runtime::Buffer::of(*device, as_bf16(x)), of_y = runtime::Buffer::of(*device, as_bf16(y));
  runtime::Buffer d(*device, a.size() * sizeof(float));
  d.fill(0xff);
  auto vector = [](runtime::Buffer& buffer) { return runtime::pointer(buffer, DType::f32); };
  runtime::LoadedKernel kernel(*device, ptx, signature);
  kernel.launch({.grid = {kCtas}}, {vector(of_a), vector(of_b), vector(d), runtime::scalar(c),
                                    runtime::tensor(of_x, DType::bf16, {kK, kCtas * kM}),
                                    runtime::tensor(of_y, DType::bf16, {kK, kN})});
  const std::vector<float> result = d.copy_out<float>();
  int wrong = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    float product = 0;  // exact, because the inputs are small integers
    for (size_t k = 0; k < kK; ++k) product += x[i / kN * kK + k] * y[i % kN * kK + k];
    wrong += result[i] != product * a[i] + b[i] * c;
  }
  std::cout << "front end: " << wrong << " of " << result.size() << " wrong\n";
  return wrong != 0;
}
