// An operation on the rows of a matrix is its tensors, its numbers, and the kernel that computes it.
// This is all that the call on the host, C, Python, PyTorch and JAX know of it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rows/tile.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A tensor of an operation. Its extents are words, outermost first: tensors that share a word share that
// extent, and the kernel has it as a u32 of that name. "columns" are those that a row's threads share.
struct RowTensor {
  // The element type of a tensor.
  enum class Type : uint8_t {
    any,       // f16, bf16 or f32, its own
    of_first,  // that of the operation's first tensor
    number,    // f32
    integer,   // s32 or s64
    e4m3,
    of_first_or_e4m3
  };
  // An operation reads, writes or updates a tensor.
  enum class Use : uint8_t {
    read,
    read_if_given,
    written,
    written_if_given,
    updated  // in place: what the operation does not write stays as it was
  };

  std::string name;
  std::vector<std::string> shape;  // "row_blocks" and "column_blocks" are of 128, the last of what is left
  Type type = Type::of_first;
  Use use = Use::read;
  std::string meaning;
  // It says that a result [columns] sums over rows: the kernel gets an f32 [parts, columns] in its place, of
  // which each group of CTAs that shares a row writes its own sums. Another kernel adds them up.
  bool is_summed = false;
  // An index counts rows of a tensor that has these extents, as its row-major number.
  std::vector<std::string> counts = {};
  std::string goes_with = {};  // a tensor that is left out: then this one is, and else given

  bool is_written() const { return use == Use::written || use == Use::written_if_given || is_updated(); }
  bool is_updated() const { return use == Use::updated; }
  bool is_optional() const { return use == Use::read_if_given || use == Use::written_if_given; }
  bool has_columns() const { return std::find(shape.begin(), shape.end(), "columns") != shape.end(); }
};

// This is a number that a call gives, of f32.
struct RowNumber {
  std::string name;
  float unsaid;
  std::string meaning;
};

struct RowProblem;

// An operation on rows, from which everything else follows.
struct RowOperation {
  std::string name;
  std::string summary;
  std::vector<RowTensor> tensors;  // the first gives the sizes of a row
  std::vector<RowNumber> numbers = {};
  RowLimits limits = {};
  bool reduces = true;  // some number of a row is of all of it
  bool is_of_rows =
      true;  // a row's threads have all of it: else the tile says how wide accesses are, and no more
  Kernel (*build)(const RowProblem&) = nullptr;
  bool stays = false;  // CTAs stay and take rows in turn, as those of a result that is summed do.

  // It gives the extents' words, in the order of their first use.
  std::vector<std::string> sizes() const;
  bool has_sums() const;
  bool takes_turns() const { return stays || has_sums(); }
};

// A kernel of an operation is made by the types of the tensors that are given, and by how a row is spread.
struct RowProblem {
  const RowOperation* operation;
  std::vector<std::optional<DType>> types;  // by tensor; none of one that is not given
  RowTile tile;
};

// They give every operation, and one by its name. Throws Error that lists the names.
const std::vector<RowOperation>& row_operations();
const RowOperation& row_operation(std::string_view name);

}  // namespace ptxbuilder::kernels
