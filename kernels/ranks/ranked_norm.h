// An all-reduce over several ranks with a residual and an RMS norm, as one call on each rank's host.
//
//   RankedNorm norm(*device);
//   RankedNormArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // each of memory_bytes(), initially zero
//   p.x = p.residual = p.y = p.new_residual = {DType::bf16, {8, 4096}};
//   p.x.memory = x, p.residual->memory = p.new_residual.memory = residual, p.y.memory = y;  // in place
//   norm(p);  // queued; the other ranks make the same call
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/rows/rows.h"

namespace ptxbuilder::kernels {

// Computes new_residual = the sum of all ranks' x, in the order of ranks, + residual, and y = its RMS norm *
// weight, with the same bits on all ranks if their residuals and weights are the same. Tensors are like those
// of rms_norm in Rows. They begin at multiples of 16 bytes or, if the contiguous columns have fewer bytes, at
// multiples of that number.
struct RankedNormArguments {
  int rank = 0;
  // The memory through which ranks exchange rows, for each rank, at the addresses that this rank's kernels
  // use. All ranks' memories have the same size, and no other operation uses them. Calls that may run at the
  // same time each need their own. Before the first call, the first kExchangeBytes must be zero.
  std::vector<runtime::View> memory = {};
  RowOperand x;
  std::optional<RowOperand> residual = {}, weight = {};
  RowOperand y, new_residual;
  float epsilon = 1e-6F;
  int multiprocessors = 0;  // SMs that a launch uses, the same on all ranks; 0: all of the device's
  runtime::Stream stream = {};
};

// Stores kernels, and must not outlive its device. Any thread may call it at any time.
class RankedNorm {
 public:
  explicit RankedNorm(runtime::Device& device, const CallOptions& options = {});
  ~RankedNorm();

  // Returns the bytes of exchange memory that each rank needs if x has at most `bytes` bytes.
  static size_t memory_bytes(int ranks, size_t bytes);

  // Queues one call. All ranks must make it with the same sizes, on GPUs of the same kind, and must be able
  // to access each other's memory: through Device::reach() in one process, or as memory that a process group
  // shares. Throws Error that names the tensor, the rule and the value.
  void operator()(const RankedNormArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
