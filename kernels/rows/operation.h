// Describes an operation on the rows of a matrix by its tensors, its numbers, and the kernel that computes
// it. The host call and the bindings for C, Python, PyTorch and JAX are generated from this description.
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

// A tensor of an operation. `shape` names its extents, outermost first. Tensors with the same name have the
// same extent, and the kernel has a u32 parameter with this name. The threads that share a row divide the
// extent "columns".
struct RowTensor {
  // The element types that a tensor may have.
  enum class Type : uint8_t {
    any,       // f16, bf16 or f32, regardless of other tensors
    of_first,  // the type of the first tensor
    number,    // f32
    integer,   // s32 or s64
    e4m3,
    of_first_or_e4m3,
    bytes  // u8
  };
  // Determines how the operation uses a tensor.
  enum class Use : uint8_t {
    read,
    read_if_given,
    written,
    written_if_given,
    updated  // updated in place; elements that are not written keep their values
  };

  std::string name;
  std::vector<std::string>
      shape;  // "row_blocks" and "column_blocks" count blocks of 128; the last block may be smaller
  Type type = Type::of_first;
  Use use = Use::read;
  std::string meaning;
  // If true, the tensor is a result [columns] that is summed over rows. The kernel gets an f32 tensor [parts,
  // columns] in its place. Each group of CTAs that shares rows writes its own sums as a part, and another
  // kernel adds up the parts.
  bool is_summed = false;
  // The extents of the tensor whose rows this tensor numbers, in row-major order, if this tensor is an index.
  // Empty for other tensors.
  std::vector<std::string> counts = {};
  std::string goes_with = {};  // name of another tensor; either both are given or neither is
  // The outermost dimensions that may have gaps. Each string names one item along the dimension, such as
  // "page". The kernel gets the strides, in elements, as u64 parameters stride_name(). The other dimensions
  // have no gaps.
  std::vector<std::string> strided = {};

  bool is_written() const { return use == Use::written || use == Use::written_if_given || is_updated(); }
  bool is_updated() const { return use == Use::updated; }
  bool is_optional() const { return use == Use::read_if_given || use == Use::written_if_given; }
  // Returns the name of the parameter that holds the stride of entry `dimension` of `strided`.
  std::string stride_name(size_t dimension) const { return name + "_" + strided[dimension] + "_stride"; }
  bool has_columns() const { return std::find(shape.begin(), shape.end(), "columns") != shape.end(); }
};

// An f32 number that a call passes. `unsaid` is the default.
struct RowNumber {
  std::string name;
  float unsaid;
  std::string meaning;
};

struct RowProblem;

// An operation on rows.
struct RowOperation {
  std::string name;
  std::string summary;
  std::vector<RowTensor> tensors;  // the first tensor determines the sizes of a row
  std::vector<RowNumber> numbers = {};
  std::vector<std::pair<std::string, int64_t>> fixed = {};  // extents with a fixed value
  RowLimits limits = {};
  bool reduces = true;     // true: some result depends on an entire row, so its parts have to be exchanged
  bool is_of_rows = true;  // true: the threads that share a row hold all of it; false: the tile determines
                           // only the width of accesses
  Kernel (*build)(const RowProblem&) = nullptr;
  bool stays = false;  // true: CTAs stay resident and process several rows, one after the other; implied by
                       // summed results

  // Returns the names of all extents, in the order of their first use.
  std::vector<std::string> sizes() const;
  std::optional<int64_t> fixed_extent(const std::string& word) const;
  bool has_sums() const;
  bool takes_turns() const { return stays || has_sums(); }
};

// The input for building a kernel, which consists of the operation, the types of the tensors, and the
// distribution of rows over threads.
struct RowProblem {
  const RowOperation* operation;
  std::vector<std::optional<DType>>
      types;  // in the order of the operation's tensors; nullopt for omitted tensors
  RowTile tile;
};

// row_operations() returns all operations, and row_operation() returns the operation with the given name. If
// there is none, it throws an Error that lists the names.
const std::vector<RowOperation>& row_operations();
const RowOperation& row_operation(std::string_view name);

}  // namespace ptxbuilder::kernels
