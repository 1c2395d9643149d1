// The gradients of attention in one call on the host.
//
//   AttentionGradient gradient(*device);
//   AttentionGradientArguments p;
//   p.batches = 2, p.heads = 32, p.key_heads = 8, p.queries = p.keys = 4096, p.depth = 128;
//   p.q.memory = q, p.k.memory = k, p.v.memory = v, p.o.memory = o;  // as Attention had them
//   p.lse = lse, p.causal = true;
//   p.grad.memory = grad;                                  // as O
//   p.dq.memory = dq, p.dk.memory = dk, p.dv.memory = dv;  // as Q, K and V
//   workspace = runtime::Buffer(*device, gradient.workspace_bytes(p));
//   p.workspace = workspace;
//   gradient(p);  // queued
#pragma once

#include <memory>

#include "kernels/attention/attention.h"
#include "kernels/attention_gradient/kernel.h"

namespace ptxbuilder::kernels {

// dQ, dK and dV of what Attention computes. `grad` is the gradient of its O; its lse must be given, too. dK
// and dV of a head of keys are the sums over the heads of queries that share it. If a query sees no key, its
// row of dQ is 0, and so are the rows of dK and dV of a key that no query sees.
//
// lse may have a gradient, too: the results are then the gradients of everything that depends on O and on
// lse. Gradients of sinks are computed if they are requested.
//
// The author's own scores are set in AttentionGradientOptions. With packed sequences, a NaN or an infinity in
// the first rows of a sequence, in any tensor, may reach the sequence before it.
//
// The order in which blocks of keys add to dQ is fixed only if the call is `deterministic`: otherwise two
// runs may differ in the last bits of dQ.
//
// Aliasing: dQ, dK, dV and dsinks must overlap nothing. Placement follows the rules of Attention.
struct AttentionGradientArguments : AttentionArguments {
  DeviceHeads grad = {}, dq = {}, dk = {}, dv = {};  // placed like O, Q, K and V
  runtime::View lse_grad = {};  // f32, shaped like lse; without memory, lse has no gradient
  runtime::View dsinks = {};    // f32, shaped like sinks; without memory, it is not computed
  bool deterministic = false;
};

// The options of an AttentionGradient, which apply to all of its calls.
struct AttentionGradientOptions : CallOptions {
  AttentionScore score = {};  // for all calls, as in AttentionOptions, with its gradient
};

// Keeps kernels like Attention; a call uses three, or four with the gradient of sinks. The workspace of a
// call holds, for each row of queries of each head, a sum for each column and two numbers, all f32. Any
// thread may call it at any time, and several threads may do so at once.
class AttentionGradient {
 public:
  // Throws Error if the options name a ptxas that does not exist. Nothing is tuned.
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
