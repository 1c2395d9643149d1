// The gradients of attention, in one call on the host.
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

// Computes dQ, dK and dV of what Attention computes. `grad` is the gradient of O; lse must be given, too. dK
// and dV of a head of keys are the sums over the query heads that share it. If a query sees no key, its row
// of dQ is 0; if no query sees a key, its rows of dK and dV are 0. lse may have a gradient, too: the results
// are then the gradients of everything that depends on O and on lse. Gradients of sinks are computed if
// requested. The user's own scores are set in AttentionGradientOptions. With packed sequences, a NaN or an
// infinity in the first rows of a sequence, in any tensor, may affect the previous sequence.
//
// The order in which blocks of keys are added to dQ is fixed only if the call is `deterministic`. Otherwise
// two runs may differ in the last bits of dQ.
//
// Aliasing: dQ, dK, dV and dsinks must not overlap anything. Placement follows the rules of Attention.
struct AttentionGradientArguments : AttentionArguments {
  DeviceHeads grad = {}, dq = {}, dk = {}, dv = {};  // placed like O, Q, K and V
  runtime::View lse_grad = {};  // f32, with the shape of lse; without memory, lse has no gradient
  runtime::View dsinks = {};    // f32, with the shape of sinks; without memory, it is not computed
  bool deterministic = false;
};

// The options of an AttentionGradient, which apply to all of its calls.
struct AttentionGradientOptions : CallOptions {
  AttentionScore score = {};  // applied in all calls, as in AttentionOptions, with its gradient
};

// Stores kernels like Attention. A call uses three kernels, or four if it computes the gradient of sinks. The
// workspace of a call holds, for each row of queries of each head, a sum for each column and two numbers, all
// f32. Any thread may call it at any time, and several threads may do so at once.
class AttentionGradient {
 public:
  // Throws Error if the options name a ptxas that does not exist. Calls are not tuned.
  explicit AttentionGradient(runtime::Device& device, AttentionGradientOptions options = {});
  ~AttentionGradient();
  AttentionGradient(AttentionGradient&&) noexcept;
  AttentionGradient& operator=(AttentionGradient&&) noexcept;

  // Queues the call on the device. Throws Error that names the operand, the rule and the value.
  void operator()(const AttentionGradientArguments& arguments, Where where = Where::here());
  // Returns the bytes of workspace that the call needs. Throws Error as the call does.
  size_t workspace_bytes(const AttentionGradientArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
