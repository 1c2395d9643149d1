// Runs operations on the rows of a matrix, such as y = rms_norm(x), in one call on the host. operations.h
// lists the operations.
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

// A tensor of a call. Extents and strides are outermost first. A tensor may have gaps only along the
// dimensions of RowTensor::strided.
struct RowOperand {
  DType type = DType::bf16;
  std::vector<int64_t> extents;
  runtime::View memory;
  std::vector<int64_t> strides = {};  // in elements; empty: no gaps

  // Returns the stride of a dimension in elements.
  int64_t stride(size_t dimension) const {
    if (!strides.empty()) return strides[dimension];
    int64_t compact = 1;
    for (size_t d = dimension + 1; d < extents.size(); ++d) compact *= extents[d];
    return compact;
  }
};

// A call of an operation. `tensors` has an entry for each tensor of the operation, and `numbers` a value for
// each of its numbers, in the same order. If a tensor has more dimensions than the operation lists, the
// additional leading extents are counted as rows. A result may be at the same address as an input of the same
// shape and type, such as y at the address of x; otherwise, results must not overlap any other tensor.
struct RowCall {
  const RowOperation* operation = nullptr;
  std::vector<std::optional<RowOperand>> tensors;
  std::vector<float> numbers = {};  // empty: the defaults
  runtime::View workspace = {};
  runtime::Stream stream = {};
};

// Runs operations on rows. Any thread may call this object at any time. Errors begin with the name of the
// operation, and name the tensor and the rule that it violates.
class Rows {
 public:
  explicit Rows(runtime::Device& device, const CallOptions& options = {});
  ~Rows();

  void operator()(const RowCall& call, Where where = Where::here());
  // Returns the size of the workspace that the call needs, in bytes. Operations with summed results store the
  // sums of each group of CTAs in the workspace. This function compiles the kernel.
  size_t workspace_bytes(const RowCall& call, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
