// Describes matrix instructions: their shapes and types, which thread holds which element, and how
// instructions cover a tile.
#pragma once

#include <array>
#include <optional>

#include "ptxbuilder/isa/rows.h"
#include "ptxbuilder/layout/layout.h"
#include "ptxbuilder/plan/descriptor.h"

namespace ptxbuilder {

// The registers that hold operands and accumulators of wgmma and mma.sync (PTX ISA, "Register Fragments";
// "Matrix Fragments for mma"). Lane l of warp w holds elements in rows 16 * w + l / 4 + 8 * h. Columns form
// groups of `4 * beside`. In each group, the lane holds `beside` consecutive columns, beginning at column
// `beside * (l % 4)` of the group. The lane's values are ordered by column within such a group first, then by
// h, and then by group.
struct MmaRegisters {
  int warps;
  int eights;  // number of values of h; 2, or 1 if there are only 8 rows
  int beside;  // number of adjacent columns in a lane; 2 for accumulators, otherwise the number of elements
               // in 4 bytes
  int cols;    // total number of columns
};
// Returns the layout that maps (thread, value) to row * r + col * c, where r and c are the element's row and
// column.
Layout mma_registers(MmaRegisters held, int64_t row, int64_t col);

// An instruction that computes D[m,n] += A[m,k] B[n,k]. The layouts map (thread, value) to the element's
// index in a column-major matrix, as in CuTe. The index of row i and column j is i + m * j for A (m x k), C
// and D (m x n), and i + n * j for B (n x k). A thread's values are in the order of its registers, low bits
// first. All threads share operands in shared memory, so these operands have the thread stride 0.
class MmaAtom {
 public:
  // Return a wgmma with A and B in shared memory, or with A in registers. m is 64, and k covers 32 bytes.
  // Both functions throw Error if the instruction does not exist, or if 8-bit or 32-bit elements would be
  // MN-major.
  static MmaAtom wgmma(DType d, DType a, DType b, int n, Major a_major = Major::k, Major b_major = Major::k,
                       Where where = Where::here());
  static MmaAtom wgmma_a_in_registers(DType d, DType a, DType b, int n, Major b_major = Major::k,
                                      Where where = Where::here());
  // Returns an mma.sync.m16n8k of one warp, with all operands in registers.
  static MmaAtom mma_sync(DType d, DType a, DType b, int k, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }
  int k() const { return k_; }
  int threads() const { return threads_; }  // returns 128 or 32
  DType d() const { return d_; }
  DType a() const { return a_; }
  DType b() const { return b_; }
  bool a_in_registers() const { return a_in_registers_; }
  bool b_in_registers() const { return threads_ == 32; }
  Major a_major() const { return a_major_; }
  Major b_major() const { return b_major_; }
  const isa::Row& row() const { return *row_; }

  Layout layout_a() const;
  Layout layout_b() const;
  Layout layout_c() const;

 private:
  MmaAtom() = default;

  int m_ = 0, n_ = 0, k_ = 0, threads_ = 0;
  DType d_ = {}, a_ = {}, b_ = {};
  bool a_in_registers_ = false;
  Major a_major_ = Major::k, b_major_ = Major::k;
  const isa::Row* row_ = nullptr;
};

// A product that consists of wgmma instructions: the number of instructions, and the descriptors of each
// instruction.
class TiledMma {
 public:
  // Throws Error if the types or majors of the operands differ from the atom's, or if an extent is not a
  // multiple of the atom's extent.
  TiledMma(const MmaAtom& atom, const WgmmaOperand& a, const WgmmaOperand& b, Where where = Where::here());
  // Makes a product with an A of `m` rows in registers.
  TiledMma(const MmaAtom& atom, int m, const WgmmaOperand& b, Where where = Where::here());

  const MmaAtom& atom() const { return atom_; }
  std::array<int, 3> count() const { return count_; }  // number of instructions along m, n and k

  // Return the descriptor of A for the instruction at (i, k), and the descriptor of B for the instruction at
  // (j, k). Positions are in units of instructions, and the matrix starts at `start_address`. descriptor_a()
  // throws Error if A is in registers.
  MatrixDescriptor descriptor_a(int i, int k, uint32_t start_address = 0, Where where = Where::here()) const;
  MatrixDescriptor descriptor_b(int j, int k, uint32_t start_address = 0, Where where = Where::here()) const;

  // Return the distances, in bytes, between the starts of the descriptors and the first start, along m for A,
  // along n for B, and along k.
  std::vector<int> advances_m(Where where = Where::here()) const;
  std::vector<int> advances_n(Where where = Where::here()) const;
  std::vector<int> advances_k_a(Where where = Where::here()) const;
  std::vector<int> advances_k_b() const { return b_.advances_k(); }

 private:
  const WgmmaOperand& a() const;

  MmaAtom atom_;
  std::optional<WgmmaOperand> a_;
  WgmmaOperand b_;
  std::array<int, 3> count_ = {};
};

}  // namespace ptxbuilder
