// Runs any operation on the rows of a matrix as one call on the host: y = rms_norm(x), and the other
// operations in operations.h.
//
//   kernels::Rows rows(*device);
//   kernels::RowCall call{.operation = &kernels::row_operation("softmax")};
//   call.tensors = {{{DType::bf16, {1000, 4096}, x}}, {{DType::bf16, {1000, 4096}, y}}};
//   rows(call);  // queued
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/call/options.h"
#include "kernels/rows/operation.h"
#include "runtime/buffer.h"
#include "runtime/device.h"

namespace ptxbuilder::kernels {

// A tensor with its extents, outermost first. Only tensors that the operation's table lists as strided may
// have gaps.
struct RowOperand {
  DType type = DType::bf16;
  std::vector<int64_t> extents;
  runtime::View memory;
  std::vector<int64_t> strides = {};  // in elements; empty: there are no gaps

  // Returns the number of elements from one index of a dimension to the next.
  int64_t stride(size_t dimension) const {
    if (!strides.empty()) return strides[dimension];
    int64_t compact = 1;
    for (size_t d = dimension + 1; d < extents.size(); ++d) compact *= extents[d];
    return compact;
  }
};

// A call of an operation, with an entry for each tensor in the operation's table, in that order, and a value
// for each of its numbers. Extents before those of the table are counted as rows. A result may overwrite an
// input that the same threads read, element by element, as y may overwrite x; otherwise results must not
// overlap any other tensor.
struct RowCall {
  const RowOperation* operation = nullptr;
  std::vector<std::optional<RowOperand>> tensors;
  std::vector<float> numbers = {};  // if empty, the table's defaults
  runtime::View workspace = {};
  runtime::Stream stream = {};
};

// Runs operations on rows. Any thread may call it at any time. Throws Error that begins with the operation's
// name, and names the tensor and the rule that it violates.
class Rows {
 public:
  explicit Rows(runtime::Device& device, const CallOptions& options = {});
  ~Rows();

  void operator()(const RowCall& call, Where where = Where::here());
  // Returns the bytes of workspace, which operations that sum over rows need for the sums of each group of
  // CTAs. Compiles the kernel.
  size_t workspace_bytes(const RowCall& call, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
