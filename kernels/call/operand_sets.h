// Several sets of a call's operands, for measuring the call's kernels.
#pragma once

#include "kernels/call/operand.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Several sets of operands, at most 16. Together they have twice the size of L2, so that kernels read
// operands from memory, as they usually do. Operands that are read hold the caller's values; in the first
// set, they are the caller's operands themselves if TMA can access them. Operands that are written are never
// the caller's.
class OperandSets {
 public:
  // Waits for the stream, for up to an hour, and for the copies. `unit` is the unit of padded(). Written
  // operands are laid out like padded() if pads_written is set, else like the caller's. Throws Error if there
  // is too little memory.
  OperandSets(runtime::Device& device, MatrixCopier& copier, std::span<Operand* const> read,
              std::span<Operand* const> written, bool pads_written, int64_t unit, runtime::Stream stream);

  size_t size() const { return sets_.size(); }
  // Replaces the operands that the constructor received, which must still exist, with the operands of a set.
  void take(size_t set) const;
  // Allocates memory that this object owns, and returns it; for 0 bytes, returns an empty view.
  runtime::View memory(size_t bytes);
  // Returns a copy of an operand, laid out like padded().
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
