// From a row to one call of inline asm: constraints from classes, read-write operands tied, predicates placed
// in front.
#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/Support/Error.h>

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/ir/instructions.h"
#include "ptxbuilder/ir/state.h"

namespace ptxbuilder {
namespace {

using isa::Operand;
using isa::Row;

// Classes that name bits rather than a type take any value of their width.
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

// Collects the pieces of one asm call while the syntax line is walked.
class AsmCall {
 public:
  AsmCall(Builder::State& state, const Row& row, std::span<const Argument> arguments,
          std::optional<pred> guard, Where where)
      : state_(state), row_(row), arguments_(arguments), guard_(guard), where_(where) {}

  // Their number, and that a guard leaves no result undefined.
  void check_operands() const {
    size_t expected = 0;
    for (const Operand& o : row_.operands) expected += o.reads();
    if (arguments_.size() != expected)
      throw Error(where_, fmt::format("{}: takes {} operands, but {} were given, in \"{}\"", row_.name,
                                      expected, arguments_.size(), row_.syntax));
    if (!guard_) return;
    check_is_ours(state_, guard_->handle(), where_);
    for (const Operand& o : row_.operands)
      if (o.access == isa::Access::write)
        throw Error(where_,
                    fmt::format("{}: cannot be guarded: '{}' would be undefined where the predicate is false",
                                row_.name, o.name));
  }

  std::vector<Value> emit() {
    check_operands();
    // Text of several statements may write a result before it reads all operands: they must not share
    // registers.
    early_ = std::count(row_.syntax.begin(), row_.syntax.end(), ';') > 1 ? "&" : "";
    for (const Operand& o : row_.operands)
      if (o.writes() && !named(o)) output_count_ += o.count;
    walk();
    return finish();
  }

 private:
  [[noreturn]] void refuse(const Operand& o, const std::string& what) const {
    throw Error(where_, fmt::format("{}: operand '{}' {}, in \"{}\"", row_.name, o.name, what, row_.syntax));
  }

  // The argument of a hole that reads.
  const Argument& argument(const Operand& operand) const {
    size_t i = 0;
    for (const Operand& o : row_.operands) {
      if (&o == &operand) break;
      i += o.reads();
    }
    return arguments_[i];
  }

  const Registers* named(const Operand& o) const {
    return o.reads() ? std::get_if<Registers>(&argument(o)) : nullptr;
  }

  void walk() {
    if (guard_) text_ = fmt::format("@${} ", output_count_ + input_count());
    std::vector<std::string> texts;
    for (const Operand& o : row_.operands) texts.push_back(text_of(o));
    size_t done = 0;
    for (size_t h = 0; h < row_.operands.hole_count; ++h) {
      const isa::Hole& hole = row_.operands.holes[h];
      literal(row_.syntax.substr(done, hole.begin - done));
      done = hole.end;
      text_ += texts[hole.operand];
    }
    literal(row_.syntax.substr(done));
  }

  std::string text_of(const Operand& o) {
    if (const Registers* registers = named(o)) return name_registers(o, *registers);
    return o.cls == Class::imm ? immediate(o) : values(o);
  }

  // Untied inputs, which LLVM numbers after the outputs and before the tied ones.
  int input_count() const {
    int n = 0;
    for (const Operand& o : row_.operands)
      if (o.access == isa::Access::read && !named(o) && !known(o)) n += o.count;
    return n;
  }

  // The text of an operand whose value is known while the kernel is built: it needs no register.
  std::optional<std::string> known(const Operand& o) const {
    if (o.access != isa::Access::read || o.list || !row_.takes_numbers()) return std::nullopt;
    const Argument& a = argument(o);
    if (auto* number = std::get_if<int64_t>(&a)) return std::to_string(*number);
    auto* value = std::get_if<Value>(&a);
    auto* constant = value ? llvm::dyn_cast<llvm::ConstantInt>(value->handle()) : nullptr;
    if (!constant || !accepts(o.cls, constant->getType(), state_.context)) return std::nullopt;
    if (constant->getBitWidth() == 1) return constant->isZero() ? "0" : "1";
    return std::to_string(constant->getSExtValue());
  }

  void literal(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{' || text[i] == '}') ++i;  // doubled
      if (text[i] == '$') text_ += '$';
      text_ += text[i];
    }
  }

  std::string name_registers(const Operand& o, const Registers& registers) {
    if (registers.count != o.count)
      refuse(o, fmt::format("is {} registers, but {} were given", o.count, registers.count));
    uses_names_ = true;
    return list(o, [&](int i) { return fmt::format("{}{}", registers.base, registers.first + i); });
  }

  std::string immediate(const Operand& o) const {
    auto* value = std::get_if<int64_t>(&argument(o));
    if (!value) refuse(o, "is an immediate: its value must be known while the kernel is built");
    if (*value < o.least || *value > o.greatest || (*value - o.least) % o.step != 0)
      refuse(o, fmt::format("must be from {} to {}{}, but is {}", o.least, o.greatest,
                            o.step == 1 ? "" : fmt::format(" in steps of {}", o.step), *value));
    return std::to_string(*value);
  }

  std::string values(const Operand& o) {
    std::vector<Value> given;
    if (o.reads()) {
      const Argument& a = argument(o);
      if (auto* one = std::get_if<Value>(&a)) given = {*one};
      if (auto* many = std::get_if<std::vector<Value>>(&a)) given = *many;
      if (auto* known = std::get_if<int64_t>(&a);
          known && o.cls == Class::pred && (*known == 0 || *known == 1))
        return std::to_string(*known);  // PTX takes a predicate that is known as 0 or 1
      if (std::get_if<int64_t>(&a))
        refuse(o, fmt::format("is a {} register, but an immediate was given", name(o.cls)));
      if (static_cast<int>(given.size()) != o.count)
        refuse(o, fmt::format("is {} registers, but {} were given", o.count, given.size()));
      for (Value v : given) {
        check_is_ours(state_, v.handle(), where_);
        if (!accepts(o.cls, v.handle()->getType(), state_.context))
          refuse(o, fmt::format("is {}, but the value given is {}", name(o.cls),
                                describe(v.handle()->getType())));
      }
    }
    if (auto text = known(o)) return *text;
    char letter = isa::constraint(o.cls);
    return list(o, [&](int i) {
      if (!o.writes()) {
        inputs_.push_back(given[i].handle());
        input_constraints_ += fmt::format(",{}", letter);
        return fmt::format("${}", output_count_ + static_cast<int>(inputs_.size()) - 1);
      }
      int index = static_cast<int>(outputs_.size());
      outputs_.push_back(o.reads() ? given[i].handle()->getType() : type_of(o.cls, state_.context));
      output_constraints_ += fmt::format(",={}{}", early_, letter);
      if (o.reads()) {
        tied_inputs_.push_back(given[i].handle());
        tied_constraints_ += fmt::format(",{}", index);
      }
      return fmt::format("${}", index);
    });
  }

  static std::string list(const Operand& o, const std::function<std::string(int)>& item) {
    std::string text;
    for (int i = 0; i < o.count; ++i) text += (i ? ", " : "") + item(i);
    return o.list ? "{" + text + "}" : text;
  }

  std::vector<Value> finish() {
    if (guard_) {
      inputs_.push_back(guard_->handle());
      input_constraints_ += ",b";
    }
    inputs_.insert(inputs_.end(), tied_inputs_.begin(), tied_inputs_.end());

    // Registers that LLVM does not see tie an otherwise pure instruction to its place among the others that
    // use them.
    bool stays = row_.effect == isa::Effect::memory || uses_names_;
    std::string constraints =
        output_constraints_ + input_constraints_ + tied_constraints_ + (stays ? ",~{memory}" : "");
    if (!constraints.empty()) constraints.erase(0, 1);

    llvm::Type* result = llvm::Type::getVoidTy(state_.context);
    if (outputs_.size() == 1) result = outputs_[0];
    if (outputs_.size() > 1) result = llvm::StructType::get(state_.context, outputs_);
    std::vector<llvm::Type*> input_types;
    for (llvm::Value* v : inputs_) input_types.push_back(v->getType());
    auto* type = llvm::FunctionType::get(result, input_types, false);
    if (llvm::Error error = llvm::InlineAsm::verify(type, constraints))
      throw Error(where_, fmt::format("{}: LLVM refuses the constraints \"{}\": {}", row_.name, constraints,
                                      llvm::toString(std::move(error))));

    state_.barrier_ids.check_text(text_, where_);
    llvm::CallInst* call =
        state_.ir.CreateCall(type, llvm::InlineAsm::get(type, text_, constraints, stays), inputs_);
    call->addFnAttr(llvm::Attribute::NoUnwind);
    if (stays)
      call->addFnAttr(llvm::Attribute::Convergent);
    else
      call->setDoesNotAccessMemory();

    std::vector<Value> results;
    if (outputs_.size() == 1) results.emplace_back(call);
    if (outputs_.size() > 1)
      for (unsigned i = 0; i < outputs_.size(); ++i)
        results.emplace_back(state_.ir.CreateExtractValue(call, i));
    return results;
  }

  Builder::State& state_;
  const Row& row_;
  std::span<const Argument> arguments_;
  std::optional<pred> guard_;
  Where where_;

  int output_count_ = 0;
  std::string text_, output_constraints_, input_constraints_, tied_constraints_;
  std::vector<llvm::Type*> outputs_;
  std::vector<llvm::Value*> inputs_, tied_inputs_;
  std::string_view early_;
  bool uses_names_ = false;
};

}  // namespace

void check_is_ours(const Builder::State& state, llvm::Value* value, Where where) {
  if (&value->getContext() != &state.context)
    throw Error(where, fmt::format("{}: a value of another kernel was used", state.signature.kernel));
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
    }
  return "of an unknown type";
}

std::vector<Value> Builder::emit(const Row& row, std::span<const Argument> arguments,
                                 std::optional<pred> guard, Where where) {
  check_current(where);
  State& s = *state_;
  s.function_or_create();
  AtLine line(where);
  s.require(row.ptx_version, row.sm, row.name, s.line);
  AsmCall call(s, row, arguments, guard, s.line);
  if (row.intrinsic.empty()) return call.emit();
  call.check_operands();
  auto id = llvm::Intrinsic::lookupIntrinsicID(llvm::StringRef(row.intrinsic.data(), row.intrinsic.size()));
  return {Value(s.ir.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>(), llvm::ArrayRef<llvm::Value*>()))};
}

void ptx(std::string_view text, std::initializer_list<PtxBinding> bindings, Where where) {
  Builder& builder = Builder::current(where);
  AtLine line(where);
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
      throw Error(where, fmt::format("ptx: the hole '{}' is bound twice in \"{}\"", b.hole_, text));
  for (const PtxBinding& b : bindings)
    if (std::none_of(row.operands.begin(), row.operands.end(),
                     [&](const Operand& o) { return o.name == b.hole_; }))
      throw Error(
          where, fmt::format("ptx: no hole is named '{}' in \"{}\"; its holes are {}", b.hole_, text, holes));

  llvm::LLVMContext& context = builder.state().context;
  std::vector<Argument> arguments;
  std::vector<std::pair<llvm::Value*, llvm::Type*>> targets;  // of the written values, in order
  for (const Operand& o : row.operands) {
    const PtxBinding* b = find(o.name);
    if (!b) throw Error(where, fmt::format("ptx: the hole '{}' is not bound in \"{}\"", o.name, text));
    if (o.writes()) {
      auto is_var = [](const PtxRegister& r) { return r.variable_ != nullptr; };
      if (b->immediate_ || !std::ranges::all_of(b->registers_, is_var))
        throw Error(where, fmt::format("ptx: the hole '{}' is written and needs a Var", o.name));
      if (b->registers_.size() != static_cast<size_t>(o.count))
        throw Error(where, fmt::format("ptx: the hole '{}' is {} registers, but {} Vars were given in \"{}\"",
                                       o.name, o.count, b->registers_.size(), text));
      for (const PtxRegister& r : b->registers_) {
        llvm::Type* type = type_of(r.cls_, context);
        if (!accepts(o.cls, type, context))
          throw Error(where, fmt::format("ptx: the hole '{}' is {}, but its Var is {}", o.name, name(o.cls),
                                         name(r.cls_)));
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
  std::vector<Value> results = builder.emit(row, arguments, std::nullopt, where);
  for (size_t i = 0; i < results.size(); ++i) {
    llvm::Value* value = results[i].handle();
    if (value->getType() != targets[i].second)
      value = builder.state().ir.CreateBitCast(value, targets[i].second);
    builder.store_variable(targets[i].first, value);
  }
}

}  // namespace ptxbuilder
