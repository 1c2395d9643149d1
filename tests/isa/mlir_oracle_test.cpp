// Uses MLIR as an oracle: operations of its NVVM dialect and rows of the manual must become the same PTX
// instructions. MLIR's tools lower each operation, and LLVM's back end lowers each row, in functions with the
// same parameters.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "host_llvm_kit.h"
#include "instruction_texts.h"
#include "library_kit.h"
#include "options.h"
#include "ptxbuilder/compile/process.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/llvm.h"

namespace ptxbuilder::test::mlir_oracle_test {
namespace {

// Every function has these parameters. An operation names them with a %, and the operands of a row without
// it.
struct Parameter {
  std::string name, mlir;
  std::function<llvm::Type*(llvm::LLVMContext&)> type;
};

template <int space>
llvm::Type* pointer(llvm::LLVMContext& c) {
  return llvm::PointerType::get(c, space);
}
template <int bits>
llvm::Type* integer(llvm::LLVMContext& c) {
  return llvm::IntegerType::get(c, bits);
}
template <auto element, int count>
llvm::Type* vector(llvm::LLVMContext& c) {
  return llvm::FixedVectorType::get(element(c), count);
}
template <auto element>
llvm::Type* four(llvm::LLVMContext& c) {
  return llvm::StructType::get(c, std::vector<llvm::Type*>(4, element(c)));
}

const std::vector<Parameter> kParameters = {
    {"s", "!llvm.ptr<3>", pointer<3>},
    {"bar", "!llvm.ptr<3>", pointer<3>},
    {"c", "!llvm.ptr<7>", pointer<7>},
    {"cbar", "!llvm.ptr<7>", pointer<7>},
    {"g", "!llvm.ptr<1>", pointer<1>},
    {"p", "!llvm.ptr", pointer<0>},
    {"map", "!llvm.ptr", pointer<0>},
    {"t", "!llvm.ptr<6>", pointer<6>},
    {"ta", "!llvm.ptr<6>", pointer<6>},
    {"i0", "i32", integer<32>},
    {"i1", "i32", integer<32>},
    {"i2", "i32", integer<32>},
    {"i3", "i32", integer<32>},
    {"i4", "i32", integer<32>},
    {"l0", "i64", integer<64>},
    {"l1", "i64", integer<64>},
    {"h0", "i16", integer<16>},
    {"h1", "i16", integer<16>},
    {"h2", "i16", integer<16>},
    {"b", "i1", integer<1>},
    {"f0", "f32", llvm::Type::getFloatTy},
    {"f1", "f32", llvm::Type::getFloatTy},
    {"v", "vector<2xf16>", vector<llvm::Type::getHalfTy, 2>},
    {"vb", "vector<2xbf16>", vector<llvm::Type::getBFloatTy, 2>},
    {"w", "vector<2xi8>", vector<integer<8>, 2>},
    {"d2", "vector<2xi16>", vector<integer<16>, 2>},
    {"d4", "vector<4xi8>", vector<integer<8>, 4>},
    // In the operands of a row, these parameters are lists.
    {"x", "vector<2xi32>", vector<integer<32>, 2>},
    {"acc", "!llvm.struct<(f32, f32, f32, f32)>", four<llvm::Type::getFloatTy>},
    {"iacc", "!llvm.struct<(i32, i32, i32, i32)>", four<integer<32>>},
};

// A line of mlir_oracle.txt.
struct Pair {
  std::string mlir, key, operands;
};

std::vector<Pair> pairs_of(const std::string& target) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/isa/mlir_oracle.txt");
  std::vector<Pair> pairs;
  bool asked = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("target ")) {
      asked = line == "target " + target;
      continue;
    }
    const size_t first = line.find(" | "), second = line.find(" | ", first + 1);
    REQUIRE_MESSAGE(first != std::string::npos, line);
    if (asked)
      pairs.push_back({line.substr(0, first), line.substr(first + 3, second - first - 3),
                       second == std::string::npos ? "" : line.substr(second + 3)});
  }
  return pairs;
}

// ---- MLIR's side ----

// Returns the tools of Debian's package mlir-22-tools, or null if they are missing, so that the test is
// skipped.
struct Tools {
  std::string optimize, translate, codegen;
};

const Tools* tools() {
  auto find = [](const std::string& name) {
    std::istringstream folders(getenv("PATH") ? getenv("PATH") : "");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
    return std::string();
  };
  static const Tools found = {find("mlir-opt-22"), find("mlir-translate-22"), find("llc-22")};
  if (!found.optimize.empty() && !found.translate.empty() && !found.codegen.empty()) return &found;
  skip("no mlir-opt-22, mlir-translate-22 and llc-22, of Debian's packages mlir-22-tools and llvm-22");
  return nullptr;
}

std::string output_of(const std::vector<std::string>& command, const std::string& input) {
  const ProcessResult ran = run_process(command, input, std::chrono::minutes(2));
  REQUIRE_MESSAGE(ran.exit_status == 0, fmt::format("{}\n{}", fmt::join(command, " "), ran.messages));
  return ran.output;
}

// Returns LLVM IR with a function @opN for each operation.
std::string llvm_by_mlir(const Tools& tools, const std::vector<std::string>& operations) {
  std::string parameters, module = "module {\n";
  for (const Parameter& p : kParameters)
    parameters += fmt::format("{}%{}: {}", parameters.empty() ? "" : ", ", p.name, p.mlir);
  for (size_t i = 0; i < operations.size(); ++i) {
    std::string body = operations[i];
    if (const size_t yields = body.find(" = nvvm."); yields != std::string::npos && body[0] != '%')
      body = fmt::format("%r{}\nllvm.store %r, %g : {}, !llvm.ptr<1>", body.substr(yields),
                         body.substr(0, yields));
    module += fmt::format("llvm.func @op{}({}) {{\n{}\nllvm.return\n}}\n", i, parameters, body);
  }
  const std::string lowered = output_of({tools.optimize, "--convert-nvvm-to-llvm"}, module + "}\n");
  return output_of({tools.translate, "--mlir-to-llvmir"}, lowered);
}

std::string ptx_by_mlir(const Tools& tools, const std::vector<std::string>& operations,
                        const std::string& target) {
  return output_of({tools.codegen, "-mtriple=nvptx64-nvidia-cuda", "-mcpu=" + target, "-mattr=+ptx88",
                    "--nvptx-short-ptr"},
                   llvm_by_mlir(tools, operations));
}

// ---- Our side ----

class OurModule {
 public:
  OurModule() : module_("ours", context_) {
    module_.setTargetTriple(llvm::Triple("nvptx64-nvidia-cuda"));
    module_.setDataLayout("e-p3:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64");
  }

  // Adds a function @opN that contains only the row.
  void add(const isa::Row& row, const std::string& operands) {
    std::vector<llvm::Type*> types;
    for (const Parameter& p : kParameters) types.push_back(p.type(context_));
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), types, false);
    function_ =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, fmt::format("op{}", count_++), module_);
    llvm::IRBuilder<> ir(llvm::BasicBlock::Create(context_, "entry", function_));
    llvm::Value* guard = nullptr;
    std::vector<LlvmArgument> arguments;
    size_t number = 0;
    auto next_class = [&] {  // returns the class of the next operand that is read
      while (!row.operands[number].reads()) ++number;
      return row.operands[number++].cls;
    };
    std::istringstream words(operands);
    for (std::string word; words >> word;) {
      if (word[0] == '@') {
        guard = parameter(word.substr(1));
        continue;
      }
      const isa::Class cls = next_class();
      if (int64_t value; std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc())
        arguments.emplace_back(value);
      else if (word == "true")
        arguments.emplace_back(ir.getTrue());
      else if (word[0] == '{')
        arguments.emplace_back(list_of(word));
      else if (const auto parts = parts_of(ir, parameter(word)); !parts.empty())
        arguments.emplace_back(parts);
      else
        arguments.emplace_back(as(ir, cls, parameter(word)));
    }
    const std::vector<llvm::Value*> results = emit(ir, row, arguments, guard);
    for (size_t i = 0; i < results.size(); ++i)  // uses each result, so that none is dropped
      ir.CreateStore(results[i], ir.CreateConstGEP1_64(ir.getInt8Ty(), parameter("g"), 8 * i));
    ir.CreateRetVoid();
  }

  const llvm::Module& module() const { return module_; }
  std::string ir() const {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module_.print(stream, nullptr);
    return text;
  }

 private:
  llvm::Value* parameter(const std::string& name) const {
    for (size_t i = 0; i < kParameters.size(); ++i)
      if (kParameters[i].name == name) return function_->getArg(static_cast<unsigned>(i));
    FAIL("no parameter is named " << name);
    return nullptr;
  }

  // Returns the values of a list such as "{i0,i1}".
  std::vector<llvm::Value*> list_of(const std::string& word) const {
    std::istringstream names(word.substr(1, word.size() - 2));
    std::vector<llvm::Value*> list;
    for (std::string name; std::getline(names, name, ',');) list.push_back(parameter(name));
    return list;
  }

  // Returns the elements of a struct, or of a vector of 32-bit elements. Other types have none.
  static std::vector<llvm::Value*> parts_of(llvm::IRBuilder<>& ir, llvm::Value* whole) {
    std::vector<llvm::Value*> parts;
    if (auto* all = llvm::dyn_cast<llvm::StructType>(whole->getType()))
      for (unsigned i = 0; i < all->getNumElements(); ++i) parts.push_back(ir.CreateExtractValue(whole, {i}));
    auto* all = llvm::dyn_cast<llvm::FixedVectorType>(whole->getType());
    if (all && all->getScalarSizeInBits() == 32)
      for (unsigned i = 0; i < all->getNumElements(); ++i)
        parts.push_back(ir.CreateExtractElement(whole, uint64_t{i}));
    return parts;
  }

  // Returns the same bits in the type of the class. Packed numbers become an integer, and one kind of address
  // may replace another.
  llvm::Value* as(llvm::IRBuilder<>& ir, isa::Class cls, llvm::Value* value) const {
    using isa::Class;
    if (value->getType()->isVectorTy())
      return ir.CreateBitCast(
          value, ir.getIntNTy(static_cast<unsigned>(value->getType()->getPrimitiveSizeInBits())));
    const unsigned space = cls == Class::smem ? 3 : cls == Class::cluster ? 7 : 0;
    if (!value->getType()->isPointerTy() || space == 0 || value->getType()->getPointerAddressSpace() == space)
      return value;
    return ir.CreateIntToPtr(ir.CreatePtrToInt(value, ir.getInt32Ty()), ir.getPtrTy(space));
  }

  llvm::LLVMContext context_;
  llvm::Module module_;
  llvm::Function* function_ = nullptr;
  int count_ = 0;
};

void compare(const char* target, size_t least) {
  const std::vector<Pair> pairs = pairs_of(target);
  REQUIRE(pairs.size() >= least);
  const Tools* mlir = tools();
  if (!mlir) return;
  std::vector<std::string> operations;
  OurModule ours;
  for (const Pair& pair : pairs) {
    CAPTURE(pair.key);
    operations.push_back(pair.mlir);
    ours.add(isa::instruction(pair.key), pair.operands);
  }
  std::vector<std::string> names;
  for (const Parameter& p : kParameters) names.push_back(p.name);
  const InstructionTexts theirs(ptx_by_mlir(*mlir, operations, target), names),
      mine(generate_ptx(ours.module(), {.target = target, .ptx_version = 88}), names);
  for (size_t i = 0; i < pairs.size(); ++i) {
    CAPTURE(pairs[i].mlir);
    const std::string function = fmt::format("op{}", i);
    const std::string_view mnemonic = isa::instruction(pairs[i].key).mnemonic();
    const std::vector<std::string> wanted = theirs.of(function, mnemonic), got = mine.of(function, mnemonic);
    REQUIRE(wanted.size() == 1);
    REQUIRE(got.size() == 1);
    CHECK(got[0] == wanted[0]);
  }
}

}  // namespace

TEST_CASE("NVVM operations and rows are the same instructions on sm_90a") { compare("sm_90a", 90); }
TEST_CASE("NVVM operations and rows are the same instructions on sm_100a") { compare("sm_100a", 35); }

// MLIR 22 has three defects that the rows do not share. If a later version fixes them, this test fails, and
// the operations can join the others above.
TEST_CASE("if NVVM operations are wrong, the rows are right") {
  const Tools* mlir = tools();
  if (!mlir) return;
  OurModule ours;
  ours.add(isa::instruction("mbarrier.init.shared::cta.b64"), "@b bar i0");
  ours.add(isa::instruction("add.u32"), "i1 i0");
  ours.add(isa::instruction("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"), "iacc l0 l1 true");
  const std::string mine = ours.ir();
  const std::string theirs = llvm_by_mlir(
      *mlir,
      {"nvvm.mbarrier.init %bar, %i0, predicate = %b : !llvm.ptr<3>, i32, i1",
       "i32 = nvvm.inline_ptx \"add.u32 {$rw0}, {$rw0}, {$r0};\" ro(%i0 : i32) rw(%i1 : i32) -> i32",
       fmt::format("{0} = nvvm.wgmma.mma_async %l0, %l1, %iacc, #nvvm.shape<m = 64, n = 8, k = 256>, "
                   "D [<s32>, #nvvm.wgmma_scale_out<one>], A [<b1>, #nvvm.wgmma_scale_in<one>, <row>], "
                   "B [<b1>, #nvvm.wgmma_scale_in<one>, <col>] : {0} -> {0}",
                   "!llvm.struct<(i32, i32, i32, i32)>")});
  // If an asm does not declare that it accesses memory, LLVM may move memory accesses across it.
  CHECK(contains(theirs, "asm sideeffect \"@$2 mbarrier.init.shared.b64 [$0], $1;\", \"r,r,b\""));
  CHECK(contains(mine, "mbarrier.init.shared::cta.b64 [$0], $1;\", \"r,r,b,~{memory}\""));
  // $1 is the operation's result, and $2 its operand.
  CHECK(contains(theirs, "\"add.u32 $0, $0, $1;\", \"=r,=r,r,0\""));
  CHECK(contains(mine, "\"add.u32 $0, $1, $2;\", \"=r,r,r\""));
  // ptxas requires the bit operation in the mnemonic.
  CHECK(contains(theirs, "m64n8k256.s32.b1.b1 {"));
  CHECK(contains(mine, "m64n8k256.s32.b1.b1.and.popc {"));
}

}  // namespace ptxbuilder::test::mlir_oracle_test
