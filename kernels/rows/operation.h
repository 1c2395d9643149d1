// An operation on the rows of a matrix is its tensors, its numbers, and the kernel that computes it.
// The call on the host, C, Python, PyTorch and JAX know nothing else about an operation.
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
// extent, and the kernel gets the extent as a u32 of that name. A row's threads divide its "columns".
struct RowTensor {
  // The element type of a tensor.
  enum class Type : uint8_t {
    any,       // f16, bf16 or f32, independent of others
    of_first,  // the type of the operation's first tensor
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
    updated  // in place: elements that are not written keep their values
  };

  std::string name;
  std::vector<std::string> shape;  // "row_blocks" and "column_blocks" have 128, the last one the rest
  Type type = Type::of_first;
  Use use = Use::read;
  std::string meaning;
  // A result [columns] sums over rows: instead of it, the kernel gets an f32 [parts, columns], into which
  // each group of CTAs that shares a row writes its own sums. Another kernel adds up the parts.
  bool is_summed = false;
  // The values of an index number the rows of a tensor with these extents, in row-major order.
  std::vector<std::string> counts = {};
  std::string goes_with = {};  // another tensor: this one is given if and only if that one is given
  // The outermost dimensions, each as the word for one element of it, may have gaps: the kernel gets each
  // stride, in elements, as a u64 of the name stride_name(). The other dimensions have no gaps.
  std::vector<std::string> strided = {};

  bool is_written() const { return use == Use::written || use == Use::written_if_given || is_updated(); }
  bool is_updated() const { return use == Use::updated; }
  bool is_optional() const { return use == Use::read_if_given || use == Use::written_if_given; }
  // Returns the name of the parameter with the stride of a dimension of `strided`.
  std::string stride_name(size_t dimension) const { return name + "_" + strided[dimension] + "_stride"; }
  bool has_columns() const { return std::find(shape.begin(), shape.end(), "columns") != shape.end(); }
};

// A number of a call, of type f32.
struct RowNumber {
  std::string name;
  float unsaid;
  std::string meaning;
};

struct RowProblem;

// An operation on rows; everything else follows from it.
struct RowOperation {
  std::string name;
  std::string summary;
  std::vector<RowTensor> tensors;  // the first determines the sizes of a row
  std::vector<RowNumber> numbers = {};
  RowLimits limits = {};
  bool reduces = true;  // some number depends on a whole row
  bool is_of_rows =
      true;  // a row's threads have all of it; otherwise the tile only determines the width of accesses
  Kernel (*build)(const RowProblem&) = nullptr;
  bool stays = false;  // CTAs stay and take rows in turn, as they do for a summed result.

  // Returns the words of the extents, in the order of their first use.
  std::vector<std::string> sizes() const;
  bool has_sums() const;
  bool takes_turns() const { return stays || has_sums(); }
};

// A kernel of an operation is built for the types of the given tensors and a distribution of rows.
struct RowProblem {
  const RowOperation* operation;
  std::vector<std::optional<DType>> types;  // by tensor; nullopt for one that is not given
  RowTile tile;
};

// These functions return all operations, and one by its name. The latter throws Error that lists the names.
const std::vector<RowOperation>& row_operations();
const RowOperation& row_operation(std::string_view name);

}  // namespace ptxbuilder::kernels
