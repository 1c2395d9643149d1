// Turns a contraction with named modes into a product. Determines which modes are rows, columns, depth and
// batches, which modes can be merged, and which tensors TMA cannot access in place.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/product_modes.h"

namespace ptxbuilder::kernels {

enum class ContractionOperand : uint8_t { a, b, d };

// The type, extents and strides of a tensor. Extents and strides are in elements, outermost mode first, in
// the order of the tensor's subscripts.
struct TensorForm {
  DType type = DType::bf16;
  std::vector<int64_t> extents, strides;
  bool is_aligned = true;  // true: the tensor begins at a multiple of 16 bytes
  bool operator==(const TensorForm&) const = default;
};
// The tensors A, B and D, indexed by ContractionOperand.
using ContractionTensors = std::array<TensorForm, 3>;

// A copy of an operand. A and B are copied to memory without gaps before the product, and D is copied from
// such memory after it. Each mode has a stride in the caller's tensor (`given`) and a stride in the copy
// (`near`).
struct ContractionCopy {
  struct Mode {
    int64_t extent, given, near;
  };
  ContractionOperand operand;
  std::vector<Mode> modes;
  int64_t elements = 0;  // elements in the copy, including the padding of rows
  std::string reason;    // "a stride of 3 elements along 'm', ..."
};

// A contraction, expressed as a product. If `exchanged`, the product's A is the caller's B, and its B is the
// caller's A. The strides of a copied operand are those of its copy.
struct ContractionForm {
  bool exchanged = false;
  bool a_k_major = true, b_k_major = true;
  ProductModes modes;
  std::vector<ContractionCopy> copies;
  bool is_empty = false;  // true: D has no elements
  // Returns whether each of the four axes has at most one mode, so that this is an ordinary product of
  // matrices.
  bool is_plain() const;
  // A description such as "m of 'ab' in boxes of 16 x 8, n of 'c', k of 'k'; A is copied: ...".
  std::string text;
};

// Returns the form of a contraction. `subscripts` holds a letter for each mode of A, of B and, after "->", of
// D, such as "mbk,nbk->mnb". A letter that A, B and D share is a batch mode; a letter that only A and B share
// is summed over. If `is_zero`, A and B have no effect (alpha is 0). Throws an Error if no form supports the
// contraction. Throws an Error that names a mode and its extents if the mode occurs twice in a tensor, occurs
// in only one tensor, or has different extents in different tensors.
ContractionForm contraction(std::string_view subscripts, const ContractionTensors& tensors,
                            bool is_zero = false, Where where = Where::here());

}  // namespace ptxbuilder::kernels
