// Computes an all-reduce over several ranks with a residual and an RMS norm, in one call on the host of each
// rank.
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

// The arguments of a call, which computes new_residual = the sum of x over all ranks, in the order of ranks,
// plus residual, and y = the RMS norm of new_residual times weight. All ranks get the same bits if their
// residuals and weights are the same. Tensors are those of rms_norm (Rows). They must begin at multiples of
// 16 bytes or, if the contiguous columns have fewer bytes, at multiples of that number.
struct RankedNormArguments {
  int rank = 0;
  // The exchange memory of each rank, at the addresses that this rank's kernels use to access it. All must
  // have the same size, and no other operation may use them. Calls that may run at the same time need
  // separate memory. Before the first call, the first kExchangeBytes bytes must be zero.
  std::vector<runtime::View> memory = {};
  RowOperand x;
  std::optional<RowOperand> residual = {}, weight = {};
  RowOperand y, new_residual;
  float epsilon = 1e-6F;
  int multiprocessors = 0;  // SMs that a launch uses, the same number on all ranks; 0: all
  runtime::Stream stream = {};
};

// Computes all-reduces with a norm, and caches the kernels. The object must not outlive its device. Any
// thread may call it at any time.
class RankedNorm {
 public:
  explicit RankedNorm(runtime::Device& device, const CallOptions& options = {});
  ~RankedNorm();

  // Returns the size in bytes of the exchange memory that each rank needs if x has at most `bytes` bytes.
  static size_t memory_bytes(int ranks, size_t bytes);

  // Queues one call. All ranks must make this call with the same sizes, on GPUs of the same kind. They must
  // be able to access each other's memory: within one process through Device::reach(), or as memory that a
  // process group shares. Throws an Error that names the tensor, the violated rule and the value.
  void operator()(const RankedNormArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
