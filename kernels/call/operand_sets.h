// Several sets of a call's operands, which its kernels are measured with.
#pragma once

#include "kernels/call/operand.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// At most 16 sets that together have twice the size of L2, so that operands come from memory as they usually
// do. Operands that are read have the caller's values, and in the first set they are the caller's own if TMA
// can access them. Operands that are written are always separate from the caller's.
class OperandSets {
 public:
  // Waits for the stream, up to an hour, and for the copies. `unit` is the unit of padded(). Written operands
  // are placed like padded(), or as they are given. Throws Error if there is too little memory.
  OperandSets(runtime::Device& device, MatrixCopier& copier, std::span<Operand* const> read,
              std::span<Operand* const> written, bool pads_written, int64_t unit, runtime::Stream stream);

  size_t size() const { return sets_.size(); }
  // Replaces the operands that were given, which must still exist, by those of a set.
  void take(size_t set) const;
  // Returns more memory that lasts as long as this object; empty for 0 bytes.
  runtime::View memory(size_t bytes);
  // Returns a copy of an operand, placed like padded().
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
