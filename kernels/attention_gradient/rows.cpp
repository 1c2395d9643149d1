// This is what comes ahead of the gradient of attention and behind it, row by row of queries.
#include <fmt/format.h>

#include "kernels/attention_gradient/fragments.h"
#include "kernels/attention_gradient/kernel.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/parameters.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

using Fragments = GradientFragments;
constexpr int kCtaRows = Fragments::kPart;  // that a CTA takes

void add_sizes(Parameters& p) {
  using enum Parameter::Kind;
  p.add("queries", scalar, DType::u32, "rows of a head");
  p.add("heads", scalar, DType::u32, "of a batch");
  p.add("batches", scalar, DType::u32, "of each tensor");
}

// This is where dQ's sums of the CTA begin: those of a head have nctaid_x() times `elements`.
u64 sums_at(int elements) {
  return u64((ctaid_z() * nctaid_y() + ctaid_y()) * nctaid_x() + ctaid_x()) * u64(elements);
}

void sum_rows(Kernel& k, const AttentionGradientOperation& o, const Parameters& p) {
  const SharedTile O = k.shared(o.type, {kCtaRows, o.depth}, Swizzle128B, 1, "O"),
                   dO = k.shared(o.type, {kCtaRows, o.depth}, Swizzle128B, 1, "dO");
  const Barriers arrived(k, {2});
  sync_threads();
  const u32 row = ctaid_x() * kCtaRows, head = ctaid_z() * nctaid_y() + ctaid_y(),
            padded = nctaid_x() * kCtaRows, queries = p.get<u32>("queries");
  griddepcontrol_wait();
  elect([&] {
    tma_load(O[0].expecting(arrived[0]), p.get<TensorMap>("O"), 0, row, ctaid_y(), ctaid_z());
    tma_load(dO[0].expecting(arrived[0]), p.get<TensorMap>("dO"), 0, row, ctaid_y(), ctaid_z());
  });
  store(p.get<gptr<f32>>("dq") + sums_at(kCtaRows * o.depth),
        RegisterTile<f32>(f32(0), strided({kCtaRows * o.depth / Fragments::kStep, Fragments::kStep}, 4)));
  const RegisterLayout layout = strided({kCtaRows, o.depth}, 8), rows = layout.reduced_rows();
  const auto of_rows = [&](const char* name, u32 count) {
    const GlobalTensor all(p.get<gptr<f32>>(name), {nctaid_y() * nctaid_z(), count}, {count, 1});
    return all(head, _).as_col().tile(row, 0);
  };
  constexpr float kLog2E = 1.4426950408889634f;
  const RegisterTile<f32> lse = load<f32>(of_rows("lse", queries), rows, -INFINITY);
  // The weights of a row that sees no key are 0, and so are those of a row behind the last.
  store(of_rows("powers", padded), select(lse == -INFINITY, f32(INFINITY), lse * kLog2E));
  barrier_wait(arrived[0], 0);
  const auto wide = [&](const SharedTile& tile) {
    return o.type == DType::f16 ? astype<f32>(load<f16>(tile[0], layout))
                                : astype<f32>(load<bf16>(tile[0], layout));
  };
  RegisterTile<f32> sums = reduce_rows(Reduction::add, wide(dO) * wide(O));
  // A score adds its weight times the gradient of lse to its slope.
  if (o.lse_grad) sums = sums - load<f32>(of_rows("lse_grad", queries), rows);
  store(of_rows("sums", padded), sums);
  if (o.deterministic)
    if_(tid_x() == 0, [&] { p.get<gptr<u32>>("turns")[head * nctaid_x() + ctaid_x()] = u32(0); });
}

void convert_queries(Kernel& k, const AttentionGradientOperation& o, const Parameters& p) {
  const SharedTile dQ = k.shared(o.type, {kCtaRows, kCtaRows}, Swizzle128B, 1, "dQ");
  griddepcontrol_wait();
  const RegisterTile<f32> x =
      Fragments::from_memory(
          load<f32>(p.get<gptr<f32>>("dq") + sums_at(Fragments::kElements), Fragments::memory())) *
      p.get<f32>("scale");
  if (o.type == DType::f16)
    store(dQ[0], astype<f16>(x));
  else
    store(dQ[0], astype<bf16>(x));
  fence_proxy_async<Space::shared>();
  sync_threads();
  const u32 parts = Fragments::are_columns(o) ? 2 : 1;
  elect([&] {
    tma_store(p.get<TensorMap>("dQ"), dQ[0], ctaid_x() % parts * kCtaRows, ctaid_x() / parts * kCtaRows,
              ctaid_y(), ctaid_z());
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
}

// This is what both kernels have in common. A block of queries takes so many `ctas`.
Kernel of_rows(std::string name, const AttentionGradientOperation& o, const AttentionGradientTile& t,
               Parameters p, int ctas,
               void body(Kernel&, const AttentionGradientOperation&, const Parameters&), Where where) {
  check(o, t, where);
  Kernel k(std::move(name));
  p.declare(k, where);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(queries, {}) * {}", t.bm, ctas), "heads", "batches");
  if (t.overlaps) k.overlaps();
  body(k, o, p);
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
        "of each head and query the natural logarithm of the sum of exp(scale Q K^T)");
  p.add("powers", pointer, DType::f32, "the same to base 2, of whole blocks of queries");
  p.add("sums", pointer, DType::f32,
        o.lse_grad ? "of each head and query sum(dO * O) - lse_grad, of whole blocks"
                   : "of each head and query sum(dO * O), of whole blocks");
  p.add("dq", pointer, DType::f32, "of each of these rows as many zeros as there are columns");
  add_sizes(p);
  if (o.lse_grad) p.add("lse_grad", pointer, DType::f32, "the gradient of lse");
  if (o.deterministic) p.add("turns", pointer, DType::u32, "of each 64 queries a 0");
  return of_rows("attention_gradient_sums", o, t, std::move(p), t.bm / kCtaRows, sum_rows, where);
}

Kernel attention_gradient_queries(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                                  Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("dq", pointer, DType::f32, "sums of dQ / scale, as attention_gradient has added them");
  p.add("dQ", tensor_map, o.type, "the gradient of Q: columns, rows, heads, batches");
  add_sizes(p);
  p.add("scale", scalar, DType::f32, "a factor of the scores");
  return of_rows("attention_gradient_queries", o, t, std::move(p), t.kConsumers, convert_queries, where);
}

}  // namespace ptxbuilder::kernels
