#include "ptxbuilder/ir/thread_set.h"

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/ir/uniform.h"

namespace ptxbuilder::detail {
namespace {

constexpr size_t kThreads = hopper::cta_threads, kLanes = hopper::warp_threads,
                 kWarpgroup = hopper::warpgroup_threads;

// The values of an expression, one for each thread.
using Values = std::vector<uint64_t>;

// Returns whether a call is inline asm that begins with `begins`.
bool is_asm(const llvm::CallInst& call, std::string_view begins) {
  auto* text = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand());
  return text && text->getAsmString().starts_with(begins);
}

// These functions recognize the instructions of warp_index(), which returns lane 0's value, and of
// warp_uniform(), which returns the greatest value in a warp.
bool is_of_lane_0(const llvm::CallInst& call) { return is_asm(call, "shfl.sync.idx.b32 $0, $1, 0, 31,"); }
bool is_greatest(const llvm::CallInst& call) { return is_asm(call, "redux.sync.max.u32 $0, $1,"); }

uint64_t bits_of(const llvm::Value* value) {
  auto* type = llvm::dyn_cast<llvm::IntegerType>(value->getType());
  return !type || type->getBitWidth() >= 64 ? ~uint64_t{0} : (uint64_t{1} << type->getBitWidth()) - 1;
}

int64_t sign_extended(uint64_t value, unsigned width) {
  const unsigned free = 64 - width;
  return static_cast<int64_t>(value << free) >> free;
}

bool compare(llvm::CmpInst::Predicate predicate, uint64_t a, uint64_t b, unsigned width) {
  const int64_t sa = sign_extended(a, width), sb = sign_extended(b, width);
  switch (predicate) {
    case llvm::CmpInst::ICMP_EQ:
      return a == b;
    case llvm::CmpInst::ICMP_NE:
      return a != b;
    case llvm::CmpInst::ICMP_ULT:
      return a < b;
    case llvm::CmpInst::ICMP_ULE:
      return a <= b;
    case llvm::CmpInst::ICMP_UGT:
      return a > b;
    case llvm::CmpInst::ICMP_UGE:
      return a >= b;
    case llvm::CmpInst::ICMP_SLT:
      return sa < sb;
    case llvm::CmpInst::ICMP_SLE:
      return sa <= sb;
    case llvm::CmpInst::ICMP_SGT:
      return sa > sb;
    default:
      return sa >= sb;
  }
}

// Evaluates expressions that depend on the thread's number, for several values of their other inputs.
class Expression {
 public:
  explicit Expression(const Builder::State& state) : state_(state), divides_(&own_divides_) {}

  // Returns whether the value depends on the number of the thread or of its warp.
  bool varies(const llvm::Value* value) { return varies(value, 0); }

  // Returns whether the value may differ between threads of a warpgroup.
  bool divides(const llvm::Value* value) {
    if (!varies(value)) return false;
    auto [known, is_new] = divides_->try_emplace(value, false);  // false, in case a variable depends on
                                                                 // itself
    if (!is_new) return known->second;
    Expression tried(state_);
    tried.divides_ = divides_;
    bool result = false;
    for (int trial = 0; trial < 64 && !result; ++trial) {
      const Values& values = tried.values(value, trial, 2 * kWarpgroup);
      for (size_t t = 0; t < values.size(); ++t) result |= values[t] != values[t / kWarpgroup * kWarpgroup];
    }
    return (*divides_)[value] = result;
  }

  // Returns whether the last value passed to values() depends only on the thread's number.
  bool is_known() const { return leaves_.empty(); }
  const Values& values(const llvm::Value* value, int trial, size_t threads) {
    trial_ = trial;
    threads_ = threads;
    values_.clear();
    return values_of(value);
  }

 private:
  // Limits on the number of operations between a condition and the thread's number, and on the total number
  // of operations examined. Conditions that authors write have only a few operations. A value with more
  // operations is assumed to be the same in all threads.
  static constexpr int kDeepest = 40;
  static constexpr size_t kMost = 400;

  bool varies(const llvm::Value* value, int depth) {
    if (depth > kDeepest || varies_.size() > kMost) return false;
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    // A loop variable is assumed not to divide a warpgroup. If the loop's bounds differ between threads, the
    // check of the bounds finds this.
    if (!instruction || llvm::isa<llvm::PHINode>(instruction) || state_.uniform.contains(value)) return false;
    auto [known, is_new] = varies_.try_emplace(value, false);  // false, in case a variable depends on itself
    if (!is_new) return known->second;
    bool result = false;
    auto* call = llvm::dyn_cast<llvm::CallInst>(instruction);
    auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction);
    if (call && call->isInlineAsm()) {
      result = is_asm(*call, "elect.sync") ||
               ((is_of_lane_0(*call) || is_greatest(*call)) && varies(call->getArgOperand(0), depth + 1));
    } else if (load && llvm::isa<llvm::AllocaInst>(load->getPointerOperand())) {
      result = variable_varies(load->getPointerOperand(), depth);
    } else {
      const auto id = call ? call->getIntrinsicID() : llvm::Intrinsic::not_intrinsic;
      result =
          id == llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x || id == llvm::Intrinsic::nvvm_read_ptx_sreg_laneid;
      for (const llvm::Use& operand : instruction->operands()) result = result || varies(operand, depth + 1);
    }
    varies_[value] = result;
    return result;
  }

  // Returns whether a variable varies. A variable varies if one of the values stored in it varies, or if only
  // a part of a warpgroup has stored a value.
  bool variable_varies(const llvm::Value* variable, int depth) {
    if (state_.varying.contains(variable)) return true;
    for (const llvm::User* user : variable->users())
      if (auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
          store && varies(store->getValueOperand(), depth + 1))
        return true;
    return false;
  }

  const Values& values_of(const llvm::Value* value) {
    auto [known, is_new] = values_.try_emplace(value);
    if (!is_new) return known->second;
    Values result = made(value);
    for (uint64_t& v : result) v &= bits_of(value);
    return values_[value] = std::move(result);
  }

  Values made(const llvm::Value* value) {
    if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value); constant && constant->getBitWidth() <= 64)
      return Values(threads_, constant->getZExtValue());
    if (!varies(value)) return Values(threads_, sample(value, 0));
    if (auto* call = llvm::dyn_cast<llvm::CallInst>(value)) return of_call(*call);
    if (auto* op = llvm::dyn_cast<llvm::BinaryOperator>(value); op && op->getType()->isIntegerTy())
      return of_binary(*op);
    if (auto* icmp = llvm::dyn_cast<llvm::ICmpInst>(value);
        icmp && icmp->getOperand(0)->getType()->isIntegerTy()) {
      const unsigned width = icmp->getOperand(0)->getType()->getIntegerBitWidth();
      return combined(*icmp, [&](uint64_t a, uint64_t b) -> uint64_t {
        return compare(icmp->getPredicate(), a, b, width);
      });
    }
    if (llvm::isa<llvm::ZExtInst, llvm::TruncInst>(value))
      return values_of(llvm::cast<llvm::User>(value)->getOperand(0));
    return of_each(value);
  }

  template <class Operation>
  Values combined(const llvm::User& user, Operation&& operation) {
    Values a = values_of(user.getOperand(0));
    const Values& b = values_of(user.getOperand(1));
    for (size_t t = 0; t < threads_; ++t) a[t] = operation(a[t], b[t]);
    return a;
  }

  Values of_binary(const llvm::BinaryOperator& op) {
    using Op = llvm::Instruction;
    const unsigned width = op.getType()->getIntegerBitWidth();
    switch (op.getOpcode()) {
      case Op::Add:
        return combined(op, [](uint64_t a, uint64_t b) { return a + b; });
      case Op::Sub:
        return combined(op, [](uint64_t a, uint64_t b) { return a - b; });
      case Op::Mul:
        return combined(op, [](uint64_t a, uint64_t b) { return a * b; });
      case Op::UDiv:
        return combined(op, [](uint64_t a, uint64_t b) { return b ? a / b : 0; });
      case Op::URem:
        return combined(op, [](uint64_t a, uint64_t b) { return b ? a % b : a; });
      case Op::And:
        return combined(op, [](uint64_t a, uint64_t b) { return a & b; });
      case Op::Or:
        return combined(op, [](uint64_t a, uint64_t b) { return a | b; });
      case Op::Xor:
        return combined(op, [](uint64_t a, uint64_t b) { return a ^ b; });
      case Op::Shl:
        return combined(op, [=](uint64_t a, uint64_t b) { return b < width ? a << b : 0; });
      case Op::LShr:
        return combined(op, [=](uint64_t a, uint64_t b) { return b < width ? a >> b : 0; });
      default:
        return of_each(&op);
    }
  }

  Values of_call(const llvm::CallInst& call) {
    Values result(threads_);
    const auto id = call.getIntrinsicID();
    for (size_t t = 0; t < threads_; ++t) result[t] = t;  // a kernel's threads are along x
    if (id == llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x) return result;
    for (uint64_t& t : result) t %= kLanes;
    if (id == llvm::Intrinsic::nvvm_read_ptx_sreg_laneid) return result;
    if (!is_of_lane_0(call) && !is_greatest(call)) return of_each(&call);
    const Values& from = values_of(call.getArgOperand(0));
    for (size_t t = 0; t < threads_; ++t) {
      const auto warp = from.begin() + static_cast<ptrdiff_t>(t / kLanes * kLanes);
      result[t] = is_greatest(call) ? *std::max_element(warp, warp + kLanes) : *warp;
    }
    return result;
  }

  // Returns sample values for a value that is known only on the device: one for each thread or, if all
  // threads of a warpgroup have the same value, one for each warpgroup.
  Values of_each(const llvm::Value* value) {
    auto* instruction = llvm::cast<llvm::Instruction>(value);
    bool divided = false;
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(value);
        load && llvm::isa<llvm::AllocaInst>(load->getPointerOperand()))
      divided = variable_divides(load->getPointerOperand());
    else if (instruction->getNumOperands() == 0 || llvm::isa<llvm::CallInst>(value))
      divided = true;
    else
      for (const llvm::Use& operand : instruction->operands()) divided = divided || divides(operand);
    Values result(threads_);
    for (size_t t = 0; t < threads_; ++t) result[t] = sample(value, divided ? t : t / kWarpgroup);
    return result;
  }

  bool variable_divides(const llvm::Value* variable) {
    if (state_.varying.contains(variable)) return true;
    for (const llvm::User* user : variable->users())
      if (auto* store = llvm::dyn_cast<llvm::StoreInst>(user); store && divides(store->getValueOperand()))
        return true;
    return false;
  }

  // Returns a sample value. Samples are small, because conditions compare them with thread numbers. They are
  // the same in every build.
  uint64_t sample(const llvm::Value* leaf, size_t thread) {
    constexpr uint64_t kSamples[] = {0, 1, 5, 48, 100, 200, 1000, 123456789};
    const size_t number = leaves_.try_emplace(leaf, leaves_.size()).first->second;
    uint64_t x = (number * 64 + static_cast<uint64_t>(trial_)) * kThreads + thread + 1;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;  // splitmix64
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return kSamples[(x ^ x >> 31) % std::size(kSamples)];
  }

  const Builder::State& state_;
  std::map<const llvm::Value*, bool> varies_, own_divides_;
  std::map<const llvm::Value*, bool>* divides_;
  std::map<const llvm::Value*, Values> values_;
  std::map<const llvm::Value*, size_t> leaves_;
  int trial_ = 0;
  size_t threads_ = 0;
};

}  // namespace

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b) {
  return {a.may & b.may, a.exact && b.exact, a.elected || b.elected, a.may_divide || b.may_divide};
}

ThreadSet operator!(const ThreadSet& a) {
  ThreadSet others = a;
  others.elected = false;
  others.may_divide = a.may_divide || a.elected;
  others.may = a.exact ? ~a.may : ThreadSet::Threads().set();
  return others;
}

bool ThreadSet::divides_warpgroups() const {
  if (elected || may_divide) return true;
  for (size_t t = 0; t < kThreads; ++t)
    if (may[t] != may[t / kWarpgroup * kWarpgroup]) return true;
  return false;
}

bool ThreadSet::divides_warps() const {
  if (elected || may_divide || may.none()) return true;
  for (size_t t = 0; t < kThreads; ++t)
    if (may[t] != may[t / kLanes * kLanes]) return true;
  return false;
}

std::string ThreadSet::describe() const {
  if (may.none()) return "no threads enter";
  std::string runs;
  for (size_t t = 0; t < kThreads; ++t) {
    if (!may[t] || (t > 0 && may[t - 1])) continue;
    size_t last = t;
    while (last + 1 < kThreads && may[last + 1]) ++last;
    if (runs.size() > 40) {
      runs += ", ...";
      break;
    }
    runs += fmt::format("{}{}", runs.empty() ? "" : ", ", t);
    if (last > t) runs += fmt::format(" to {}", last);
  }
  if (elected) return fmt::format("only one elected lane of each warp of threads {} enters", runs);
  if (may_divide) return "threads may enter without the others, since the condition differs between threads";
  return may.count() == 1 ? fmt::format("only thread {} enters", runs)
                          : fmt::format("only threads {} enter", runs);
}

ThreadSet threads_where(const llvm::Value* condition) {
  if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(condition);
      both && both->getOpcode() == llvm::Instruction::And)
    return threads_where(both->getOperand(0)) & threads_where(both->getOperand(1));
  ThreadSet set = {.may = ThreadSet::Threads().set(), .exact = false};
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(condition); call && is_asm(*call, "elect.sync")) {
    set.elected = true;
    return set;
  }
  Expression expression(Builder::current().state());
  if (!expression.varies(condition)) return set;
  const Values values = expression.values(condition, 0, kThreads);
  if (!expression.is_known()) {
    set.may_divide = expression.divides(condition);
    return set;
  }
  set.exact = true;
  for (size_t t = 0; t < kThreads; ++t) set.may[t] = values[t] != 0;
  return set;
}

bool divides_warpgroups(const llvm::Value* value) {
  return Expression(Builder::current().state()).divides(value);
}

ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds) {
  ThreadSet set = ThreadSet::all();
  Expression expression(Builder::current().state());
  for (const llvm::Value* bound : bounds)
    if (expression.divides(bound)) set.may_divide = true;
  return set;
}

void same_in_warpgroup(Value value) { Builder::current().state().uniform.insert(value.handle()); }

}  // namespace ptxbuilder::detail
