// Determines the target of a kernel: the author's target, or the lowest target that supports all of its
// instructions.
#pragma once

#include <string>
#include <string_view>

#include "ptxbuilder/isa/target.h"

namespace ptxbuilder {

// If no target is stated, the search begins at sm_90. For lower targets, LLVM chooses other instructions,
// such as several bf16 instructions instead of one, and a cubin for a lower GPU does not run on Hopper.
class KernelTarget {
 public:
  // `stated` is the author's target, or empty. Among the targets that support all instructions, `advised`
  // ones are preferred.
  explicit KernelTarget(std::string_view stated, isa::Targets advised = isa::Targets::all());

  const isa::Target* operator->() const { return target_; }

  // Throws Error that names the lowest target with this instruction if the stated target does not support it,
  // or if no target supports it together with the previous instructions. Among possible targets, those that
  // ptxas advises for the `mnemonic` are preferred.
  void require(isa::Targets targets, std::string_view instruction, std::string_view mnemonic);

 private:
  bool is_stated_;
  isa::Targets left_ = isa::Sm::sm_90;  // if no target is stated, the targets that support all instructions
                                        // so far
  isa::Targets advised_;
  const isa::Target* target_;
  std::string narrowed_by_ = "the kernel";  // the last instruction that removed some targets
  Where narrowed_at_;
};

}  // namespace ptxbuilder
