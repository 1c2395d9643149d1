// This is an all-reduce of several ranks with a residual and an RMS norm, as one call on the host of each.
//
//   RankedNorm norm(*device);
//   RankedNormArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // as many bytes as memory_bytes() says, zeros at first
//   p.x = p.residual = p.y = p.new_residual = {DType::bf16, {8, 4096}};
//   p.x.memory = x, p.residual->memory = p.new_residual.memory = residual, p.y.memory = y;  // in place
//   norm(p);  // queued; the other ranks make the same call
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/rows/rows.h"

namespace ptxbuilder::kernels {

// It computes new_residual = the sum of all ranks' x, in the order of ranks, + residual, and y = its RMS norm
// * weight: the same bits on all ranks where they give the same residual and weight. Tensors are as those of
// rms_norm in Rows, at multiples of 16 bytes or, where the adjacent columns have fewer bytes, at multiples of
// those.
struct RankedNormArguments {
  int rank = 0;
  // Ranks exchange rows through this memory of each rank, at the addresses where this one's kernels reach it.
  // All have the same amount, and no other operation uses it. Calls that may run at once each need their own.
  // Before the first call all of it that kExchangeBytes covers is zeros.
  std::vector<runtime::View> memory = {};
  RowOperand x;
  std::optional<RowOperand> residual = {}, weight = {};
  RowOperand y, new_residual;
  float epsilon = 1e-6F;
  int multiprocessors = 0;  // The launch takes this many, the same on all ranks; 0 means all of the device's.
  runtime::Stream stream = {};
};

// It keeps kernels, and must not outlive its device. Any thread may call it at any time.
class RankedNorm {
 public:
  explicit RankedNorm(runtime::Device& device, const CallOptions& options = {});
  ~RankedNorm();

  // It gives the bytes of exchange memory that each rank has for x of so many bytes at most.
  static size_t memory_bytes(int ranks, size_t bytes);

  // It queues one call. All ranks have to come to it, with the same sizes, on GPUs of one kind, and with
  // their memory reachable: Device::reach() in one process, or memory that a process group shares. Throws
  // Error that names the tensor, the rule and the value.
  void operator()(const RankedNormArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
