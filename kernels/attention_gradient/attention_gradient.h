// Computes the gradients of attention in one call on the host.
//
//   AttentionGradient gradient(*device);
//   AttentionGradientArguments p;
//   p.batches = 2, p.heads = 32, p.key_heads = 8, p.queries = p.keys = 4096, p.depth = 128;
//   p.q.memory = q, p.k.memory = k, p.v.memory = v, p.o.memory = o;  // the same as for Attention
//   p.lse = lse, p.causal = true;
//   p.grad.memory = grad;                                  // like O
//   p.dq.memory = dq, p.dk.memory = dk, p.dv.memory = dv;  // like Q, K and V
//   workspace = runtime::Buffer(*device, gradient.workspace_bytes(p));
//   p.workspace = workspace;
//   gradient(p);  // queued
#pragma once

#include <memory>

#include "kernels/attention/attention.h"
#include "kernels/attention_gradient/kernel.h"

namespace ptxbuilder::kernels {

// The arguments of a backward pass, which computes dQ, dK and dV from the arguments and results of Attention.
// `grad` is the gradient of O, and lse must be given. dK and dV of a head of keys are summed over the query
// heads that share it. If a query sees no key, its row of dQ is 0; if no query sees a key, the key's rows of
// dK and dV are 0. If lse_grad is given, the results include the effect of Q, K and V on lse. Gradients of
// sinks are computed if dsinks is given. A user's function for scores is set in AttentionGradientOptions. If
// sequences are packed, a NaN or an infinity in the first rows of a sequence, in any tensor, may affect the
// previous sequence.
//
// Blocks of keys are added to dQ in a fixed order only if the call is `deterministic`. Otherwise, two runs
// may differ in the last bits of dQ.
//
// Aliasing: dQ, dK, dV and dsinks must not overlap each other or any other operand. Placement follows the
// rules of Attention.
struct AttentionGradientArguments : AttentionArguments {
  DeviceHeads grad = {}, dq = {}, dk = {}, dv = {};  // have the shapes of O, Q, K and V
  runtime::View lse_grad = {};  // f32, with the shape of lse; no memory: lse has no gradient
  runtime::View dsinks = {};    // f32, with the shape of sinks; no memory: not computed
  bool deterministic = false;
};

// The options of an AttentionGradient, which apply to all of its calls.
struct AttentionGradientOptions : CallOptions {
  AttentionScore score = {};  // the score of AttentionOptions, with its gradient; applied in all calls
};

// Computes the gradients of attention, and caches kernels like Attention. A call launches three kernels, or
// four if it computes the gradient of sinks. Its workspace holds, for each row of queries of each head, a sum
// for each column and two numbers, all in f32. Any thread may call this object at any time, and several
// threads may call it at once.
class AttentionGradient {
 public:
  // Throws an Error if the options name a ptxas that does not exist. Calls are not tuned.
  explicit AttentionGradient(runtime::Device& device, AttentionGradientOptions options = {});
  ~AttentionGradient();
  AttentionGradient(AttentionGradient&&) noexcept;
  AttentionGradient& operator=(AttentionGradient&&) noexcept;

  // Queues the call on the device. Throws an Error that names the operand, the violated rule and the value.
  void operator()(const AttentionGradientArguments& arguments, Where where = Where::here());
  // Returns the size of the workspace that the call needs, in bytes. Throws an Error if operator() would.
  size_t workspace_bytes(const AttentionGradientArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
