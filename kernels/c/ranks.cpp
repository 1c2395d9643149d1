#include "kernels/c/ranks.h"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/c/grown.h"
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

}  // namespace

RankedCall read_ranked(const ptxb_ranked& given_ranked, bool with_memory, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_ranked, reserved) + sizeof given_ranked.reserved;
  const ptxb_ranked r = grown(given_ranked, PTXB_RANKED_INIT, kFirst, "ptxb_ranked", "PTXB_RANKED_INIT");
  if (r.ranks < 2) throw Error(fmt::format("ranks: {}; there are 2 at least", r.ranks));
  if (r.scatters != 0 && r.scatters != 1) throw Error(fmt::format("scatters: {}; it is 0 or 1", r.scatters));
  if (r.reserved != 0) throw Error(fmt::format("reserved: {}; it is 0", r.reserved));
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
  if (with_memory) {
    given(r.memory, "the list of the ranks' memory");
    for (int i = 0; i < r.ranks; ++i)
      p.memory.push_back(
          {address_of(&given(static_cast<char*>(r.memory[i]), "a rank's memory")), r.memory_bytes});
  }
  return call;
}

}  // namespace ptxbuilder::c
