// Emits rows as LLVM IR. The text is the result of isa/lower.h, and the operands are values of a kernel or of
// any other module.
#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Support/Error.h>

#include "ptxbuilder/ir/asm_rules.h"
#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/ir/module_needs.h"
#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/isa/lower.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/llvm.h"

namespace ptxbuilder {
namespace {

using isa::Operand;
using isa::Row;

// Returns whether an operand accepts a type. Classes that name bits instead of a type accept any value of
// their width.
bool accepts(Class cls, llvm::Type* type, llvm::LLVMContext& context) {
  if (type == type_of(cls, context)) return true;
  auto is_space = [&](unsigned space) {
    return type->isPointerTy() && type->getPointerAddressSpace() == space;
  };
  switch (cls) {
    case Class::b16:
      return type->isHalfTy() || type->isBFloatTy();
    case Class::b32:
      return type->isFloatTy() || is_space(kSharedSpace) || is_space(kSharedClusterSpace);
    case Class::b64:
      return type->isDoubleTy() || is_space(0) || is_space(kGlobalSpace);
    default:
      return false;
  }
}

// A call of inline asm in LLVM IR: the result of isa::lower, with IR values as its operands.
class AsmCall {
 public:
  AsmCall(llvm::IRBuilderBase& ir, const Row& row, std::span<const Argument> arguments, llvm::Value* guard)
      : ir_(ir), row_(row), guard_(guard) {
    std::vector<isa::Filling> fillings;
    values_.resize(row.operands.size());
    size_t next = 0;
    for (size_t i = 0; i < row.operands.size(); ++i)
      if (row.operands[i].reads() && next < arguments.size())
        fillings.push_back(filling(i, arguments[next++]));
    fillings.resize(arguments.size());  // lower() reports a wrong number of arguments
    call_ = isa::lower(row, fillings, guard != nullptr);
    for (size_t i = 0; i < row.operands.size(); ++i)
      for (llvm::Value* value : values_[i]) check(row.operands[i], value);
    check_named(arguments);
    if (guard) check_guard();
  }

  const std::string& text() const { return call_.text; }
  llvm::CallInst& made() { return *made_; }  // the call that emit() has added

  std::vector<llvm::Value*> emit() {
    llvm::LLVMContext& context = ir_.getContext();
    std::vector<llvm::Type*> results, types;
    for (const isa::InlineAsm::Register& r : call_.results) results.push_back(asm_type(result_type(r)));
    std::vector<llvm::Value*> inputs;
    for (const isa::InlineAsm::Register& r : call_.arguments) inputs.push_back(into_asm(argument(r)));
    for (llvm::Value* v : inputs) types.push_back(v->getType());
    llvm::Type* result = llvm::Type::getVoidTy(context);
    if (results.size() == 1) result = results[0];
    if (results.size() > 1) result = llvm::StructType::get(context, results);
    auto* type = llvm::FunctionType::get(result, types, false);
    if (llvm::Error error = llvm::InlineAsm::verify(type, call_.constraints))
      throw Error(fmt::format("{}: LLVM refuses the constraints \"{}\": {}", row_.name, call_.constraints,
                              llvm::toString(std::move(error))));

    llvm::CallInst* call = made_ =
        ir_.CreateCall(type, llvm::InlineAsm::get(type, call_.text, call_.constraints, call_.stays), inputs);
    call->addFnAttr(llvm::Attribute::NoUnwind);
    if (call_.stays) {
      call->addFnAttr(llvm::Attribute::Convergent);
    } else {
      call->addFnAttr(llvm::Attribute::WillReturn);
      call->setDoesNotAccessMemory();
    }
    std::vector<llvm::Value*> yields;
    for (unsigned i = 0; i < results.size(); ++i)
      yields.push_back(from_asm(results.size() == 1 ? call : ir_.CreateExtractValue(call, i),
                                result_type(call_.results[i])));
    return yields;
  }

 private:
  isa::Filling filling(size_t i, const Argument& given) {
    const Operand& o = row_.operands[i];
    if (auto* registers = std::get_if<Registers>(&given)) return *registers;
    if (auto* number = std::get_if<int64_t>(&given)) return *number;
    std::vector<llvm::Value*>& values = values_[i];
    if (auto* list = std::get_if<std::vector<Value>>(&given)) {
      for (Value v : *list) values.push_back(v.handle());
      return isa::ValueCount{static_cast<int>(values.size())};
    }
    values.push_back(std::get<Value>(given).handle());
    // A value that is known on the host does not need a register.
    auto* constant = llvm::dyn_cast_if_present<llvm::ConstantInt>(values[0]);
    const bool may_be = o.cls == Class::imm || (row_.takes_numbers() && o.takes_numbers());
    if (!constant || !may_be ||
        (o.cls != Class::imm && !accepts(o.cls, constant->getType(), ir_.getContext())))
      return isa::ValueCount{1};
    values.clear();
    return constant->getBitWidth() == 1 ? int64_t{constant->isOne()} : constant->getSExtValue();
  }

  void check(const Operand& o, const llvm::Value* value) const {
    if (!value) isa::refuse_operand(row_, o, "is a null pointer, not a value");
    if (&value->getContext() != &ir_.getContext())
      isa::refuse_operand(row_, o, "is a value of another LLVMContext than the IRBuilder's");
    if (!accepts(o.cls, value->getType(), ir_.getContext()))
      isa::refuse_operand(
          row_, o, fmt::format("is {}, but the value given is {}", name(o.cls), describe(value->getType())));
    const llvm::Function *here = ir_.GetInsertBlock()->getParent(), *there = function_of(value);
    if (there && there != here)
      isa::refuse_operand(row_, o,
                          fmt::format("is a value of the function {}, but the IRBuilder is in {}",
                                      name_of(there), name_of(here)));
  }

  void check_named(std::span<const Argument> arguments) const {
    size_t next = 0;
    for (const Operand& o : row_.operands)
      if (o.reads())
        if (auto* registers = std::get_if<Registers>(&arguments[next++]))
          check_declared(*ir_.GetInsertBlock()->getParent(), row_, o, *registers);
  }

  void check_guard() const {
    if (&guard_->getContext() != &ir_.getContext())
      throw Error(
          fmt::format("{}: the guard is a value of another LLVMContext than the IRBuilder's", row_.name));
    if (!guard_->getType()->isIntegerTy(1))
      throw Error(fmt::format("{}: the guard is an i1, but the value given is {}", row_.name,
                              describe(guard_->getType())));
  }

  llvm::Value* argument(const isa::InlineAsm::Register& r) const {
    return r.operand == isa::InlineAsm::Register::kGuard ? guard_
                                                         : values_[r.operand][static_cast<size_t>(r.item)];
  }

  // Returns the type of a result. If the operand is read and written, the result has the type of the
  // argument.
  llvm::Type* result_type(const isa::InlineAsm::Register& r) const {
    return row_.operands[r.operand].reads() ? argument(r)->getType() : type_of(r.cls, ir_.getContext());
  }

  // PTX uses 32-bit addresses in shared and tensor memory, and 64-bit addresses elsewhere; the module's
  // pointers may have another width.
  llvm::Type* asm_type(llvm::Type* type) const {
    if (!type->isPointerTy()) return type;
    const unsigned space = type->getPointerAddressSpace();
    const bool is_narrow = space == kSharedSpace || space == kSharedClusterSpace || space == kTensorSpace;
    const unsigned bits = is_narrow ? 32 : 64;
    const llvm::DataLayout& layout = ir_.GetInsertBlock()->getModule()->getDataLayout();
    return layout.getPointerSizeInBits(space) == bits ? type : ir_.getIntNTy(bits);
  }
  llvm::Value* into_asm(llvm::Value* value) const {
    llvm::Type* type = asm_type(value->getType());
    return type == value->getType() ? value : ir_.CreatePtrToInt(value, type);
  }
  llvm::Value* from_asm(llvm::Value* value, llvm::Type* type) const {
    return type == value->getType() ? value : ir_.CreateIntToPtr(value, type);
  }

  llvm::IRBuilderBase& ir_;
  const Row& row_;
  llvm::Value* guard_;
  std::vector<std::vector<llvm::Value*>> values_;  // one list for each operand
  isa::InlineAsm call_;
  llvm::CallInst* made_ = nullptr;
};

// Returns ten times the .version that the row requires on the function's target, if the function names one.
// Throws Error if that target does not support the row.
int version_for(const llvm::Function& function, const Row& row) {
  const llvm::Attribute cpu = function.getFnAttribute("target-cpu");
  if (!cpu.isValid()) return row.ptx_version;
  const isa::Target& target = isa::target(std::string_view(cpu.getValueAsString()));
  if (!row.targets.has(target.sm))
    throw Error(fmt::format("{}: it needs {}, but the function's target-cpu is {}", row.name,
                            row.targets.text(), target.name));
  return row.version_on(target.sm);
}

// Emits an instruction without operands through its LLVM intrinsic, which is preferred to asm.
llvm::CallInst* call_intrinsic(llvm::IRBuilderBase& ir, const Row& row) {
  auto id = llvm::Intrinsic::lookupIntrinsicID(llvm::StringRef(row.intrinsic.data(), row.intrinsic.size()));
  return ir.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>(), llvm::ArrayRef<llvm::Value*>());
}

}  // namespace

std::vector<llvm::Value*> emit(llvm::IRBuilderBase& ir, const Row& row,
                               const std::vector<LlvmArgument>& arguments, llvm::Value* guard, Where where) {
  CallersLine line(where);
  check_insertion_point(ir, row.name);
  llvm::Function& function = *ir.GetInsertBlock()->getParent();
  const bool has_cpu = function.hasFnAttribute("target-cpu");
  const int ptx_version = version_for(function, row);
  const std::vector<Argument> given(arguments.begin(), arguments.end());
  AsmCall call(ir, row, given, guard);
  check_cta_group(function, call.text());
  require(*function.getParent(), ptx_version, row.targets);
  llvm::CallInst* intrinsic = row.intrinsic.empty() ? nullptr : call_intrinsic(ir, row);
  const std::vector<llvm::Value*> results = intrinsic ? std::vector<llvm::Value*>{intrinsic} : call.emit();
  if (!has_cpu) note_row(intrinsic ? *intrinsic : call.made(), row);
  return results;
}

void check_is_ours(const Builder::State& state, llvm::Value* value) {
  if (!value)
    throw Error(state.nearest_line(),
                fmt::format("{}: a null pointer was given as a value", state.signature.kernel));
  const llvm::Function* its = state.is_hosted() ? function_of(value) : nullptr;
  if (&value->getContext() != &state.context || (its && its != state.function))
    throw Error(state.nearest_line(),
                fmt::format("{}: the value belongs to another kernel", state.signature.kernel));
}

void check_insertion_point(const llvm::IRBuilderBase& ir, std::string_view what) {
  const llvm::BasicBlock* block = ir.GetInsertBlock();
  if (!block || !block->getParent() || !block->getModule())
    throw Error(
        fmt::format("{}: the IRBuilder is not in a function of a module; give it an insertion point", what));
  if (ir.GetInsertPoint() == block->end()) {
    if (block->getTerminator())
      throw Error(fmt::format("{}: the IRBuilder is after the terminator of its block", what));
  } else if (llvm::isa<llvm::PHINode>(*ir.GetInsertPoint())) {
    throw Error(fmt::format("{}: the IRBuilder is before a phi, which must come first in its block", what));
  }
}

std::string name_of(const llvm::Function* function) {
  return function->hasName() ? fmt::format("'{}'", std::string_view(function->getName()))
                             : "one without a name";
}

const llvm::Function* function_of(const llvm::Value* value) {
  if (auto* argument = llvm::dyn_cast<llvm::Argument>(value)) return argument->getParent();
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  return instruction && instruction->getParent() ? instruction->getFunction() : nullptr;
}

std::string describe(llvm::Type* type) {
  if (type->isIntegerTy(1)) return "pred";
  if (type->isIntegerTy()) return fmt::format("u{}", type->getIntegerBitWidth());
  if (type->isHalfTy()) return "f16";
  if (type->isBFloatTy()) return "bf16";
  if (type->isFloatTy()) return "f32";
  if (type->isDoubleTy()) return "f64";
  if (type->isPointerTy()) switch (type->getPointerAddressSpace()) {
      case 0:
        return "a generic address";
      case kGlobalSpace:
        return "gmem";
      case kSharedSpace:
        return "smem";
      case kSharedClusterSpace:
        return "cluster";
      case kLocalSpace:
        return "local";
      case kConstantSpace:
        return "constant";
      case kTensorSpace:
        return "tmem";
    }
  return "of an unknown type";
}

std::vector<Value> Builder::emit(const Row& row, std::span<const Argument> arguments,
                                 std::optional<pred> guard, Where where) {
  CallersLine line(where);
  check_current();
  State& s = *state_;
  s.function_or_create();  // must run before the instruction's line is set, since the kernel has another line
  if (line.opens()) s.set_line(where);
  for (const Argument& argument : arguments) {
    if (auto* value = std::get_if<Value>(&argument)) check_is_ours(s, value->handle());
    if (auto* list = std::get_if<std::vector<Value>>(&argument))
      for (Value value : *list) check_is_ours(s, value.handle());
  }
  if (guard && !guard->handle())
    throw Error(fmt::format("{}: the guard is a null pointer, not a value", row.name));
  if (guard) check_is_ours(s, guard->handle());
  // Each group of products begins with a fence, so checking the fences covers every group.
  if (row.syntax.starts_with("setmaxnreg.") || row.syntax.starts_with("wgmma.fence."))
    detail::check_whole_warpgroups(row.name);
  s.tell(When::before, row, arguments);
  AsmCall call(s.ir, row, arguments, guard ? guard->handle() : nullptr);
  check_cta_group(*s.function, call.text());
  s.barrier_ids.check_text(call.text());
  s.target.require(row.targets, row.name, row.mnemonic());
  s.require(row.version_on(s.target->sm), row.targets, row.name);
  llvm::CallInst* intrinsic = row.intrinsic.empty() ? nullptr : call_intrinsic(s.ir, row);
  const std::vector<llvm::Value*> results = intrinsic ? std::vector<llvm::Value*>{intrinsic} : call.emit();
  if (s.is_hosted()) note_row(intrinsic ? *intrinsic : call.made(), row);
  s.tell(When::behind, row, arguments);
  return {results.begin(), results.end()};
}

void ptx(std::string_view text, std::initializer_list<PtxBinding> bindings, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  Row row;
  row.name = "ptx";
  row.syntax = text;
  row.operands = isa::parse_at(text, where);

  auto find = [&](std::string_view hole) -> const PtxBinding* {
    for (const PtxBinding& b : bindings)
      if (b.hole_ == hole) return &b;
    return nullptr;
  };
  std::string holes;
  for (const Operand& o : row.operands) holes += fmt::format("{}{}", holes.empty() ? "" : ", ", o.name);
  for (const PtxBinding& b : bindings)
    if (find(b.hole_) != &b)
      throw Error(fmt::format("ptx: the hole '{}' is bound twice in \"{}\"", b.hole_, text));
  for (const PtxBinding& b : bindings)
    if (std::none_of(row.operands.begin(), row.operands.end(),
                     [&](const Operand& o) { return o.name == b.hole_; }))
      throw Error(
          fmt::format("ptx: no hole is named '{}' in \"{}\"; its holes are {}", b.hole_, text, holes));

  llvm::LLVMContext& context = builder.state().context;
  std::vector<Argument> arguments;
  std::vector<std::pair<llvm::Value*, llvm::Type*>> targets;  // where to store the results, in order
  for (const Operand& o : row.operands) {
    const PtxBinding* b = find(o.name);
    if (!b) throw Error(fmt::format("ptx: the hole '{}' is not bound in \"{}\"", o.name, text));
    if (o.writes()) {
      auto is_var = [](const PtxRegister& r) { return r.variable_ != nullptr; };
      if (b->immediate_ || !std::ranges::all_of(b->registers_, is_var))
        throw Error(fmt::format("ptx: the hole '{}' is written and needs a Var", o.name));
      if (b->registers_.size() != static_cast<size_t>(o.count))
        throw Error(fmt::format("ptx: the hole '{}' is {} registers, but {} Vars were given in \"{}\"",
                                o.name, o.count, b->registers_.size(), text));
      for (const PtxRegister& r : b->registers_) {
        llvm::Type* type = type_of(r.cls_, context);
        if (!accepts(o.cls, type, context))
          throw Error(
              fmt::format("ptx: the hole '{}' is {}, but its Var is {}", o.name, name(o.cls), name(r.cls_)));
        targets.emplace_back(r.variable_, type);
      }
    }
    if (!o.reads()) continue;
    if (b->immediate_) {
      arguments.emplace_back(*b->immediate_);
      continue;
    }
    std::vector<Value> values;
    for (const PtxRegister& r : b->registers_)
      values.emplace_back(r.variable_ ? builder.load_variable(r.variable_, r.cls_) : r.value_);
    if (!o.list && values.size() == 1)
      arguments.emplace_back(values[0]);
    else
      arguments.emplace_back(std::move(values));
  }
  std::vector<Value> results = builder.emit(row, arguments, std::nullopt);
  for (const auto& [mnemonic, operands] : isa::instructions_in(text))
    if (const std::optional<isa::Floor> floor = isa::floor_of(mnemonic, operands))
      builder.state().require(floor->ptx_version, floor->targets, fmt::format("ptx: {}", mnemonic), mnemonic);
  for (size_t i = 0; i < results.size(); ++i) {
    llvm::Value* value = results[i].handle();
    if (value->getType() != targets[i].second)
      value = builder.state().ir.CreateBitCast(value, targets[i].second);
    builder.store_variable(targets[i].first, value);
  }
}

}  // namespace ptxbuilder
