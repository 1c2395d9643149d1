#include "kernels/c/ranks.h"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/c/grown.h"
#include "kernels/c/rows.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

// A matrix without gaps.
struct Matrix : Placed {
  Matrix(const char* the_name, const ptxb_tensor* the_tensor, int gpu) : Placed(the_name, the_tensor, gpu) {
    if (rank() != 2) throw Error(fmt::format("{}: {} dimensions; a matrix has 2", name, rank()));
    if ((extent(1) > 1 && stride(1) != 1) || (extent(0) > 1 && stride(0) != extent(1)))
      throw Error(fmt::format("{}: it has gaps: make it contiguous", name));
  }
  void check(const Matrix& first, int64_t rows, int64_t columns) const {
    if (extent(0) != rows || extent(1) != columns)
      throw Error(
          fmt::format("{}: {} x {}; it has to be {} x {}", name, extent(0), extent(1), rows, columns));
    if (type != first.type)
      throw Error(fmt::format("{}: {}, but {} is {}", name, ptxbuilder::name(type), first.name,
                              ptxbuilder::name(first.type)));
  }
};

void check_ranks(int ranks, int reserved) {
  if (ranks < 2) throw Error(fmt::format("ranks: {}; there are 2 at least", ranks));
  if (reserved != 0) throw Error(fmt::format("reserved: {}; it is 0", reserved));
}

template <class Call>
std::vector<runtime::View> memory_of(const Call& call) {
  given(call.memory, "the list of the ranks' memory");
  std::vector<runtime::View> all;
  for (int i = 0; i < call.ranks; ++i)
    all.push_back(
        {address_of(&given(static_cast<char*>(call.memory[i]), "a rank's memory")), call.memory_bytes});
  return all;
}

}  // namespace

RankedCall read_ranked(const ptxb_ranked& given_ranked, bool with_memory, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_ranked, reserved) + sizeof given_ranked.reserved;
  const ptxb_ranked r = grown(given_ranked, PTXB_RANKED_INIT, kFirst, "ptxb_ranked", "PTXB_RANKED_INIT");
  check_ranks(r.ranks, r.reserved);
  if (r.scatters != 0 && r.scatters != 1) throw Error(fmt::format("scatters: {}; it is 0 or 1", r.scatters));
  const Matrix a("A", r.a, gpu), b("B", r.b, gpu), d("D", r.d, gpu);
  RankedCall call;
  call.form = r.scatters ? kernels::RankedForm::reduce_scatter : kernels::RankedForm::all_gather;
  call.ranks = r.ranks;
  kernels::RankedArguments& p = call.arguments;
  if (r.scatters && a.extent(0) % r.ranks != 0)
    throw Error(fmt::format("A: {} rows, which {} ranks do not divide evenly", a.extent(0), r.ranks));
  p.rank = r.rank;
  p.rows = r.scatters ? a.extent(0) / r.ranks : a.extent(0);
  p.n = b.extent(0), p.k = a.extent(1), p.type = a.type;
  b.check(a, p.n, p.k);
  d.check(a, r.scatters ? p.rows : p.rows * r.ranks, p.n);
  p.a = a.memory(), p.b = b.memory(), p.d = d.memory();
  if (with_memory) p.memory = memory_of(r);
  return call;
}

RankedNormCall read_ranked_norm(const ptxb_ranked_norm& given_norm, bool with_memory, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_ranked_norm, reserved) + sizeof given_norm.reserved;
  const ptxb_ranked_norm r =
      grown(given_norm, PTXB_RANKED_NORM_INIT, kFirst, "ptxb_ranked_norm", "PTXB_RANKED_NORM_INIT");
  check_ranks(r.ranks, r.reserved);
  RankedNormCall call;
  call.ranks = r.ranks;
  kernels::RankedNormArguments& p = call.arguments;
  p.rank = r.rank, p.epsilon = r.epsilon;
  p.x = read_row_operand("x", r.x, gpu);
  if (r.residual) p.residual = read_row_operand("residual", r.residual, gpu);
  if (r.weight) p.weight = read_row_operand("weight", r.weight, gpu);
  p.y = read_row_operand("y", r.y, gpu);
  p.new_residual = read_row_operand("new_residual", r.new_residual, gpu);
  if (with_memory) p.memory = memory_of(r);
  return call;
}

}  // namespace ptxbuilder::c
