// The gradients of attention, as one call on the host.
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

// dQ, dK and dV of what Attention computes, where `grad` is the gradient of its O; lse is its, too, and has
// to be given. dK and dV of a head of keys are the sums over the heads of queries that share it. Where a
// query sees no key its row of dQ is 0, and so is dK and dV of a key that no query sees.
//
// lse may have a gradient, too: then the gradients are of all that hangs on O and on lse. Sinks have theirs
// where it is asked for.
//
// Scores of the author's are those of AttentionGradientOptions. Of packed sequences what is NaN or infinite
// in the first rows of one, of any tensor, may reach the one before.
//
// The order in which blocks of keys add to dQ is not fixed unless it is `deterministic`: else two runs may
// differ in the last bits of dQ.
//
// Aliasing: dQ, dK, dV and dsinks overlap nothing. Placement is as for Attention.
struct AttentionGradientArguments : AttentionArguments {
  DeviceHeads grad = {}, dq = {}, dk = {}, dv = {};  // as O, Q, K and V
  runtime::View lse_grad = {};                       // f32, as lse; no memory: there is none
  runtime::View dsinks = {};                         // f32, as sinks; no memory: not wanted
  bool deterministic = false;
};

// The options of an AttentionGradient, which hold for all of its calls.
struct AttentionGradientOptions : CallOptions {
  AttentionScore score = {};  // of all calls, as AttentionOptions has it, with its gradient
};

// Keeps kernels as Attention does, of which a call takes three, or four with the gradient of sinks. Its
// workspace has for each row of queries of each head a sum for each column and two numbers, of f32. Any
// thread may call it at any time, also several at once.
class AttentionGradient {
 public:
  // Throws Error when a ptxas is named that is not there. Nothing is tuned.
  explicit AttentionGradient(runtime::Device& device, AttentionGradientOptions options = {});
  ~AttentionGradient();
  AttentionGradient(AttentionGradient&&) noexcept;
  AttentionGradient& operator=(AttentionGradient&&) noexcept;

  // Queues it on the device. Throws Error that names the operand, the rule and the value.
  void operator()(const AttentionGradientArguments& arguments, Where where = Where::here());
  // The bytes of workspace that it takes. Throws Error as the call does.
  size_t workspace_bytes(const AttentionGradientArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
