// Several sets of a call's operands, over which its kernels are measured.
#pragma once

#include "kernels/call/operand.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Sets that together are twice the L2, so that operands come from memory as they mostly do; 16 at most. What
// is read holds what the caller's holds, and is the caller's own in the first set where TMA takes it; what is
// written is always apart from the caller's.
class OperandSets {
 public:
  // Waits for the stream, up to an hour, and for the copies. `unit` is as padded() takes it. What is
  // written is placed as padded() has it, or as it is given. Throws Error where there is too little memory.
  OperandSets(runtime::Device& device, MatrixCopier& copier, std::span<Operand* const> read,
              std::span<Operand* const> written, bool pads_written, int64_t unit, runtime::Stream stream);

  size_t size() const { return sets_.size(); }
  // Sets the operands that were given, which are still there, to those of this set.
  void take(size_t set) const;
  // More memory that lasts as long as they do; none for 0 bytes.
  runtime::View memory(size_t bytes);
  // A copy of an operand, as padded() has it.
  Operand copy_of(const Operand& given);

 private:
  runtime::Device& device_;
  MatrixCopier& copier_;
  int64_t unit_;
  std::vector<Operand*> places_;
  std::vector<std::vector<Operand>> sets_;
  std::vector<runtime::Buffer> memory_;
};

}  // namespace ptxbuilder::kernels
