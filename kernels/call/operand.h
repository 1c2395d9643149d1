// This is one operand of a call as it is in device memory, with the rules that all operations have for it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/call/copy_matrix.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// Rows of `columns` elements side by side, and up to four dimensions outside of them, as a tensor map has
// them. Strides are known, and are in elements.
struct Operand {
  struct Dimension {
    const char* word = "";  // what errors call one of them: "row", "head", "batch"
    int64_t extent = 1, stride = 0;
    bool overlaps = false;  // one may go on where the next has begun
  };
  static constexpr size_t kMostOuter = runtime::Argument::kMaxRank - 1;

  const char* name = "";  // "A"
  DType type = DType::bf16;
  runtime::View memory = {};  // from the first element to the end of what may be touched
  int64_t columns = 0;
  size_t outer_count = 0;
  std::array<Dimension, kMostOuter> outer = {};  // from the innermost on

  int element_bytes() const { return size_of(type); }
  bool is_empty() const;
  // Says whether a tensor map takes it where it is: the address and all strides that are taken are
  // multiples of 16 bytes.
  bool aligned_for_tma() const;
};

inline constexpr int64_t kTma = 16;                      // bytes: TMA wants multiples of them
inline constexpr int64_t kStrideEnd = int64_t{1} << 40;  // bytes, exclusive: of tensor maps
inline constexpr int64_t kPartAlignment = 256;           // bytes, of each part of a workspace
constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// `count` elements side by side, such as a bias, factors or offsets.
Operand one_row(const char* name, DType type, runtime::View memory, int64_t count);

// count * stride, or where that is no number of 64 bits, a stride that check_memory() refuses.
int64_t stride_of(int64_t count, int64_t stride);

// Bytes from the first element to after the last one; 0 of one that is empty.
__int128 extent_bytes(const Operand& x);

// Says whether two operands may share a byte. They do not where one ends before the other begins, and where
// both consist of equal steps that each have a part of its own, as columns of one larger matrix, heads of
// a row, or planes of a batch do. Others that lie between each other count as sharing.
bool may_share(const Operand& x, const Operand& y);

// Says whether each element of one is at the same address as that of the other, where they have equal
// extents.
bool same_place(const Operand& x, const Operand& y);

// The functions below throw Error that begins with `operation`, such as "matmul", and names the operand, the
// rule and the value.

// A stride is shorter than a row or has 2^40 bytes, the address is no multiple of an element, or the operand
// leaves its memory. One that is empty may lie anywhere.
void check_memory(const char* operation, const Operand& x, Where where);
// It does the same for one_row(), in fewer words.
void check_row(const char* operation, const Operand& x, Where where);
// One that has elements is at address 0, which workspace_bytes() may be asked with, and a launch may not.
void check_address(const char* operation, const Operand& x, Where where);
// Rows of one that is written overlap each other.
void check_no_self_overlap(const char* operation, const Operand& x, Where where);
// The first, which is written, may share memory with the second, which is read, or written too.
void check_apart(const char* operation, const Operand& written, const Operand& other, bool is_read,
                 Where where);
// A call takes `bytes` of workspace, and `given` is less, no multiple of 16, or may share memory with one of
// `others`.
void check_workspace(const char* operation, runtime::View given, size_t bytes,
                     std::span<const Operand* const> others, Where where);

// Gives the place of a copy that TMA takes: rows of a multiple of `unit` elements, at multiples of 16 bytes,
// and dimensions one around the other without gaps. The address is 0, and the memory's bytes are those that
// it takes.
Operand padded(const Operand& x, int64_t unit = 1);
// The bytes of a workspace that padded() takes.
size_t workspace_bytes(const Operand& x, int64_t unit = 1);

// The copies that bring an operand to another place: one for each index of the dimensions that a MatrixCopy
// does not have.
size_t count_of_copies(const Operand& from);
std::vector<MatrixCopy> copies_of(const Operand& from, const Operand& to);

// The argument for a tensor map of the columns and of all outer dimensions, or the first `outer` of them.
runtime::Argument tensor(const Operand& x, size_t outer = Operand::kMostOuter);

}  // namespace ptxbuilder::kernels
