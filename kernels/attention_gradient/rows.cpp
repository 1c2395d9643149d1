// Builds the kernels that run before and after attention_gradient and process queries row by row.
#include <fmt/format.h>

#include "kernels/attention/roles.h"
#include "kernels/attention_gradient/fragments.h"
#include "kernels/attention_gradient/kernel.h"
#include "kernels/attention_gradient/packed.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/parameters.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

// Returns the number of this CTA among the CTAs of all heads. A block of queries has `ctas` CTAs.
u32 number_of_cta(const std::optional<PackedQueries>& sequence, int ctas) {
  if (sequence) return (ctaid_y() * sequence->blocks + sequence->first_block) * ctas + ctaid_x();
  return (ctaid_z() * nctaid_y() + ctaid_y()) * nctaid_x() + ctaid_x();
}

void sum_rows(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t,
              const Parameters& p, const std::optional<PackedQueries>& sequence) {
  const int rows_of_cta = t.cta_rows();
  const SharedTile O = k.shared(o.type, {rows_of_cta, o.value_depth}, Swizzle128B, 1, "O"),
                   dO = k.shared(o.type, {rows_of_cta, o.value_depth}, Swizzle128B, 1, "dO");
  const Barriers arrived(k, {2});
  sync_threads();
  // `row` is the first row within the sequence, and `row_of_all` is this row in the tensors.
  const u32 row = ctaid_x() * rows_of_cta, head = sequence ? ctaid_y() : ctaid_z() * nctaid_y() + ctaid_y(),
            queries = sequence ? sequence->queries : p.get<u32>("queries"),
            row_of_all = sequence ? sequence->row + row : row, batch = sequence ? u32(0) : ctaid_z();
  griddepcontrol_wait();
  elect([&] {
    tma_load(O[0].expecting(arrived[0]), p.get<TensorMap>("O"), 0, row_of_all, ctaid_y(), batch);
    tma_load(dO[0].expecting(arrived[0]), p.get<TensorMap>("dO"), 0, row_of_all, ctaid_y(), batch);
  });
  const u32 cta = number_of_cta(sequence, t.bm / rows_of_cta);
  store(
      p.get<gptr<f32>>("dq") + u64(cta) * u64(rows_of_cta * o.depth),
      RegisterTile<f32>(
          f32(0), strided({rows_of_cta * o.depth / GradientFragments::kStep, GradientFragments::kStep}, 4)));
  // 192 columns use the layout of an accumulator, since in a strided layout a row would not begin at a
  // thread's first element.
  const RegisterLayout layout = o.value_depth == 192 ? wgmma_layout(rows_of_cta, o.value_depth)
                                                     : strided({rows_of_cta, o.value_depth}, 8),
                       rows = layout.reduced_rows();
  const auto given = [&](const char* name) {
    const u32 end = sequence ? sequence->row + queries : queries,
              stride = sequence ? p.get<u32>("query_rows") : queries;
    const GlobalTensor all(p.get<gptr<f32>>(name), {nctaid_y() * nctaid_z(), end}, {stride, 1});
    return all(head, _).as_col().tile(row_of_all, 0);
  };
  const auto numbers = [&](u32 which) {
    const int ctas = t.bm / rows_of_cta;
    const GlobalTensor all(p.get<gptr<f32>>("numbers") + u64(cta / ctas * 2 + which) * u64(t.bm), {1, t.bm},
                           {t.bm, 1});
    return all(0, _).as_col().tile(cta % ctas * rows_of_cta, 0);
  };
  constexpr float kLog2E = 1.4426950408889634f;
  const RegisterTile<f32> lse = load<f32>(given("lse"), rows, -INFINITY);
  // The infinity makes the weights 0 if a row sees no key or is beyond the last query.
  store(numbers(0), select(lse == -INFINITY, f32(INFINITY), lse * kLog2E));
  barrier_wait(arrived[0], 0);
  const auto wide = [&](const SharedTile& tile) {
    return o.type == DType::f16 ? astype<f32>(load<f16>(tile[0], layout))
                                : astype<f32>(load<bf16>(tile[0], layout));
  };
  RegisterTile<f32> sums = reduce_rows(Reduction::add, wide(dO) * wide(O));
  // The gradient of lse, times the weight, is added to the slope of each score.
  if (o.lse_grad) sums = sums - load<f32>(given("lse_grad"), rows);
  // Rows at `queries` and above belong to the next sequence.
  if (sequence) sums = select(row_index(rows) + row < queries, sums, f32(0));
  store(numbers(1), sums);
  const int turns = t.kConsumers * rows_of_cta / t.bm;  // number of counters for this CTA's part of a block
  if (o.deterministic)
    if_(tid_x() < turns, [&] { p.get<gptr<u32>>("turns")[cta * turns + tid_x()] = u32(0); });
}

void convert_queries(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t,
                     const Parameters& p, const std::optional<PackedQueries>& sequence) {
  const GradientFragments sums(o, t);
  const SharedTile dQ = k.shared(o.type, {sums.rows, sums.columns}, widest_swizzle(sums.columns), 1, "dQ");
  griddepcontrol_wait();
  const u32 part = number_of_cta(sequence, t.kConsumers);
  const RegisterTile<f32> x =
      sums.from_memory(load<f32>(p.get<gptr<f32>>("dq") + u64(part) * u64(sums.elements()), sums.memory())) *
      p.get<f32>("scale");
  const TileView to_store = sums.are_transposed ? dQ[0].transposed() : dQ[0];
  if (o.type == DType::f16)
    store(to_store, astype<f16>(x));
  else
    store(to_store, astype<bf16>(x));
  const u32 parts = sums.are_columns ? 2 : 1;
  if (sequence) {  // stored row by row, since a box could extend into the next sequence
    sync_threads();
    const PackedHeads to = {ctaid_y(), sequence->row + ctaid_x() / parts * sums.rows,
                            sequence->row + sequence->queries};
    if (o.type == DType::f16)
      to.store(p, "dQ", load<f16>(dQ[0]), ctaid_x() % parts * sums.columns);
    else
      to.store(p, "dQ", load<bf16>(dQ[0]), ctaid_x() % parts * sums.columns);
    return;
  }
  fence_proxy_async<Space::shared>();
  sync_threads();
  elect([&] {
    tma_store(p.get<TensorMap>("dQ"), dQ[0], ctaid_x() % parts * sums.columns, ctaid_x() / parts * sums.rows,
              ctaid_y(), ctaid_z());
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
}

// Builds a kernel that runs `body` for each CTA. A block of queries has `ctas` CTAs.
Kernel of_rows(std::string name, const AttentionGradientOperation& o, const AttentionGradientTile& t,
               Parameters p, int ctas,
               void body(Kernel&, const AttentionGradientOperation&, const AttentionGradientTile&,
                         const Parameters&, const std::optional<PackedQueries>&),
               Where where) {
  check(o, t, where);
  Kernel k(std::move(name));
  p.declare(k, where);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(queries, {}) * {}", t.bm, ctas), "heads", "batches");
  if (t.overlaps) k.overlaps();
  if (o.packed) {
    griddepcontrol_wait();  // the offsets are read below
    const PackedQueries sequence(t, p, ctaid_z());
    if_(ctaid_x() < ceil_div(sequence.queries, t.bm) * ctas, [&] { body(k, o, t, p, sequence); });
  } else {
    body(k, o, t, p, std::nullopt);
  }
  griddepcontrol_launch_dependents();
  return k;
}

}  // namespace

Kernel attention_gradient_sums(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                               Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("O", tensor_map, o.type,
        "softmax(scale Q K^T) V, a row for each query: columns, rows, heads, batches");
  p.add("dO", tensor_map, o.type, "its gradient");
  p.add("lse", pointer, DType::f32,
        "for each head and query, the natural logarithm of the sum of exp(scale Q K^T)");
  p.add("numbers", pointer, DType::f32,
        std::string("for each block of queries of a head, the same to base 2, and then sum(dO * O)") +
            (o.lse_grad ? " - lse_grad" : ""));
  p.add("dq", pointer, DType::f32, "as many zeros as there are columns, for each of these rows");
  add_sizes(p, o);
  if (o.lse_grad) p.add("lse_grad", pointer, DType::f32, "the gradient of lse");
  if (o.deterministic) p.add("turns", pointer, DType::u32, "a 0 for each part of a block");
  return of_rows("attention_gradient_sums", o, t, std::move(p), t.bm / t.cta_rows(), sum_rows, where);
}

Kernel attention_gradient_queries(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                                  Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("dq", pointer, DType::f32, "sums of dQ / scale, as attention_gradient has added them");
  if (!o.packed) p.add("dQ", tensor_map, o.type, "the gradient of Q: columns, rows, heads, batches");
  add_sizes(p, o);
  p.add("scale", scalar, DType::f32, "a factor of the scores");
  if (o.packed) PackedHeads::add(p, o, "dQ", "the gradient of Q");
  return of_rows("attention_gradient_queries", o, t, std::move(p), t.kConsumers, convert_queries, where);
}

}  // namespace ptxbuilder::kernels
