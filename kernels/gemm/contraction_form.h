// Turns a contraction by name into a product: finds which modes are rows, columns, depth and batches, which
// modes can be merged, and which tensors TMA cannot access in place.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/product_modes.h"

namespace ptxbuilder::kernels {

enum class ContractionOperand : uint8_t { a, b, d };

// A tensor's extents and strides, in elements, outermost first, in the order of its subscripts.
struct TensorForm {
  DType type = DType::bf16;
  std::vector<int64_t> extents, strides;
  bool is_aligned = true;  // the tensor begins at a multiple of 16 bytes
  bool operator==(const TensorForm&) const = default;
};
// The tensors are in the order of ContractionOperand.
using ContractionTensors = std::array<TensorForm, 3>;

// A copy of an operand, to memory without gaps before the product, or from that memory after it. Each mode
// has a stride in the caller's tensor and one in the copy.
struct ContractionCopy {
  struct Mode {
    int64_t extent, given, near;
  };
  ContractionOperand operand;
  std::vector<Mode> modes;
  int64_t elements = 0;  // number of elements in the copy, including row padding
  std::string reason;    // "a stride of 3 elements along 'm', ..."
};

// A contraction as a product. If `exchanged`, A is the caller's B and B the caller's A. Copied operands have
// the strides of their copies.
struct ContractionForm {
  bool exchanged = false;
  bool a_k_major = true, b_k_major = true;
  ProductModes modes;
  std::vector<ContractionCopy> copies;
  bool is_empty = false;  // D has no elements
  // Returns whether each of the four axes has at most one mode, so that the product is one of matrices.
  bool is_plain() const;
  // A description such as "m of 'ab' in boxes of 16 x 8, n of 'c', k of 'k'; A is copied: ...".
  std::string text;
};

// Finds the form. `subscripts` have a letter for each mode of A, of B and, after "->", of D, such as
// "mbk,nbk->mnb". Letters in A, B and D are batches; letters in A and B only are summed over. With `is_zero`,
// A and B have no effect, as when alpha is 0. Throws Error for what no form supports, and Error that names
// the mode and its extents if a mode occurs twice in a tensor, occurs in only one tensor, or has different
// extents in different tensors.
ContractionForm contraction(std::string_view subscripts, const ContractionTensors& tensors,
                            bool is_zero = false, Where where = Where::here());

}  // namespace ptxbuilder::kernels
