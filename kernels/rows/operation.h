// An operation on the rows of a matrix: its tensors, its numbers, and the kernel that computes it. The call
// on the host, C, Python, PyTorch and JAX use only this description.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/rows/tile.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A tensor of an operation. Its extents are words, outermost first. Tensors that share a word share that
// extent, and the kernel has a u32 parameter of that name. The threads of a row divide its "columns".
struct RowTensor {
  // The element type of a tensor.
  enum class Type : uint8_t {
    any,       // f16, bf16 or f32, independent of others
    of_first,  // the type of the operation's first tensor
    number,    // f32
    integer,   // s32 or s64
    e4m3,
    of_first_or_e4m3,
    bytes  // u8
  };
  // The way in which an operation uses a tensor.
  enum class Use : uint8_t {
    read,
    read_if_given,
    written,
    written_if_given,
    updated  // in place: elements that are not written keep their values
  };

  std::string name;
  std::vector<std::string> shape;  // "row_blocks" and "column_blocks" are blocks of 128; the last block may
                                   // be smaller
  Type type = Type::of_first;
  Use use = Use::read;
  std::string meaning;
  // The result [columns] is a sum over rows. Instead of it, the kernel gets an f32 [parts, columns], into
  // which each group of CTAs that shares a row writes its own sums, and another kernel adds up the parts.
  bool is_summed = false;
  // The values of an index are row numbers of a tensor with these extents, in row-major order.
  std::vector<std::string> counts = {};
  std::string goes_with = {};  // another tensor: either both are given or neither is
  // The outermost dimensions that may have gaps, each as the word for one index. The kernel gets each stride,
  // in elements, as a u64 named stride_name(). The other dimensions have no gaps.
  std::vector<std::string> strided = {};

  bool is_written() const { return use == Use::written || use == Use::written_if_given || is_updated(); }
  bool is_updated() const { return use == Use::updated; }
  bool is_optional() const { return use == Use::read_if_given || use == Use::written_if_given; }
  // Returns the name of the parameter that holds the stride of a dimension of `strided`.
  std::string stride_name(size_t dimension) const { return name + "_" + strided[dimension] + "_stride"; }
  bool has_columns() const { return std::find(shape.begin(), shape.end(), "columns") != shape.end(); }
};

// A number that a call passes, of type f32.
struct RowNumber {
  std::string name;
  float unsaid;
  std::string meaning;
};

struct RowProblem;

// An operation on rows; everything else follows from this description.
struct RowOperation {
  std::string name;
  std::string summary;
  std::vector<RowTensor> tensors;  // the first determines the sizes of a row
  std::vector<RowNumber> numbers = {};
  std::vector<std::pair<std::string, int64_t>> fixed = {};  // extents that have one value
  RowLimits limits = {};
  bool reduces = true;  // some number depends on an entire row
  bool is_of_rows =
      true;  // a row's threads hold all of it; otherwise the tile determines only the width of accesses
  Kernel (*build)(const RowProblem&) = nullptr;
  bool stays = false;  // CTAs stay and process rows in turn, as they do for a summed result

  // Returns the words of the extents, in the order of their first use.
  std::vector<std::string> sizes() const;
  std::optional<int64_t> fixed_extent(const std::string& word) const;
  bool has_sums() const;
  bool takes_turns() const { return stays || has_sums(); }
};

// The types of the given tensors and the distribution of rows for which a kernel of an operation is built.
struct RowProblem {
  const RowOperation* operation;
  std::vector<std::optional<DType>> types;  // indexed with the tensor; nullopt for one that is not given
  RowTile tile;
};

// Return all operations, and the operation with a name. The latter throws Error that lists the names.
const std::vector<RowOperation>& row_operations();
const RowOperation& row_operation(std::string_view name);

}  // namespace ptxbuilder::kernels
