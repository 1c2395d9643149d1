// A contraction by name becomes a product: this finds which modes are rows, columns, depth and batches, which
// of them fold into one, and what TMA does not take as it is.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/product_modes.h"

namespace ptxbuilder::kernels {

enum class ContractionOperand : uint8_t { a, b, d };

// A tensor has extents and strides in elements, outermost first as they are written.
struct TensorForm {
  DType type = DType::bf16;
  std::vector<int64_t> extents, strides;
  bool is_aligned = true;  // it begins at a multiple of 16 bytes
  bool operator==(const TensorForm&) const = default;
};
// They are in the order of ContractionOperand.
using ContractionTensors = std::array<TensorForm, 3>;

// An operand that is copied to memory without gaps before the product, or from there after it. Its modes
// have a stride where it is and one in the copy.
struct ContractionCopy {
  struct Mode {
    int64_t extent, given, near;
  };
  ContractionOperand operand;
  std::vector<Mode> modes;
  int64_t elements = 0;  // of the copy, with what fills up its rows
  std::string reason;    // "a stride of 3 elements along 'm', ..."
};

// A contraction as a product, whose A is the caller's B where they are `exchanged`. Copied operands have the
// strides of their copies.
struct ContractionForm {
  bool exchanged = false;
  bool a_k_major = true, b_k_major = true;
  ProductModes modes;
  std::vector<ContractionCopy> copies;
  bool is_empty = false;  // D has no element
  // Each of the four axes has one mode at most, so that it is a product of matrices.
  bool is_plain() const;
  // "m of 'ab' in boxes of 16 x 8, n of 'c', k of 'k'; A is copied: ...".
  std::string text;
};

// `subscripts` are a letter for each mode of A, of B and, after "->", of D, as "mbk,nbk->mnb". Letters of
// both A and B that D has too are batches, and others of both are summed over. Throws Error that names the
// mode and its extents: of a mode twice in a tensor, in one tensor alone, of other extents elsewhere, and of
// what no form takes. With `is_zero` nothing of A and B counts, as where alpha is 0.
ContractionForm contraction(std::string_view subscripts, const ContractionTensors& tensors,
                            bool is_zero = false, Where where = Where::here());

}  // namespace ptxbuilder::kernels
