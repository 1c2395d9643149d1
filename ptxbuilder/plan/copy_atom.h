// Describes copy instructions: how many bytes an instruction moves, which threads provide addresses, and
// which thread holds which element in registers.
#pragma once

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// A copy instruction.
class CopyAtom {
 public:
  // The kinds of copy instructions.
  enum class Kind : uint8_t { cp_async, vector, ldmatrix, stmatrix };

  // Returns an instruction that copies 4, 8 or 16 bytes per thread from global to shared memory (PTX ISA,
  // cp.async). Throws Error for other sizes.
  static CopyAtom cp_async(int bytes, Where where = Where::here());
  // Returns an instruction that copies 1, 2, 4, 8 or 16 bytes per thread in one access (PTX ISA, ld and st).
  static CopyAtom vector(int bytes, Where where = Where::here());
  // Return an instruction that moves 1, 2 or 4 matrices of 8 rows of 16 bytes between shared memory and the
  // registers of a warp (PTX ISA, ldmatrix and stmatrix). If `transposed` is true, each lane holds elements
  // of a column instead of a row. Only 16-bit elements can be transposed.
  static CopyAtom ldmatrix(int matrices, bool transposed = false, Where where = Where::here());
  static CopyAtom stmatrix(int matrices, bool transposed = false, Where where = Where::here());

  Kind kind() const { return kind_; }
  bool is_matrix() const { return kind_ == Kind::ldmatrix || kind_ == Kind::stmatrix; }
  int bytes() const { return bytes_; }  // number of contiguous bytes at one address; 16 for matrices
  int matrices() const { return matrices_; }
  bool transposed() const { return transposed_; }
  int threads() const { return is_matrix() ? 32 : 1; }
  // Returns the number of bytes that a thread holds in registers for one instruction.
  int register_bytes() const { return is_matrix() ? 4 * matrices_ : bytes_; }

  // Return layouts that map (lane, element) to the elements that one instruction moves, counted row by row in
  // elements of `type`. addressed() covers the elements at a lane's address, and held() covers the elements
  // in a lane's registers, low bits first. Lanes beyond 8 per matrix repeat addresses. Both functions throw
  // Error for transposed elements that do not have 16 bits, and for accesses that are smaller than an
  // element.
  Layout addressed(DType type, Where where = Where::here()) const;
  Layout held(DType type, Where where = Where::here()) const;

  std::string describe() const;  // such as "ldmatrix.x4.trans", "a 16 B vector", "cp.async of 16 B"

  bool operator==(const CopyAtom&) const = default;

 private:
  CopyAtom(Kind kind, int bytes, int matrices, bool transposed)
      : kind_(kind), bytes_(bytes), matrices_(matrices), transposed_(transposed) {}

  Kind kind_;
  int bytes_, matrices_;
  bool transposed_;
};

}  // namespace ptxbuilder
