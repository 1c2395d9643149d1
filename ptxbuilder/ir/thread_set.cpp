#include "ptxbuilder/ir/thread_set.h"

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <optional>
#include <vector>

#include "ptxbuilder/ir/state.h"

namespace ptxbuilder::detail {
namespace {

constexpr size_t kThreads = hopper::cta_threads, kLanes = hopper::warp_threads;
// Of the operations between a condition and the thread's number. Those that authors write have a handful.
constexpr int kDeepest = 16;

// A value of each thread.
using Values = std::vector<uint64_t>;

// Whether a call is inline asm that begins like this.
bool is_asm(const llvm::CallInst& call, std::string_view begins) {
  auto* text = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand());
  return text && text->getAsmString().starts_with(begins);
}

// Lane 0's register, as warp_index() takes it.
bool is_of_lane_0(const llvm::CallInst& call) { return is_asm(call, "shfl.sync.idx.b32 $0, $1, 0, 31,"); }

uint64_t bits_of(const llvm::Value* value) {
  auto* type = llvm::dyn_cast<llvm::IntegerType>(value->getType());
  return !type || type->getBitWidth() >= 64 ? ~uint64_t{0} : (uint64_t{1} << type->getBitWidth()) - 1;
}

int64_t sign_extended(uint64_t value, unsigned width) {
  const unsigned free = 64 - width;
  return static_cast<int64_t>(value << free) >> free;
}

// None where it depends on more than the thread's number: on memory, on parameters.
std::optional<Values> values_of(const llvm::Value* value, int depth);

template <class Operation>
std::optional<Values> combined(const llvm::User& user, int depth, Operation&& operation) {
  std::optional<Values> a = values_of(user.getOperand(0), depth);
  if (!a) return std::nullopt;
  const std::optional<Values> b = values_of(user.getOperand(1), depth);
  if (!b) return std::nullopt;
  const uint64_t mask = bits_of(&user);
  for (size_t t = 0; t < kThreads; ++t) (*a)[t] = operation((*a)[t], (*b)[t]) & mask;
  return a;
}

std::optional<Values> of_binary(const llvm::BinaryOperator& op, int depth) {
  using Op = llvm::Instruction;
  const unsigned width = op.getType()->getScalarSizeInBits();
  switch (op.getOpcode()) {
    case Op::Add:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a + b; });
    case Op::Sub:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a - b; });
    case Op::Mul:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a * b; });
    case Op::UDiv:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return b ? a / b : 0; });
    case Op::URem:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return b ? a % b : a; });
    case Op::And:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a & b; });
    case Op::Or:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a | b; });
    case Op::Xor:
      return combined(op, depth, [](uint64_t a, uint64_t b) { return a ^ b; });
    case Op::Shl:
      return combined(op, depth, [=](uint64_t a, uint64_t b) { return b < width ? a << b : 0; });
    case Op::LShr:
      return combined(op, depth, [=](uint64_t a, uint64_t b) { return b < width ? a >> b : 0; });
    default:
      return std::nullopt;
  }
}

std::optional<Values> of_comparison(const llvm::ICmpInst& compare, int depth) {
  const unsigned width = compare.getOperand(0)->getType()->getScalarSizeInBits();
  if (width == 0 || width > 64) return std::nullopt;
  return combined(compare, depth, [&](uint64_t a, uint64_t b) -> uint64_t {
    const int64_t sa = sign_extended(a, width), sb = sign_extended(b, width);
    switch (compare.getPredicate()) {
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
  });
}

std::optional<Values> of_call(const llvm::CallInst& call, int depth) {
  Values values(kThreads);
  switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x:  // a kernel's threads lie along x
      for (size_t t = 0; t < kThreads; ++t) values[t] = t;
      return values;
    case llvm::Intrinsic::nvvm_read_ptx_sreg_laneid:
      for (size_t t = 0; t < kThreads; ++t) values[t] = t % kLanes;
      return values;
    default:
      break;
  }
  const std::optional<Values> from =
      is_of_lane_0(call) ? values_of(call.getArgOperand(0), depth) : std::nullopt;
  if (!from) return std::nullopt;
  for (size_t t = 0; t < kThreads; ++t) values[t] = (*from)[t / kLanes * kLanes];
  return values;
}

std::optional<Values> values_of(const llvm::Value* value, int depth) {
  if (depth == 0) return std::nullopt;
  --depth;
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value)) {
    if (constant->getBitWidth() > 64) return std::nullopt;
    return Values(kThreads, constant->getZExtValue());
  }
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(value)) return of_call(*call, depth);
  if (auto* compare = llvm::dyn_cast<llvm::ICmpInst>(value)) return of_comparison(*compare, depth);
  if (auto* op = llvm::dyn_cast<llvm::BinaryOperator>(value)) return of_binary(*op, depth);
  if (llvm::isa<llvm::ZExtInst, llvm::TruncInst>(value)) {
    std::optional<Values> values = values_of(llvm::cast<llvm::User>(value)->getOperand(0), depth);
    if (values)
      for (uint64_t& v : *values) v &= bits_of(value);
    return values;
  }
  return std::nullopt;
}

// Whether the walk would meet the thread's number and nothing that is unknown, so that most conditions cost
// no arrays.
bool depends_on_the_thread_alone(const llvm::Value* value, int depth, bool& thread) {
  if (depth == 0) return false;
  if (llvm::isa<llvm::ConstantInt>(value)) return true;
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(value)) {
    const auto id = call->getIntrinsicID();
    thread = true;
    if (id == llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x || id == llvm::Intrinsic::nvvm_read_ptx_sreg_laneid)
      return true;
    return is_of_lane_0(*call) && depends_on_the_thread_alone(call->getArgOperand(0), depth - 1, thread);
  }
  if (!llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::ZExtInst, llvm::TruncInst>(value)) return false;
  for (const llvm::Use& operand : llvm::cast<llvm::User>(value)->operands())
    if (!depends_on_the_thread_alone(operand, depth - 1, thread)) return false;
  return true;
}

}  // namespace

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b) {
  return {a.may & b.may, a.exact && b.exact, a.elected || b.elected};
}

ThreadSet operator!(const ThreadSet& a) {
  if (!a.exact) return {.may = ThreadSet::Threads().set(), .exact = false};
  return {.may = ~a.may};
}

bool ThreadSet::divides_warpgroups() const {
  if (elected) return true;
  constexpr size_t kSize = hopper::warpgroup_threads;
  for (size_t first = 0; first < kThreads; first += kSize)
    for (size_t t = first; t < first + kSize; ++t)
      if (may[t] != may[first]) return true;
  return false;
}

std::string ThreadSet::describe() const {
  if (may.none()) return "no threads come";
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
  if (elected) return fmt::format("one elected lane of each warp of threads {} comes", runs);
  return may.count() == 1 ? fmt::format("thread {} comes", runs) : fmt::format("threads {} come", runs);
}

ThreadSet threads_where(const llvm::Value* condition) {
  const ThreadSet unknown = {.may = ThreadSet::Threads().set(), .exact = false};
  if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(condition);
      both && both->getOpcode() == llvm::Instruction::And)
    return threads_where(both->getOperand(0)) & threads_where(both->getOperand(1));
  if (auto* call = llvm::dyn_cast<llvm::CallInst>(condition); call && is_asm(*call, "elect.sync"))
    return {.may = unknown.may, .exact = false, .elected = true};
  bool thread = false;
  if (!depends_on_the_thread_alone(condition, kDeepest, thread) || !thread) return unknown;
  const std::optional<Values> values = values_of(condition, kDeepest);
  if (!values) return unknown;
  ThreadSet set;
  for (size_t t = 0; t < kThreads; ++t) set.may[t] = (*values)[t] != 0;
  return set;
}

}  // namespace ptxbuilder::detail
