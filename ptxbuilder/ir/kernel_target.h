// The target of a kernel in the making: the author's, or the lowest that has all of its instructions.
#pragma once

#include <string>
#include <string_view>

#include "ptxbuilder/isa/target.h"

namespace ptxbuilder {

// Where none is stated, the search begins at sm_90: LLVM chooses other instructions below, such as several in
// place of one for bf16, and a cubin for a lower GPU does not run on Hopper.
class KernelTarget {
 public:
  // Empty where none is stated. Of the targets that have all instructions, those that are `advised` come
  // first.
  explicit KernelTarget(std::string_view stated, isa::Targets advised = isa::Targets::all());

  const isa::Target* operator->() const { return target_; }

  // Throws Error that names the lowest target that has the instruction, where the stated one lacks it, and
  // where no target has it together with what the kernel has so far. Where one of those that ptxas advises
  // for the `mnemonic` will do, the target is one.
  void require(isa::Targets targets, std::string_view instruction, std::string_view mnemonic);

 private:
  bool is_stated_;
  isa::Targets left_ = isa::Sm::sm_90;  // where none is stated, those that have all instructions so far
  isa::Targets advised_;
  const isa::Target* target_;
  std::string narrowed_by_ = "the kernel";  // the last instruction that took some of them away
  Where narrowed_at_;
};

}  // namespace ptxbuilder
