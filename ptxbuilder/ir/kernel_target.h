// Determines the target of a kernel: the author's target, or the lowest target that supports all of its
// instructions.
#pragma once

#include <string>
#include <string_view>

#include "ptxbuilder/isa/target.h"

namespace ptxbuilder {

// If the author does not state a target, the lowest candidate is sm_90. For a lower target, LLVM would choose
// other instructions, for example several instead of one for bf16, and a cubin for a lower target does not
// run on Hopper.
class KernelTarget {
 public:
  // `stated` is the author's target, or empty. Among the targets that support all instructions, those in
  // `advised` are preferred.
  explicit KernelTarget(std::string_view stated, isa::Targets advised = isa::Targets::all());

  const isa::Target* operator->() const { return target_; }

  // Restricts the target to `targets`, which support an `instruction`. Throws an Error that names the
  // necessary target if the stated target is not one of `targets`, or if no target supports both this
  // instruction and the previous instructions. Among the remaining targets, those that ptxas advises for the
  // `mnemonic` are preferred.
  void require(isa::Targets targets, std::string_view instruction, std::string_view mnemonic);

 private:
  bool is_stated_;
  isa::Targets left_ = isa::Sm::sm_90;  // targets that support all instructions; used if no target is stated
  isa::Targets advised_;
  const isa::Target* target_;
  std::string narrowed_by_ = "the kernel";  // the last instruction that removed some targets
  Where narrowed_at_;
};

}  // namespace ptxbuilder
