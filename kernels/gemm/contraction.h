// Contracts two tensors over named modes in one call on the host. The call computes a product whose operands
// have several modes.
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
  runtime::View memory = {};  // begins at the first element and ends where the accessible memory ends
  DType type = DType::bf16;
  std::vector<int64_t> extents = {};  // outermost first
  std::vector<int64_t> strides = {};  // in elements; empty: row-major without gaps
};

// D is alpha times the sum of A B over the modes that are in A and B but not in D, rounded once.
// contraction_form.h defines `subscripts`. The types are those that MatmulArguments allows.
//
// Placement: among the modes of rows, of columns, of depth and of batches, those whose strides allow it are
// merged. The remaining modes become dimensions of a tensor map, which has up to five; a tile then extends
// along two modes and is cut off at the end of each. TMA requires one mode without gaps, and strides that are
// multiples of 16 bytes. A tensor that violates this, or whose modes would leave tiles half empty, is copied
// once. A or B is copied into the workspace, and D out of it. explain() reports which tensors are copied, and
// why.
struct ContractionArguments {
  std::string subscripts;
  ContractionTensor a = {}, b = {}, d = {};
  float alpha = 1;
  bool fast_accumulation = true;  // see MatmulArguments
  runtime::View workspace =
      {};  // begins at a multiple of 16 bytes; may not be used until the call has finished
  runtime::Stream stream = {};
};

// Computes contractions, and caches their forms and kernels. The object must not outlive its device. Any
// thread may call it at any time.
class Contraction {
 public:
  explicit Contraction(runtime::Device& device, MatmulOptions options = {});
  ~Contraction();
  Contraction(Contraction&&) noexcept;
  Contraction& operator=(Contraction&&) noexcept;

  // Queues one contraction on the device. Throws an Error that names the mode, its extents and the violated
  // rule.
  void operator()(const ContractionArguments& arguments, Where where = Where::here());
  size_t workspace_bytes(const ContractionArguments& arguments, Where where = Where::here());
  // Returns one line that lists the modes that are rows, columns, depth and batches, and shows how tiles
  // extend along them, which tile is used, and which tensors are copied and why.
  std::string explain(const ContractionArguments& arguments, Where where = Where::here());
  // Finds the fastest tile, as Matmul::tune() does.
  void tune(const ContractionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
