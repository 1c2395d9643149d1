#include "ptxbuilder/ir/kernel_target.h"

#include <fmt/format.h>

#include "ptxbuilder/isa/query.h"

namespace ptxbuilder {

KernelTarget::KernelTarget(std::string_view stated, isa::Targets advised)
    : is_stated_(!stated.empty()),
      advised_(advised),
      target_(is_stated_ ? &isa::target(stated) : &(left_ & advised_).least()) {}

void KernelTarget::require(isa::Targets targets, std::string_view instruction, std::string_view mnemonic) {
  if (is_stated_) {
    if (targets.has(target_->sm)) return;
    throw Error(
        fmt::format("{}: needs {}, but the kernel's target is {}; the lowest target that supports it is {}",
                    instruction, targets.text(), target_->name, targets.least().name));
  }
  const isa::Targets left = left_ & targets;
  if (left.empty())
    throw Error(fmt::format("{}: needs {}, but {} needs {}{}; no target supports both", instruction,
                            targets.text(), narrowed_by_, left_.text(),
                            narrowed_at_ ? " at " + to_string(narrowed_at_) : ""));
  advised_ = advised_ & isa::advised_for(mnemonic);
  if (left != left_) {
    left_ = left;
    narrowed_by_ = instruction;
    narrowed_at_ = callers::open_line;
  }
  const isa::Targets best = left_ & advised_;
  target_ = &(best.empty() ? left_ : best).least();
}

}  // namespace ptxbuilder
