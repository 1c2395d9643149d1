// Describes an operand of a call in device memory, and checks the rules that the operands of all operations
// must follow.
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
    const char* word = "";  // the word for an index in errors, such as "row", "head" or "batch"
    int64_t extent = 1, stride = 0;
    bool overlaps = false;  // the rows of an index may extend beyond the start of the next index
  };
  static constexpr size_t kMostOuter = runtime::Argument::kMaxRank - 1;

  const char* name = "";  // name in errors, such as "A"
  DType type = DType::bf16;
  runtime::View memory = {};  // from the first element to the end of the accessible memory
  int64_t columns = 0;
  size_t outer_count = 0;
  std::array<Dimension, kMostOuter> outer = {};  // innermost first

  int element_bytes() const { return size_of(type); }
  bool is_empty() const;
  // Returns whether a tensor map can describe the operand in place. Its address and all strides that are used
  // must be multiples of 16 bytes.
  bool aligned_for_tma() const;
};

inline constexpr int64_t kTma = 16;  // bytes: TMA requires addresses and strides that are multiples of this
inline constexpr int64_t kStrideEnd = int64_t{1} << 40;  // bytes: the strides of a tensor map must be below
                                                         // this
inline constexpr int64_t kPartAlignment = 256;           // bytes: the alignment of each part of a workspace
constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Returns an operand of `count` contiguous elements, such as a bias, factors or offsets.
Operand one_row(const char* name, DType type, runtime::View memory, int64_t count);

// Returns count * stride or, if that exceeds 64 bits, a stride that check_memory() rejects.
int64_t stride_of(int64_t count, int64_t stride);

// Returns the bytes from the first element to the end of the last element; 0 if the operand is empty.
__int128 extent_bytes(const Operand& x);

// Returns whether two operands may share a byte. They share none if one ends before the other begins. They
// also share none if both repeat with the same stride and occupy different parts of it, like columns of one
// larger matrix, heads of a row, or planes of a batch. Other interleaved operands are assumed to share bytes.
bool may_share(const Operand& x, const Operand& y);

// Returns whether corresponding elements of two operands have the same address; the extents of the operands
// must be equal.
bool same_place(const Operand& x, const Operand& y);

// If a rule is broken, the functions below throw an Error that begins with `operation`, such as "matmul", and
// names the operand, the rule and the value.

// Throws if a stride is shorter than a row or reaches 2^40 bytes, if the address is not a multiple of an
// element, or if the operand exceeds its memory. An empty operand may have any address.
void check_memory(const char* operation, const Operand& x, Where where);
// Works like check_memory() for the result of one_row(), with a shorter message.
void check_row(const char* operation, const Operand& x, Where where);
// Throws if an operand with elements has the address 0, which workspace_bytes() accepts but a launch does
// not.
void check_address(const char* operation, const Operand& x, Where where);
// Throws if rows of an operand that is written overlap each other.
void check_no_self_overlap(const char* operation, const Operand& x, Where where);
// Throws if `written` may share memory with `other`, which is read if `is_read` is true, and otherwise
// written.
void check_apart(const char* operation, const Operand& written, const Operand& other, bool is_read,
                 Where where);
// Throws if a call needs `bytes` of workspace, and `given` is smaller, is not at a multiple of 16, or may
// share memory with one of `others`.
void check_workspace(const char* operation, runtime::View given, size_t bytes,
                     std::span<const Operand* const> others, Where where);

// Returns the operand for a copy of `x` that TMA can access. The length of its rows is a multiple of `unit`
// elements, its rows begin at multiples of 16 bytes, and its outer dimensions are nested without gaps. Its
// address is 0, and its memory has the size of the copy.
Operand padded(const Operand& x, int64_t unit = 1);
// Returns the bytes of a workspace that padded(x, unit) occupies.
size_t workspace_bytes(const Operand& x, int64_t unit = 1);

// copies_of() returns the matrix copies that together copy the operand `from` to `to`. There is one for each
// index of the dimensions that a MatrixCopy does not have; count_of_copies() returns their number.
size_t count_of_copies(const Operand& from);
std::vector<MatrixCopy> copies_of(const Operand& from, const Operand& to);

// Returns the argument for a tensor map that covers the columns and the first `outer` outer dimensions.
runtime::Argument tensor(const Operand& x, size_t outer = Operand::kMostOuter);

}  // namespace ptxbuilder::kernels
