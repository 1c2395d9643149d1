#include "kernels/tune/attention_operation.h"

#include "kernels/attention/attention_check.h"

namespace ptxbuilder::bench {

using kernels::AttentionArguments;

AttentionArguments arguments(const AttentionProblem& p, const AttentionProblem::Set& set,
                             runtime::View offsets) {
  AttentionArguments q;
  q.type = p.output_type();
  if (p.type == DType::e4m3) {
    q.query_type = q.cache_type = p.type;
    q.scale = static_cast<float>(p.scale());
  }
  q.batches = p.batches, q.heads = p.heads, q.key_heads = p.key_heads;
  q.depth = p.depth, q.value_depth = p.value_depth;
  q.queries = p.queries, q.keys = p.keys;
  q.causal = p.causal, q.left = p.left, q.right = p.right;
  q.q.memory = set.q, q.k.memory = set.k, q.v.memory = set.v, q.o.memory = set.o;
  if (p.packed()) {
    q.query_offsets = q.key_offsets = offsets;
    q.query_rows = p.query_rows(), q.key_rows = p.key_rows();
  }
  return q;
}

PlacedProblem place(const AttentionProblem& p) {
  // Assigns addresses to the tensors, because the checks require valid ones.
  runtime::Address end = runtime::Address{1} << 32;
  const auto next = [&](int64_t bytes) {
    const runtime::View view = {end, static_cast<size_t>(bytes)};
    end += (view.bytes / 256 + 1) * 256;
    return view;
  };
  BufferSet set;
  for (const Matrix& input : p.inputs()) set.inputs.push_back(next(input.bytes()));
  set.output = next(p.output().bytes());
  const AttentionArguments all =
      arguments(p, AttentionProblem::set(set), p.packed() ? next(4 * (p.batches + 1)) : runtime::View());
  const kernels::PlacedAttention placed = kernels::checked(all, true, Where::here());
  return {placed.operation, placed.size};
}

}  // namespace ptxbuilder::bench
