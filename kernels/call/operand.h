// One operand of a call, as it is stored in device memory, and the rules for operands that all operations
// share.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/call/copy_matrix.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// Rows of `columns` contiguous elements, and up to four outer dimensions, as in a tensor map. All strides are
// set, in elements.
struct Operand {
  struct Dimension {
    const char* word = "";  // the word for one index in errors: "row", "head", "batch"
    int64_t extent = 1, stride = 0;
    bool overlaps = false;  // each index may extend beyond the start of the next
  };
  static constexpr size_t kMostOuter = runtime::Argument::kMaxRank - 1;

  const char* name = "";  // "A"
  DType type = DType::bf16;
  runtime::View memory = {};  // from the first element to the end of the accessible memory
  int64_t columns = 0;
  size_t outer_count = 0;
  std::array<Dimension, kMostOuter> outer = {};  // innermost first

  int element_bytes() const { return size_of(type); }
  bool is_empty() const;
  // Returns whether a tensor map can describe the operand in place: the address and all strides that are used
  // are multiples of 16 bytes.
  bool aligned_for_tma() const;
};

inline constexpr int64_t kTma = 16;                      // bytes: TMA requires multiples of this
inline constexpr int64_t kStrideEnd = int64_t{1} << 40;  // bytes, exclusive: the end of strides in tensor
                                                         // maps
inline constexpr int64_t kPartAlignment = 256;           // bytes: the alignment of each part of a workspace
constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Returns `count` contiguous elements, such as a bias, factors or offsets.
Operand one_row(const char* name, DType type, runtime::View memory, int64_t count);

// Returns count * stride or, if that exceeds 64 bits, a stride that check_memory() rejects.
int64_t stride_of(int64_t count, int64_t stride);

// Returns the bytes from the first element to the end of the last one; 0 if the operand is empty.
__int128 extent_bytes(const Operand& x);

// Returns whether two operands may share a byte. They do not if one ends before the other begins, or if both
// consist of equal steps within which each has its own part, like columns of one larger matrix, heads of a
// row, or planes of a batch. Other interleaved operands are treated as sharing bytes.
bool may_share(const Operand& x, const Operand& y);

// Returns whether each element of one operand has the same address as that of the other, if their extents are
// equal.
bool same_place(const Operand& x, const Operand& y);

// The functions below throw Error that begins with `operation`, such as "matmul", and names the operand, the
// rule and the value.

// Throws if a stride is shorter than a row or reaches 2^40 bytes, if the address is not a multiple of an
// element, or if the operand exceeds its memory. An empty operand may have any address.
void check_memory(const char* operation, const Operand& x, Where where);
// Does the same for one_row(), with a shorter message.
void check_row(const char* operation, const Operand& x, Where where);
// Throws if an operand with elements has the address 0, which workspace_bytes() accepts but a launch does
// not.
void check_address(const char* operation, const Operand& x, Where where);
// Throws if rows of an operand that is written overlap each other.
void check_no_self_overlap(const char* operation, const Operand& x, Where where);
// Throws if `written` may share memory with `other`, which is read or also written.
void check_apart(const char* operation, const Operand& written, const Operand& other, bool is_read,
                 Where where);
// Throws if a call needs `bytes` of workspace, and `given` is smaller, is not at a multiple of 16, or may
// share memory with one of `others`.
void check_workspace(const char* operation, runtime::View given, size_t bytes,
                     std::span<const Operand* const> others, Where where);

// Returns the operand that describes a copy which TMA can access: rows of a multiple of `unit` elements, at
// multiples of 16 bytes, and nested dimensions without gaps. Its address is 0, and its memory has the size of
// the copy.
Operand padded(const Operand& x, int64_t unit = 1);
// Returns the bytes of padded() in a workspace.
size_t workspace_bytes(const Operand& x, int64_t unit = 1);

// Returns the copies that move an operand to another place: one for each index of the dimensions that a
// MatrixCopy does not have.
size_t count_of_copies(const Operand& from);
std::vector<MatrixCopy> copies_of(const Operand& from, const Operand& to);

// Returns the argument for a tensor map of the columns and of the first `outer` outer dimensions.
runtime::Argument tensor(const Operand& x, size_t outer = Operand::kMostOuter);

}  // namespace ptxbuilder::kernels
