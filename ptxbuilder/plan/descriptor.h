// Describes matrices in shared memory in the way in which wgmma and tcgen05 read them, by the address of each
// element and by the descriptor that encodes the addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// The dimension that is contiguous in memory: either k, or m (for A) or n (for B).
enum class Major : uint8_t { k, mn };
std::string_view name(Major major);  // returns "k" or "mn"

// The 64 bits that describe a matrix to wgmma (PTX ISA, "Matrix Descriptor Format"). The bits do not encode
// the major; the trans operand of the instruction does.
//
//   63  62 61  52 51         49 48 46 45        32 31 30 29        16 15 14 13          0
//   swizzle  0    base offset     0     SBO >> 4     0     LBO >> 4     0    start >> 4
struct MatrixDescriptor {
  uint32_t start_address = 0;        // byte address in shared::cta
  uint32_t leading_byte_offset = 0;  // LBO
  uint32_t stride_byte_offset = 0;   // SBO
  uint32_t base_offset = 0;          // 0 to 7; must be 0 if swizzle patterns start at multiples of their size
  Swizzle swizzle = Swizzle::none;   // encoded in bits 63..62: 0 none, 1 128 B, 2 64 B, 3 32 B

  // Returns the 64 bits. If a field is not a multiple of 16 bytes or does not fit, throws an Error that names
  // the field.
  uint64_t encode(Where where = Where::here()) const;
  // Returns the 64 bits for tcgen05 (PTX ISA, "Shared memory descriptor" of tcgen05, layout table). The
  // fields occupy the same bits as for wgmma, except that bits 48..46 are 0b001, and the swizzle is in bits
  // 63..61: 0 none, 2 128 B, 4 64 B, 6 32 B.
  uint64_t encode_tcgen05(Where where = Where::here()) const;
  // Returns the descriptor with these 64 bits. Throws Error if a bit that must be zero is set.
  static MatrixDescriptor decode(uint64_t bits, Where where = Where::here());

  // Returns the address of element (mn, k) in the matrix of one instruction, computed in the same way as in
  // the hardware. An element has `bytes` bytes, and k must be within 32 bytes.
  uint32_t address(Major major, int bytes, int mn, int k) const;

  // Returns an explanation with one line for each field. The overload without a major explains LBO and SBO
  // for both majors.
  std::string explain() const;
  std::string explain(Major major) const;

  bool operator==(const MatrixDescriptor&) const = default;
};

// The direction in which consecutive swizzle atoms follow each other.
enum class AtomOrder : uint8_t { mn_first, k_first };
std::string_view name(AtomOrder order);  // returns "mn" or "k"

// Returns mn_first for K-major matrices, and k_first for MN-major matrices. TMA boxes that are as wide as the
// swizzle's span follow each other in this order.
constexpr AtomOrder default_order(Major major) {
  return major == Major::k ? AtomOrder::mn_first : AtomOrder::k_first;
}

// A wgmma operand in shared memory with mn x k elements: A is m x k, and B is n x k. The operand is a grid of
// atoms. An atom is the unit within which a swizzle exchanges 16-byte chunks. An atom consists of 8 rows,
// which are contiguous along `major` and as long as the swizzle's span (16 bytes without a swizzle). All
// offsets are in bytes from the start of the matrix, which is aligned to an atom, and agree with layout().
class WgmmaOperand {
 public:
  // Makes a separate matrix, without gaps between its atoms. If wgmma cannot read such a matrix, the
  // constructor throws an Error that states the rule, the extent and the nearest legal extent.
  WgmmaOperand(DType dtype, Major major, Swizzle swizzle, int mn, int k, Where where = Where::here());
  WgmmaOperand(DType dtype, Major major, Swizzle swizzle, int mn, int k, AtomOrder order,
               Where where = Where::here());
  // Makes a matrix that is a tile or a part of a tile. `elements` maps (mn, k) to an element in memory. Also
  // throws Error if the rows do not consist of atoms.
  WgmmaOperand(DType dtype, Major major, Swizzle swizzle, const ComposedLayout& elements,
               Where where = Where::here());

  // Returns the rule that a matrix with these properties breaks, or "" if wgmma can read the matrix.
  static std::string refusal(DType dtype, Major major, Swizzle swizzle, int mn, int k);

  DType dtype() const { return dtype_; }
  Major major() const { return major_; }
  Swizzle swizzle() const { return swizzle_; }
  int mn() const { return mn_; }
  int k() const { return k_; }
  // Returns the layout that maps (mn, k) to the offset of the element, in bytes.
  const ComposedLayout& layout() const { return layout_; }

  // Return the extents of an atom, in elements.
  int atom_mn() const { return major_ == Major::k ? 8 : span() / size_of(dtype_); }
  int atom_k() const { return major_ == Major::k ? span() / size_of(dtype_) : 8; }
  int atom_bytes() const { return 8 * span(); }
  // Return the distance in bytes from one atom to the next, along m or n and along k.
  int atom_stride_mn() const { return linear_offset(atom_mn(), 0); }
  int atom_stride_k() const { return linear_offset(0, atom_k()); }
  int bytes() const { return mn_ * k_ * size_of(dtype_); }

  // Returns the first `mn` rows (columns for B) of the same matrix, such as the part that one instruction
  // reads.
  WgmmaOperand part(int mn, Where where = Where::here()) const;
  // Returns this operand as B of a product with a sparse A, where each instruction covers 64 bytes along k.
  // Throws Error if k is not a multiple of 64 bytes, or if an instruction would exceed the span of a 32-byte
  // swizzle.
  WgmmaOperand for_sparse(Where where = Where::here()) const;

  // Return the offset of element (mn, k), with and without the swizzle applied. The start in a descriptor is
  // an offset without the swizzle.
  int offset(int mn, int k) const;
  int linear_offset(int mn, int k) const;

  // Returns the descriptor of a matrix at `start_address`. If the hardware does not use LBO or SBO, the field
  // has the same value as in CuTe: LBO is 16 bytes in swizzled K-major matrices, and 0 otherwise.
  MatrixDescriptor descriptor(uint32_t start_address = 0) const;

  // Return the number of elements along k that one instruction covers, and the offset of the descriptor's
  // start, in bytes, for each instruction along k. The offsets are not equally spaced if k extends over
  // several atoms.
  int instruction_k() const { return depth_bytes_ / size_of(dtype_); }
  std::vector<int> advances_k() const;
  // Returns the offsets of the descriptor's start along m or n, one for each block of `block` rows or
  // columns. Throws Error unless `block` is a multiple of atom_mn().
  std::vector<int> advances_mn(int block, Where where = Where::here()) const;

  std::string describe() const;  // such as "K-major bf16 128x64 with 128 B swizzle"

 private:
  int span() const { return swizzle_ == Swizzle::none ? 16 : span_bytes(swizzle_); }

  DType dtype_;
  Major major_;
  Swizzle swizzle_;
  int mn_, k_;
  ComposedLayout layout_;
  int depth_bytes_ = 32;  // bytes that one instruction covers along k
};

// The 32 bits that describe the product to tcgen05.mma with .kind::f16 (PTX ISA, "Instruction descriptor",
// the table for .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8). All other fields are 0: no sparsity,
// no negation, no shift.
//
//   31 29 28    24 23 22    17 16      15      14 13 12 10 9   7 6 5    4 3  0
//     0   M >> 4   0  N >> 3  B is mn  A is mn   0   B type A type 0 D type  0
struct Tcgen05Descriptor {
  DType d = DType::f32;                  // encoding: f16 is 0, f32 is 1
  DType a = DType::f16, b = DType::f16;  // encoding: f16 is 0, bf16 is 1
  Major a_major = Major::k, b_major = Major::k;
  // The extents of one CTA's D: 64 rows and a multiple of 8 columns, or 128 rows and a multiple of 16
  // columns. There can be at most 256 columns.
  int m = 128, n = 128;

  // Returns the 32 bits. If types or shapes break a rule, throws an Error that states the rule (PTX ISA,
  // "Matrix Shape" of tcgen05).
  uint32_t encode(Where where = Where::here()) const;
};

// Returns the widest swizzle whose span divides a row of `bytes` bytes, or no swizzle if no span does.
Swizzle widest_swizzle(int bytes);

}  // namespace ptxbuilder
