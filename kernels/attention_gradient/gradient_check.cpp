#include "kernels/attention_gradient/gradient_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder::kernels {
namespace {

constexpr char kName[] = "attention_gradient";

[[noreturn]] void refuse(Where where, const std::string& what) {
  throw Error(where, std::string(kName) + ": " + what);
}

// Throws an Error if arguments are valid for Attention but not supported by its gradient.
void check_is_taken(const AttentionGradientArguments& p, const PlacedAttention& a, Where where) {
  if (p.lse.address == 0 && a.q.memory.bytes > 0)
    refuse(where, "lse is not given; attention() writes it in addition to O");
  if (a.operation.e4m3_products)
    refuse(where,
           "Q, K and V are e4m3, but attention on e4m3 has no gradient; pass all of them in f16 or bf16");
  if (a.operation.e4m3)
    refuse(where, "K and V are e4m3, but attention over such caches has no gradient; pass them in Q's type");
  if (a.operation.lengths)
    refuse(where,
           "key_lengths were given, but attention over caches has no gradient; leave them out, or pack the "
           "sequences");
}

}  // namespace

MovedOperands PlacedAttentionGradient::moved() {
  MovedOperands all;
  for (const auto& [t, source] : {std::pair<Operand*, size_t>(&q, from_q),
                                  {&k, from_k},
                                  {&v, from_v},
                                  {&o, from_o},
                                  {&grad, from_grad}})
    if (!t->is_empty() && !t->aligned_for_tma()) all.add(*t, source, true);
  for (const auto& [t, source] : {std::pair<Operand*, size_t>(&dq, from_dq), {&dk, from_dk}, {&dv, from_dv}})
    if (!t->is_empty() && !(t->aligned_for_tma() && t->columns * t->element_bytes() % kTma == 0))
      all.add(*t, source, false);
  return all;
}

PlacedAttentionGradient checked(const AttentionGradientArguments& p, Where where) {
  const PlacedAttention a = checked(p, false, where);
  if (p.depth > AttentionOperation::kMostColumns)
    refuse(where,
           fmt::format("the first of the {} columns of K are the values, but such attention has no gradient",
                       p.depth));
  PlacedAttentionGradient g;
  g.q = a.q, g.k = a.k, g.v = a.v, g.o = a.o, g.lse = a.lse, g.size = a.size;
  g.query_offsets = a.query_offsets, g.key_offsets = a.key_offsets;
  const auto like = [&](const char* name, const Operand& x, const DeviceHeads& given) {
    Operand y = heads_operand(name, given, x.type, x.columns, x.outer[kRows].extent, x.outer[kHeads].extent,
                              x.outer[kBatches].extent);
    check_memory(kName, y, where);
    return y;
  };
  g.grad = like("dO", a.o, p.grad);
  g.dq = like("dQ", a.q, p.dq), g.dk = like("dK", a.k, p.dk), g.dv = like("dV", a.v, p.dv);
  if (p.lse_grad.address != 0) {
    g.lse_grad = a.lse;
    g.lse_grad.name = "the gradient of lse", g.lse_grad.memory = p.lse_grad;
    check_row(kName, g.lse_grad, where);
  }
  g.sinks = a.sinks, g.dropout_seed = a.dropout_seed;
  if (p.dsinks.address != 0) {
    if (p.sinks.address == 0)
      refuse(where, "the gradient of sinks (dsinks) is requested, but sinks are not given");
    g.dsinks = one_row("dsinks", DType::f32, p.dsinks, p.heads);
    check_row(kName, g.dsinks, where);
  }
  g.is_empty = g.dq.is_empty() && g.dk.is_empty() && g.dv.is_empty() && g.dsinks.is_empty();
  check_is_taken(p, a, where);
  for (const Operand* x : {&g.dq, &g.dk, &g.dv})
    if (!x->is_empty()) check_no_self_overlap(kName, *x, where);
  for (const Operand* written : {&g.dq, &g.dk, &g.dv, &g.dsinks}) {
    for (const Operand* read : {&g.q, &g.k, &g.v, &g.o, &g.grad, &g.lse, &g.lse_grad, &g.query_offsets,
                                &g.key_offsets, &g.sinks, &g.dropout_seed})
      check_apart(kName, *written, *read, true, where);
    for (const Operand* other : {&g.dq, &g.dk, &g.dv, &g.dsinks})
      if (written < other) check_apart(kName, *written, *other, false, where);
  }
  g.operation = gradient_operation(p.type, p.depth, g.v.columns);
  g.operation.packed = p.packed();
  g.operation.causal = a.operation.causal;
  g.operation.window = a.operation.window;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) g.operation.name = a.operation.name;
#include "kernels/attention/attention.def"
  g.operation.lse_grad = p.lse_grad.address != 0;
  g.operation.deterministic = p.deterministic;
  return g;
}

AttentionGradientKey key_of(const PlacedAttentionGradient& g) {
  const AttentionGradientOperation& o = g.operation;
  const AttentionSize& s = g.size;
  auto flags = static_cast<uint64_t>(o.depth << 10 | o.value_depth << 1) | uint64_t{o.type == DType::bf16};
  for (const bool flag : {o.causal, o.window, o.packed, o.lse_grad, o.deterministic, !g.dsinks.is_empty()})
    flags = flags << 1 | uint64_t{flag};
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) flags = flags << 1 | uint64_t{o.name};
#include "kernels/attention/attention.def"
  return {
      flags,
      static_cast<uint64_t>(s.queries),
      static_cast<uint64_t>(s.keys),
      static_cast<uint64_t>(s.heads),
      static_cast<uint64_t>(s.batches),
      static_cast<uint64_t>(s.group),
      static_cast<uint64_t>(static_cast<uint32_t>(s.visible)) << 32 | static_cast<uint32_t>(s.window_start)};
}

std::string call_text(const PlacedAttentionGradient& g) {
  return fmt::format("{}", fmt::join(key_of(g), " "));
}

std::array<uint64_t, kAttentionGradientSources> sources_of(const AttentionGradientArguments& p) {
  std::array<uint64_t, kAttentionGradientSources> all;
  std::ranges::copy(sources_of(static_cast<const AttentionArguments&>(p)), all.begin());
  all[from_grad] = p.grad.memory.address, all[from_lse_grad] = p.lse_grad.address;
  all[from_dsinks] = p.dsinks.address;
  all[from_dq] = p.dq.memory.address, all[from_dk] = p.dk.memory.address, all[from_dv] = p.dv.memory.address;
  return all;
}

bool is_plain(const AttentionGradientArguments& p) {
  bool plain = is_plain(static_cast<const AttentionArguments&>(p));
  const std::array written = {&p.dq.memory, &p.dk.memory, &p.dv.memory};
  const std::array read = {&p.q.memory, &p.k.memory,     &p.v.memory,  &p.o.memory,      &p.grad.memory,
                           &p.lse,      &p.lse_grad,     &p.workspace, &p.query_offsets, &p.key_offsets,
                           &p.sinks,    &p.dropout_seed, &p.dsinks};
  plain &= p.grad.memory.address != 0 && p.grad.memory.address % kTma == 0 &&
           lie_apart(p.grad.memory, p.workspace) && p.lse_grad.address % size_of(DType::f32) == 0 &&
           lie_apart(p.lse_grad, p.workspace);
  plain &= p.dsinks.address % size_of(DType::f32) == 0;
  for (const runtime::View* y : read) plain &= y == &p.dsinks || lie_apart(p.dsinks, *y);
  for (const runtime::View* x : written) {
    plain &= x->address != 0 && x->address % kTma == 0;
    for (const runtime::View* y : read) plain &= lie_apart(*x, *y);
    for (const runtime::View* y : written) plain &= x == y || lie_apart(*x, *y);
  }
  return plain;
}

}  // namespace ptxbuilder::kernels
