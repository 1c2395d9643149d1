// Describes copy instructions: how much an instruction moves, which threads provide addresses, and which
// thread holds which element.
#pragma once

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// One copy instruction.
class CopyAtom {
 public:
  // The instructions that copy.
  enum class Kind : uint8_t { cp_async, vector, ldmatrix, stmatrix };

  // PTX ISA, cp.async: global to shared memory, 4, 8 or 16 bytes a thread. Throws Error for other sizes.
  static CopyAtom cp_async(int bytes, Where where = Where::here());
  // PTX ISA, ld and st: 1, 2, 4, 8 or 16 bytes a thread, in one access.
  static CopyAtom vector(int bytes, Where where = Where::here());
  // PTX ISA, ldmatrix and stmatrix: the 32 lanes of a warp move 1, 2 or 4 matrices of 8 rows of 16 bytes.
  // When transposed, each lane holds elements of a column; only for 16-bit elements.
  static CopyAtom ldmatrix(int matrices, bool transposed = false, Where where = Where::here());
  static CopyAtom stmatrix(int matrices, bool transposed = false, Where where = Where::here());

  Kind kind() const { return kind_; }
  bool is_matrix() const { return kind_ == Kind::ldmatrix || kind_ == Kind::stmatrix; }
  int bytes() const { return bytes_; }  // contiguous, at one address; 16 for matrices
  int matrices() const { return matrices_; }
  bool transposed() const { return transposed_; }
  int threads() const { return is_matrix() ? 32 : 1; }
  // The bytes of registers that a thread holds for one instruction.
  int register_bytes() const { return is_matrix() ? 4 * matrices_ : bytes_; }

  // The elements that one instruction moves, counted row after row in elements of `type`: (lane, element) of
  // the elements at a lane's address, and of the elements in its registers, low bits first. Lanes beyond 8
  // per matrix repeat addresses. Throws Error for transposed elements that do not have 16 bits, and for
  // accesses smaller than an element.
  Layout addressed(DType type, Where where = Where::here()) const;
  Layout held(DType type, Where where = Where::here()) const;

  std::string describe() const;  // "ldmatrix.x4.trans", "a 16 B vector", "cp.async of 16 B"

  bool operator==(const CopyAtom&) const = default;

 private:
  CopyAtom(Kind kind, int bytes, int matrices, bool transposed)
      : kind_(kind), bytes_(bytes), matrices_(matrices), transposed_(transposed) {}

  Kind kind_;
  int bytes_, matrices_;
  bool transposed_;
};

}  // namespace ptxbuilder
