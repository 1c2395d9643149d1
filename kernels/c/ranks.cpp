#include "kernels/c/ranks.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "kernels/c/grown.h"
#include "kernels/c/rows.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

using kernels::RankedForm;

// A matrix without gaps, stored row by row or, if that is allowed, column by column.
struct Matrix : Placed {
  bool is_along_rows = false;  // whether the columns are stored one after the other

  Matrix(const char* the_name, const ptxb_tensor* the_tensor, int gpu, bool may_be_turned = false)
      : Placed(the_name, the_tensor, gpu) {
    if (rank() != 2) throw Error(fmt::format("{}: {} dimensions; a matrix must have 2", name, rank()));
    const auto is_compact = [&](size_t outer, size_t inner) {
      return (extent(inner) <= 1 || stride(inner) == 1) &&
             (extent(outer) <= 1 || stride(outer) == extent(inner));
    };
    is_along_rows = may_be_turned && !is_compact(0, 1) && is_compact(1, 0);
    if (!is_along_rows && !is_compact(0, 1))
      throw Error(fmt::format("{}: it has gaps: make it contiguous", name));
  }
  void check(int64_t rows, int64_t columns, bool fits, const char* rule) const {
    if (extent(0) != rows || extent(1) != columns)
      throw Error(
          fmt::format("{}: it is {} x {}, but must be {} x {}", name, extent(0), extent(1), rows, columns));
    if (!fits) throw Error(fmt::format("{}: {}; {}", name, ptxbuilder::name(type), rule));
  }
};

void check_ranks(int ranks) {
  if (ranks < 2) throw Error(fmt::format("ranks is {}, but must be at least 2", ranks));
}

template <class Call>
std::vector<runtime::View> memory_of(const Call& call) {
  given(call.memory, "the list of the ranks' memory");
  std::vector<runtime::View> all;
  all.reserve(static_cast<size_t>(call.ranks));
  for (int i = 0; i < call.ranks; ++i)
    all.push_back(
        {address_of(&given(static_cast<char*>(call.memory[i]), "a rank's memory")), call.memory_bytes});
  return all;
}

}  // namespace

RankedCall read_ranked(const ptxb_ranked& given_ranked, bool with_memory, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_ranked, reserved) + sizeof given_ranked.reserved;
  const ptxb_ranked r = grown(given_ranked, PTXB_RANKED_INIT, kFirst, "ptxb_ranked", "PTXB_RANKED_INIT");
  check_ranks(r.ranks);
  for (const int32_t reserved : {r.reserved, r.reserved_too})
    if (reserved != 0) throw Error(fmt::format("reserved is {}, but must be 0", reserved));
  if (r.scatters < 0 || r.scatters > 2)
    throw Error(fmt::format("scatters is {}, but must be 0, 1 or 2", r.scatters));
  const Matrix a("A", r.a, gpu), b("B", r.b, gpu, true), d("D", r.d, gpu);
  RankedCall call;
  call.form = std::array{RankedForm::all_gather, RankedForm::reduce_scatter,
                         RankedForm::all_reduce}[static_cast<size_t>(r.scatters)];
  const bool gathers = call.form == RankedForm::all_gather,
             scatters = call.form == RankedForm::reduce_scatter;
  call.ranks = r.ranks;
  kernels::RankedArguments& p = call.arguments;
  if (scatters && a.extent(0) % r.ranks != 0)
    throw Error(
        fmt::format("A: {} rows; their number must be a multiple of the {} ranks", a.extent(0), r.ranks));
  p.rank = r.rank, p.multiprocessors = r.multiprocessors;
  p.rows = scatters ? a.extent(0) / r.ranks : a.extent(0);
  p.n = b.extent(0), p.k = a.extent(1), p.type = a.type, p.d_type = d.type;
  p.b_along_n = b.is_along_rows;
  const std::string of_a = fmt::format("A is {}", name(a.type));
  b.check(p.n, p.k, b.type == a.type, of_a.c_str());
  d.check(gathers ? p.rows * r.ranks : p.rows, p.n,
          a.type == DType::e4m3 ? is_half(d.type) : d.type == a.type, of_a.c_str());
  if (r.gathered) {
    const Matrix gathered("gathered", r.gathered, gpu);
    if (!gathers)
      throw Error(
          "gathered: it must be NULL if the sums are scattered or reduced, since nothing is gathered then");
    gathered.check(p.rows * r.ranks, p.k, gathered.type == a.type, of_a.c_str());
    p.kept = gathered.memory();
  }
  if (r.scale) p.scale = one_float("scale", r.scale, gpu);
  p.a = a.memory(), p.b = b.memory(), p.d = d.memory();
  if (with_memory) p.memory = memory_of(r);
  return call;
}

RankedNormCall read_ranked_norm(const ptxb_ranked_norm& given_norm, bool with_memory, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_ranked_norm, multiprocessors) + sizeof given_norm.multiprocessors;
  const ptxb_ranked_norm r =
      grown(given_norm, PTXB_RANKED_NORM_INIT, kFirst, "ptxb_ranked_norm", "PTXB_RANKED_NORM_INIT");
  check_ranks(r.ranks);
  RankedNormCall call;
  call.ranks = r.ranks;
  kernels::RankedNormArguments& p = call.arguments;
  p.rank = r.rank, p.epsilon = r.epsilon, p.multiprocessors = r.multiprocessors;
  p.x = read_row_operand("x", r.x, gpu);
  if (r.residual) p.residual = read_row_operand("residual", r.residual, gpu);
  if (r.weight) p.weight = read_row_operand("weight", r.weight, gpu);
  p.y = read_row_operand("y", r.y, gpu);
  p.new_residual = read_row_operand("new_residual", r.new_residual, gpu);
  if (with_memory) p.memory = memory_of(r);
  return call;
}

RankedTokensCall read_ranked_tokens(const ptxb_ranked_tokens& given_tokens, bool with_memory, int gpu) {
  constexpr size_t kFirst =
      offsetof(ptxb_ranked_tokens, multiprocessors) + sizeof given_tokens.multiprocessors;
  const ptxb_ranked_tokens r =
      grown(given_tokens, PTXB_RANKED_TOKENS_INIT, kFirst, "ptxb_ranked_tokens", "PTXB_RANKED_TOKENS_INIT");
  check_ranks(r.ranks);
  if (r.combines != 0 && r.combines != 1)
    throw Error(fmt::format("combines is {}, but must be 0 or 1", r.combines));
  const Matrix sorted("sorted", r.sorted, gpu), grouped("grouped", r.grouped, gpu),
      splits("splits", r.splits, gpu);
  RankedTokensCall call;
  call.form = r.combines ? kernels::TokenForm::combine : kernels::TokenForm::dispatch;
  call.ranks = r.ranks;
  kernels::RankedTokensArguments& p = call.arguments;
  if (grouped.extent(0) % r.ranks != 0)
    throw Error(
        fmt::format("grouped: it has {} rows, but their number must be a multiple of the {} ranks, since it "
                    "has room for the same number of rows of each",
                    grouped.extent(0), r.ranks));
  p.rank = r.rank, p.multiprocessors = r.multiprocessors;
  p.experts = splits.extent(1), p.rows = sorted.extent(0), p.most_rows = grouped.extent(0) / r.ranks;
  p.row_bytes = sorted.extent(1) * size_of(sorted.type);
  const std::string of_sorted = fmt::format("sorted is {}", name(sorted.type));
  grouped.check(grouped.extent(0), sorted.extent(1), grouped.type == sorted.type, of_sorted.c_str());
  splits.check(r.ranks, p.experts, splits.type == DType::s32, "it must have 32-bit integers");
  const auto ends_of = [&](const char* name, const ptxb_tensor* tensor, int64_t count) {
    const Placed ends(name, tensor, gpu);
    if (ends.rank() != 1 || ends.extent(0) != count || ends.type != DType::s32 ||
        (count > 1 && ends.stride(0) != 1))
      throw Error(
          fmt::format("{}: it must be {} 32-bit integers, one for each expert, without gaps", name, count));
    return ends.memory();
  };
  p.ends = ends_of("ends", r.ends, r.ranks * p.experts);
  if (!r.combines || r.grouped_ends) p.grouped_ends = ends_of("grouped_ends", r.grouped_ends, p.experts);
  p.sorted = sorted.memory(), p.grouped = grouped.memory(), p.splits = splits.memory();
  if (with_memory) p.memory = memory_of(r);
  return call;
}

}  // namespace ptxbuilder::c
