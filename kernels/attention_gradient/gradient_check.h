// Checks the arguments of attention's backward pass, and converts them into the arguments of its kernels.
#pragma once

#include "kernels/attention/attention_check.h"
#include "kernels/attention/form.h"
#include "kernels/attention_gradient/attention_gradient.h"

namespace ptxbuilder::kernels {

struct PlacedAttentionGradient {
  AttentionGradientOperation operation;
  AttentionSize size;
  Operand q, k, v, o, grad, dq, dk, dv, lse, lse_grad, query_offsets, key_offsets, sinks, dsinks,
      dropout_seed;
  bool is_empty = false;  // true: there is nothing to write

  std::vector<const Operand*> operands() const {
    return {&q,     &k,      &v,           &o,        &grad,          &dq,
            &dk,    &dv,     &lse,         &lse_grad, &query_offsets, &key_offsets,
            &sinks, &dsinks, &dropout_seed};
  }
  MovedOperands moved();
  std::vector<Operand*> read() { return {&q, &k, &v, &o, &grad, &lse}; }
  std::vector<Operand*> written() { return {&dq, &dk, &dv}; }
  bool pads_written() const { return true; }
  bool is_tunable() const { return false; }
};

// Checks the arguments and returns the call for the kernels. Throws an Error that names the operand, the
// violated rule and the value.
PlacedAttentionGradient checked(const AttentionGradientArguments& arguments, Where where);

// The operation and the size of a call, as the words that identify its plan.
using AttentionGradientKey = std::array<uint64_t, 8>;
AttentionGradientKey key_of(const PlacedAttentionGradient& gradient);
std::string call_text(const PlacedAttentionGradient& gradient);
constexpr size_t kAttentionGradientTextWords = std::tuple_size_v<AttentionGradientKey>;

// The arguments whose values may differ between calls of the same form, in addition to those of attention
// (AttentionSource).
enum AttentionGradientSource : size_t {
  from_grad = kAttentionSources,
  from_lse_grad,
  from_dsinks,
  from_dq,
  from_dk,
  from_dv,
  kAttentionGradientSources
};

std::array<uint64_t, kAttentionGradientSources> sources_of(const AttentionGradientArguments& p);

constexpr size_t kAttentionGradientFormWords = kAttentionFormWords + 4 * 4 + 3;
inline auto words_of(const AttentionGradientArguments& p) {
  return [&p](auto&& take) {
    words_of(static_cast<const AttentionArguments&>(p))(take);
    size_t at = kAttentionFormWords;
    for (const DeviceHeads* x : {&p.grad, &p.dq, &p.dk, &p.dv})
      for (const uint64_t word :
           {uint64_t{x->memory.bytes}, static_cast<uint64_t>(x->row_stride),
            static_cast<uint64_t>(x->head_stride), static_cast<uint64_t>(x->batch_stride)})
        take(at++, word);
    uint64_t flags = p.deterministic;
    for (const runtime::View* x : {&p.lse_grad, &p.dsinks})
      take(at++, x->bytes), flags = flags << 1 | uint64_t{x->address != 0};
    take(at++, flags);
  };
}

// Returns whether the addresses and numbers of a call are obviously valid; see is_plain() of attention.
bool is_plain(const AttentionGradientArguments& p);

}  // namespace ptxbuilder::kernels
