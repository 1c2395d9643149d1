// A contraction by name becomes a product: this finds which modes are rows, columns, depth and batches, which
// modes fold into one, and which tensors TMA does not take as they are.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/product_modes.h"

namespace ptxbuilder::kernels {

enum class ContractionOperand : uint8_t { a, b, d };

// A tensor's extents and its strides, in elements, outermost first, in the order of its subscripts.
struct TensorForm {
  DType type = DType::bf16;
  std::vector<int64_t> extents, strides;
  bool is_aligned = true;  // it begins at a multiple of 16 bytes
  bool operator==(const TensorForm&) const = default;
};
// The tensors are in the order of ContractionOperand.
using ContractionTensors = std::array<TensorForm, 3>;

// An operand that is copied to memory without gaps before the product, or from that memory after it. Each
// mode has a stride in the caller's tensor and one in the copy.
struct ContractionCopy {
  struct Mode {
    int64_t extent, given, near;
  };
  ContractionOperand operand;
  std::vector<Mode> modes;
  int64_t elements = 0;  // of the copy, including the padding of its rows
  std::string reason;    // "a stride of 3 elements along 'm', ..."
};

// A contraction as a product, whose A is the caller's B if the operands are `exchanged`. Copied operands have
// the strides of their copies.
struct ContractionForm {
  bool exchanged = false;
  bool a_k_major = true, b_k_major = true;
  ProductModes modes;
  std::vector<ContractionCopy> copies;
  bool is_empty = false;  // D has no elements
  // Returns whether each of the four axes has at most one mode, so that this is a product of matrices.
  bool is_plain() const;
  // "m of 'ab' in boxes of 16 x 8, n of 'c', k of 'k'; A is copied: ...".
  std::string text;
};

// `subscripts` have a letter for each mode of A, of B and, after "->", of D, such as "mbk,nbk->mnb". Letters
// of both A and B that D also has are batches, and other letters of both are summed over. Throws Error that
// names the mode and its extents for a mode that occurs twice in a tensor, only in one tensor, or with other
// extents elsewhere, and for what no form takes. With `is_zero`, A and B have no effect, as when alpha is 0.
ContractionForm contraction(std::string_view subscripts, const ContractionTensors& tensors,
                            bool is_zero = false, Where where = Where::here());

}  // namespace ptxbuilder::kernels
