// Implements append, which rotates the keys of new tokens, and stores their keys and values in their slots of
// a paged cache.
#include <fmt/format.h>

#include "kernels/rows/halves.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "kernels/rows/slots.h"

namespace ptxbuilder::kernels {
namespace {

enum Place { kKeys, kValues, kKeyCache, kValueCache, kSlots, kCos, kSin, kPositions, kKeyScale, kValueScale };

Kernel append_kernel(const RowProblem& problem) {
  const RowTile& tile = problem.tile;
  if (tile.is_shared()) throw Error("append: a half of a head has more columns than a warp holds");
  Kernel k(problem.operation->name);
  const Parameters p = declare_parameters(k, problem);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(rows * heads, {})", tile.rows()));
  with_type(*problem.types[kKeys], [&]<class T>(T) {
    const Halves<T> halves(p, tile);
    const u32 heads = p.get<u32>("heads"), own = halves.own_row();
    const auto [token, page, row, is_kept] = Slot(p, problem, kSlots, own / heads);
    const auto key = halves.load_head("k", own, is_kept), value = halves.load_head("v", own, is_kept);
    const auto put = [&](Place cache, Place scale, auto x) {
      const RowTensor& to = problem.operation->tensors[cache];
      u64 element(0);
      for (const auto& [dimension, at] : {std::pair(0, page), {1, own % heads}, {2, row}})
        element = element + u64(at) * p.get<u64>(to.stride_name(static_cast<size_t>(dimension)));
      if (problem.types[scale]) {
        const gptr<f32> scales = p.get<gptr<f32>>(problem.operation->tensors[scale].name);
        const u32 each = p.get<u32>("scales"), of_page = min(page, p.get<u32>("scale_pages") - 1) * each;
        const f32 by = scales[of_page + min(own % heads, each - 1)];
        x = {divide(x.first, by), divide(x.second, by)};
      }
      if (problem.types[cache] == DType::e4m3)
        halves.template store_head_at<e4m3>(to.name, element, is_kept, x);
      else
        halves.template store_head_at<T>(to.name, element, is_kept, x);
    };
    put(kKeyCache, kKeyScale,
        problem.types[kCos] ? halves.turned(key, load_count(p, problem, kPositions, token), false) : key);
    put(kValueCache, kValueScale, value);
  });
  return k;
}

}  // namespace

RowOperation append() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  const std::vector<std::string> head = {"rows", "heads", "halves", "columns"},
                                 angles = {"positions", "columns"};
  const auto cache = [](const char* name, const char* meaning) {
    return RowTensor{.name = name,
                     .shape = {"pages", "heads", "page_rows", "halves", "columns"},
                     .type = of_first_or_e4m3,
                     .use = updated,
                     .meaning = meaning,
                     .strided = {"page", "head", "row"}};
  };
  return {
      .name = "append",
      .summary = "stores the keys and values of new tokens to their slots of a paged cache",
      .tensors = {{"k", head, any, read, "the keys of each token, two halves of each head"},
                  {"v", head, of_first, read, "the values of each token"},
                  cache("k_cache", "keys; rows without a new token stay unchanged"),
                  cache("v_cache", "values, as k_cache"),
                  {.name = "slots",
                   .shape = {"rows"},
                   .type = integer,
                   .meaning =
                       "page number x page_rows + row of each token; a number without a slot skips the token",
                   .counts = {"pages", "page_rows"}},
                  {"cos", angles, of_first, read_if_given,
                   "the cosines of the angles by which keys are rotated"},
                  {.name = "sin",
                   .shape = angles,
                   .use = read_if_given,
                   .meaning = "the sines of the angles",
                   .goes_with = "cos"},
                  {.name = "position",
                   .shape = {"rows"},
                   .type = integer,
                   .use = read_if_given,
                   .meaning = "the row of cos and sin of each token; a number without a row makes NaN",
                   .counts = {"positions"},
                   .goes_with = "cos"},
                  {"k_scale",
                   {"scale_pages", "scales"},
                   number,
                   read_if_given,
                   "what keys are divided by: one number, or one for each head, of all pages or of each"},
                  {"v_scale",
                   {"scale_pages", "scales"},
                   number,
                   read_if_given,
                   "what values are divided by, as k_scale"}},
      .limits = {.rows_of_thread = 1},
      .reduces = false,
      .build = append_kernel};
}

}  // namespace ptxbuilder::kernels
