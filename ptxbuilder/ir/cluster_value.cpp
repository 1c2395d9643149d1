#include "ptxbuilder/ir/cluster_value.h"

#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>

namespace ptxbuilder::detail {
namespace {

// Evaluates values in one CTA of a trial launch whose size and parameters are chosen at random.
class InCta {
 public:
  InCta(const std::array<int, 3>& cluster, const std::array<uint64_t, 3>& place, uint64_t trial)
      : cluster_(cluster), place_(place), trial_(trial) {}

  // Returns the constant to which the value evaluates, or null if it is not known.
  llvm::Constant* operator()(const llvm::Value* value) {
    auto [known, is_new] = values_.try_emplace(value, nullptr);
    if (!is_new || values_.size() > kMost) return known->second;
    llvm::Constant* const result = made(value);
    return values_[value] = result && !llvm::isa<llvm::UndefValue>(result) ? result : nullptr;
  }

 private:
  static constexpr size_t kMost = 400;  // limit on the number of values that are examined

  llvm::Constant* made(const llvm::Value* value) {
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(value)) return const_cast<llvm::Constant*>(constant);
    if (auto* argument = llvm::dyn_cast<llvm::Argument>(value))
      return argument->getType()->isIntegerTy()
                 ? number(value, 1 + (trial_ * 7919 + argument->getArgNo()) % 999)
                 : nullptr;
    auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (!instruction || llvm::isa<llvm::PHINode, llvm::LoadInst>(instruction)) return nullptr;
    auto* call = llvm::dyn_cast<llvm::CallInst>(instruction);
    if (call && call->arg_empty()) {
      const auto special = register_of(call->getIntrinsicID());
      return special ? number(value, *special) : nullptr;
    }
    std::vector<llvm::Constant*> operands;
    for (const llvm::Use& operand : instruction->operands()) {
      operands.push_back((*this)(operand));
      if (!operands.back()) return nullptr;
    }
    // ConstantFoldInstOperands folds a call whose last operand is the function.
    return llvm::ConstantFoldInstOperands(const_cast<llvm::Instruction*>(instruction), operands,
                                          instruction->getModule()->getDataLayout());
  }

  static llvm::Constant* number(const llvm::Value* of, uint64_t x) {
    return llvm::ConstantInt::get(of->getType(), x);
  }

  // Returns the value of a special register that depends only on the CTA's position.
  std::optional<uint64_t> register_of(llvm::Intrinsic::ID id) const {
    using namespace llvm;  // NOLINT: the names of intrinsics are long
    const auto size = [&](size_t i) { return static_cast<uint64_t>(cluster_[i]); };
    const auto clusters = [&](size_t i) { return 2 + (trial_ + i) % 5; };
    const auto first = [&](size_t i) { return (trial_ + 2 * i) % clusters(i) * size(i); };
    constexpr Intrinsic::ID kIds[][3] = {
        {Intrinsic::nvvm_read_ptx_sreg_ctaid_x, Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
         Intrinsic::nvvm_read_ptx_sreg_ctaid_z},
        {Intrinsic::nvvm_read_ptx_sreg_cluster_ctaid_x, Intrinsic::nvvm_read_ptx_sreg_cluster_ctaid_y,
         Intrinsic::nvvm_read_ptx_sreg_cluster_ctaid_z},
        {Intrinsic::nvvm_read_ptx_sreg_nctaid_x, Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
         Intrinsic::nvvm_read_ptx_sreg_nctaid_z},
        {Intrinsic::nvvm_read_ptx_sreg_cluster_nctaid_x, Intrinsic::nvvm_read_ptx_sreg_cluster_nctaid_y,
         Intrinsic::nvvm_read_ptx_sreg_cluster_nctaid_z},
        {Intrinsic::nvvm_read_ptx_sreg_clusterid_x, Intrinsic::nvvm_read_ptx_sreg_clusterid_y,
         Intrinsic::nvvm_read_ptx_sreg_clusterid_z}};
    for (size_t i = 0; i < 3; ++i) {
      const uint64_t values[] = {first(i) + place_[i], place_[i], clusters(i) * size(i), size(i),
                                 first(i) / size(i)};
      for (size_t k = 0; k < std::size(kIds); ++k)
        if (id == kIds[k][i]) return values[k];
    }
    if (id == Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank)
      return place_[0] + size(0) * (place_[1] + size(1) * place_[2]);
    if (id == Intrinsic::nvvm_read_ptx_sreg_cluster_nctarank) return size(0) * size(1) * size(2);
    return {};
  }

  std::array<int, 3> cluster_;
  std::array<uint64_t, 3> place_;
  uint64_t trial_;
  std::map<const llvm::Value*, llvm::Constant*> values_;
};

}  // namespace

bool differs_along(const Value& value, size_t axis, const std::array<int, 3>& cluster) {
  // Values may be equal by chance for the parameters and the grid of one launch, so several trials use
  // different numbers.
  constexpr uint64_t kTrials = 8;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    std::array<uint64_t, 3> place = {};
    const llvm::Constant* const first = InCta(cluster, place, trial)(value.handle());
    place[axis] = 1;
    const llvm::Constant* const second = InCta(cluster, place, trial)(value.handle());
    if (!first || !second || first == second) return false;
  }
  return true;
}

}  // namespace ptxbuilder::detail
