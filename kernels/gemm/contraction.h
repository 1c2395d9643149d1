// A contraction of two tensors by name, as one call on the host: a product with the modes of the tensors.
//
//   Contraction contraction(*device);
//   ContractionArguments p{.subscripts = "mbk,nbk->mnb"};
//   p.a = {.memory = a, .type = DType::bf16, .extents = {300, 8, 64}};  // and strides, if there are gaps
//   p.b = ..., p.d = ...;
//   if (size_t bytes = contraction.workspace_bytes(p))
//     p.workspace = workspace = runtime::Buffer(*device, bytes);
//   contraction(p);  // queued
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/contraction_form.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

struct ContractionTensor {
  runtime::View memory = {};  // from the first element to the end of the accessible memory
  DType type = DType::bf16;
  std::vector<int64_t> extents = {};  // outermost first
  std::vector<int64_t> strides = {};  // in elements; if empty, the tensor is row-major and has no gaps
};

// D = alpha times the sum of A B over the modes that A and B have and D does not have, rounded once.
// `subscripts` are those of contraction_form.h. The types are those of MatmulArguments.
//
// Placement: modes of rows, columns, depth and batches whose strides allow it are merged. The others are
// dimensions of a tensor map, which has up to five; a tile then extends along two modes, and each mode ends
// separately. TMA requires one mode without gaps, and strides that are multiples of 16 bytes. A tensor that
// is placed otherwise, or whose modes would leave tiles half empty, is copied once: A or B into the
// workspace, D out of it. explain() says which tensors are copied, and why.
struct ContractionArguments {
  std::string subscripts;
  ContractionTensor a = {}, b = {}, d = {};
  float alpha = 1;
  bool fast_accumulation = true;  // as in MatmulArguments
  runtime::View workspace = {};   // at a multiple of 16; belongs to the call until the call has finished
  runtime::Stream stream = {};
};

// Stores the form of each contraction, and its kernels. It must not outlive its device. Any thread may call
// it at any time.
class Contraction {
 public:
  explicit Contraction(runtime::Device& device, MatmulOptions options = {});
  ~Contraction();
  Contraction(Contraction&&) noexcept;
  Contraction& operator=(Contraction&&) noexcept;

  // Queues one contraction on the device. Throws Error that names the mode, its extents and the rule.
  void operator()(const ContractionArguments& arguments, Where where = Where::here());
  size_t workspace_bytes(const ContractionArguments& arguments, Where where = Where::here());
  // Describes in one line which modes are rows, columns, depth and batches, how they are arranged in tiles,
  // the tile, and what is copied and why.
  std::string explain(const ContractionArguments& arguments, Where where = Where::here());
  // Tunes like Matmul::tune().
  void tune(const ContractionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
