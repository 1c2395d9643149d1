// Describes matrix instructions: their shapes and types, which thread holds which element, and how they cover
// a tile.
#pragma once

#include <array>
#include <optional>

#include "ptxbuilder/isa/rows.h"
#include "ptxbuilder/layout/layout.h"
#include "ptxbuilder/plan/descriptor.h"

namespace ptxbuilder {

// The registers with operands and accumulators of wgmma and mma.sync (PTX ISA, "Register Fragments"; "Matrix
// Fragments for mma"). Lane l of warp w holds elements of the rows 16 w + l / 4 + 8 h. Of every 4 `beside`
// columns, it holds `beside` consecutive ones, beginning with number `beside` (l % 4). Its values are ordered
// by these `beside` columns first, then by h, and then by further columns.
struct MmaRegisters {
  int warps;
  int eights;  // h is less than this: 2, or 1 if there are 8 rows
  int beside;  // 2 for accumulators, otherwise the number of elements in 4 bytes
  int cols;    // number of all columns
};
// Returns the layout that maps (thread, value) to row * (the element's row) + col * (the element's column).
Layout mma_registers(MmaRegisters held, int64_t row, int64_t col);

// D[m,n] += A[m,k] B[n,k] in one instruction. The layouts map (thread, value) to the element's index in a
// column-major matrix: i + m j for A, C and D (m x k and m x n), and j + n k for B (n x k), as in CuTe. A
// thread's values are in the order of its registers, low bits first. All threads share operands in shared
// memory, so the thread stride of these is 0.
class MmaAtom {
 public:
  // A wgmma with A and B in shared memory, or with A in registers: m is 64, and k is 32 bytes. Both throw
  // Error if the instruction does not exist, or if 8- or 32-bit elements would be MN-major.
  static MmaAtom wgmma(DType d, DType a, DType b, int n, Major a_major = Major::k, Major b_major = Major::k,
                       Where where = Where::here());
  static MmaAtom wgmma_a_in_registers(DType d, DType a, DType b, int n, Major b_major = Major::k,
                                      Where where = Where::here());
  // An mma.sync.m16n8k of one warp, with all operands in registers.
  static MmaAtom mma_sync(DType d, DType a, DType b, int k, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }
  int k() const { return k_; }
  int threads() const { return threads_; }  // 128 or 32
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

// A product made of wgmma instructions over matrices in shared memory: their number, and the descriptors of
// each.
class TiledMma {
 public:
  // Throws Error if types or majors differ from those of the atom, or if an extent is not a multiple of the
  // atom's.
  TiledMma(const MmaAtom& atom, const WgmmaOperand& a, const WgmmaOperand& b, Where where = Where::here());
  // A is in registers, and has `m` rows.
  TiledMma(const MmaAtom& atom, int m, const WgmmaOperand& b, Where where = Where::here());

  const MmaAtom& atom() const { return atom_; }
  std::array<int, 3> count() const { return count_; }  // along m, n and k

  // Return the descriptors of the instructions at (i, k) and (j, k), in units of instructions, for matrices
  // that start at the given address. descriptor_a() throws Error if A is in registers.
  MatrixDescriptor descriptor_a(int i, int k, uint32_t start_address = 0, Where where = Where::here()) const;
  MatrixDescriptor descriptor_b(int j, int k, uint32_t start_address = 0, Where where = Where::here()) const;

  // Return the distances in bytes from the first start of a descriptor to the later ones: along m for A,
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
