// Implements MLA append, which stores the latent keys of new tokens as rows of bytes in their slots of a
// paged cache. Their values are scaled and rounded to e4m3.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/call/latent_row.h"
#include "kernels/rows/e4m3_scale.h"
#include "kernels/rows/element.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "kernels/rows/slots.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {
namespace {

enum LatentPlace { kLatent, kRotary, kLatentCache, kLatentSlots };

constexpr int kVector = 8, kThreadsOfBlock = LatentRow::kScaled / kVector,
              kThreadsOfToken = kThreadsOfBlock * LatentRow::kScales,
              kTokens = RegisterLayout::kThreads / kThreadsOfToken;  // tokens per CTA
static_assert(LatentRow::kScaled == kScaledBlock && LatentRow::kRotary % kThreadsOfToken == 0);

// Stores the tokens of a CTA. A thread processes some columns of one block of 128 columns.
template <class T>
void store_token(const Parameters& p, const RowProblem& problem) {
  const RegisterLayout layout = strided({kTokens * LatentRow::kScales, LatentRow::kScaled}, kVector);
  const u32 block = row_index(layout.reduced_rows()).value(0) + ctaid_x() * (kTokens * LatentRow::kScales),
            token = block / LatentRow::kScales, group = block % LatentRow::kScales;
  const Slot slot(p, problem, kLatentSlots, token);
  const auto part = [&]<class Element>(gptr<Element> start, int vector) {
    TensorTile<Element> tile{{start, 0}};
    tile.cols = select(slot.is_kept, s32(LatentRow::kScaled), s32(0));
    tile.vector = vector;
    return tile;
  };
  const RegisterTile<f32> x =
      widened(load<T>(part(p.get<gptr<T>>("latent") + u64(block) * uint64_t{LatentRow::kScaled},
                           std::min(problem.tile.vector, kVector)),
                      layout));
  const RegisterTile<f32> most = max(reduce_rows(Reduction::max, abs(x)), f32(kLeastGreatest)),
                          scale = most * f32(1 / kGreatestE4m3), factor = f32(1) / scale;
  const RowTensor& cache = problem.operation->tensors[kLatentCache];
  const gmem row = p.get<gmem>(cache.name) + (u64(slot.page) * p.get<u64>(cache.stride_name(0)) +
                                              u64(slot.row) * p.get<u64>(cache.stride_name(1)));
  store(part(gptr<e4m3>(row) + group * LatentRow::kScaled, kVector),
        astype<e4m3>(x * broadcast(factor, layout)));
  const u32 thread = tid_x() % kThreadsOfToken;
  if_(slot.is_kept, [&] {
    if_(thread % kThreadsOfBlock == 0u,
        [&] { gptr<f32>(row + LatentRow::kScalesByte)[group] = scale.value(0); });
    for (int i = 0; i < LatentRow::kRotary; i += kThreadsOfToken) {
      const u32 column = thread + i;
      const T own = p.get<gptr<T>>("rotary")[u64(token) * uint64_t{LatentRow::kRotary} + u64(column)];
      gptr<bf16>(row + LatentRow::kRotaryByte)[column] = bf16(f32(own));
    }
  });
}

Kernel mla_append_kernel(const RowProblem& problem) {
  Kernel k(problem.operation->name);
  const Parameters p = declare_parameters(k, problem);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(rows, {})", kTokens));
  with_type(*problem.types[kLatent], [&]<class T>(T) { store_token<T>(p, problem); });
  return k;
}

}  // namespace

RowOperation mla_append() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {
      .name = "mla_append",
      .summary = "stores the latent keys of new tokens to their slots of a paged cache of 8 bits",
      .tensors =
          {{"latent", {"rows", "columns"}, any, read, "the columns that are also values"},
           {"rotary", {"rows", "rotary_columns"}, of_first, read, "the columns with the rotary embedding"},
           {.name = "kv_cache",
            .shape = {"pages", "page_rows", "row_bytes"},
            .type = bytes,
            .use = updated,
            .meaning = "512 values of e4m3, an f32 for each 128 of them by which they are "
                       "multiplied, and 64 rotary columns of bf16",
            .strided = {"page", "row"}},
           {.name = "slots",
            .shape = {"rows"},
            .type = integer,
            .meaning = "page number x page_rows + row of each token; a number without a slot "
                       "skips the token",
            .counts = {"pages", "page_rows"}}},
      .fixed = {{"columns", LatentRow::kValues},
                {"rotary_columns", LatentRow::kRotary},
                {"row_bytes", LatentRow::kBytes}},
      .reduces = false,
      .is_of_rows = false,
      .build = mla_append_kernel};
}

}  // namespace ptxbuilder::kernels
