#include "kernels/ranks/ranked_product.h"

#include <fmt/format.h>

#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"
#include "kernels/ranks/all_gather.h"
#include "kernels/ranks/choice.h"
#include "kernels/ranks/exchange.h"
#include "kernels/ranks/reduce_scatter.h"

namespace ptxbuilder::kernels {
namespace {

std::string_view name(RankedForm form) {
  switch (form) {
    case RankedForm::all_gather:
      return "all-gather";
    case RankedForm::reduce_scatter:
      return "reduce-scatter";
    case RankedForm::all_reduce:
      return "all-reduce";
  }
  return "";
}

void check(const RankedArguments& p, RankedForm form) {
  const auto ranks = static_cast<int64_t>(p.memory.size());
  if (p.rank < 0 || p.rank >= ranks)
    throw Error(fmt::format("rank {} of {}; the exchange memory of each rank is given, this one's too",
                            p.rank, ranks));
  if (p.rows < 1 || p.n < 1 || p.k < 1)
    throw Error(fmt::format("rows {}, n {}, k {}; each is 1 at least", p.rows, p.n, p.k));
  if (p.multiprocessors < 0) throw Error(fmt::format("multiprocessors {}; 0 or more", p.multiprocessors));
  constexpr int64_t most = (int64_t{1} << 31) - 4096;
  const bool gathers = form == RankedForm::all_gather, scatters = form == RankedForm::reduce_scatter;
  const int64_t all = gathers || scatters ? ranks * p.rows : p.rows;
  for (const auto& [name, value] : {std::pair{"all rows", all}, {"n", p.n}, {"k", p.k}})
    if (value > most) throw Error(fmt::format("{} is {}; a tensor map has {} at most", name, value, most));
  for (const auto& [name, value, type] : {std::tuple{"n", p.n, p.d_type}, {"k", p.k, p.type}})
    if (const int unit = 16 / size_of(type); value % unit != 0)
      throw Error(
          fmt::format("{} is {}; rows are multiples of 16 B, which are {} elements", name, value, unit));
  const auto wants = [](const char* what, const runtime::View& memory, DType type, int64_t elements) {
    if (memory.address % 16 != 0)
      throw Error(fmt::format("{} begins at {:#x}; TMA takes multiples of 16 B", what, memory.address));
    if (memory.bytes < static_cast<uint64_t>(elements * size_of(type)))
      throw Error(fmt::format("{} has {} B; it takes {}", what, memory.bytes, elements * size_of(type)));
  };
  wants("A", p.a, p.type, (scatters ? all : p.rows) * p.k);
  wants("B", p.b, p.type, p.n * p.k);
  wants("D", p.d, p.d_type, (gathers ? all : p.rows) * p.n);
  if (p.kept.address) wants("the gathered A", p.kept, p.type, all * p.k);
  if (p.scale.address && (p.scale.bytes < 4 || p.scale.address % 4 != 0))
    throw Error(
        fmt::format("scale has {} B at {:#x}; it is one number of f32", p.scale.bytes, p.scale.address));
  const size_t bytes = RankedProduct::memory_bytes(form, static_cast<int>(ranks), p.rows, p.n, p.k, p.type);
  for (size_t r = 0; r < p.memory.size(); ++r) {
    if (p.memory[r].address % 256 != 0 || p.memory[r].bytes < bytes)
      throw Error(
          fmt::format("the exchange memory of rank {} has {} B at {:#x}; it takes {} at a multiple of 256", r,
                      p.memory[r].bytes, p.memory[r].address, bytes));
  }
}

void check_blocks(const RankedArguments& p, RankedForm form, const RankedTile& t) {
  const bool gathers = form == RankedForm::all_gather;
  if (const int64_t blocks = ranked_blocks(form, t, p.rows, p.n); blocks > Exchange::most_blocks())
    throw Error(fmt::format("a product of {} blocks of {} rows{}; the exchange memory has words for {}",
                            blocks, gathers ? t.bm : 64, gathers ? "" : fmt::format(" x {} columns", t.bn),
                            Exchange::most_blocks()));
}

// The tile's fields that the arguments decide.
RankedTile with_arguments(RankedTile tile, const RankedArguments& p, RankedForm form) {
  tile.type = p.type, tile.d_type = p.d_type, tile.b_along_n = p.b_along_n;
  tile.is_scaled = p.scale.address != 0, tile.keeps = p.kept.address != 0;
  tile.to_all = form == RankedForm::all_reduce;
  return tile;
}

}  // namespace

RankedProduct::RankedProduct(runtime::Device& device, RankedForm form, const LoadOptions& options)
    : device_(device),
      form_(form),
      options_(options),
      multiprocessors_(device.properties().multiprocessors) {}

size_t RankedProduct::memory_bytes(RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k,
                                   DType type) {
  const int64_t of_row = form == RankedForm::all_gather ? k * size_of(type) : n * 2;
  const int64_t all = form == RankedForm::all_reduce ? rows : ranks * rows;
  return kExchangeBytes + static_cast<size_t>(all * of_row);
}

runtime::LoadedKernel& RankedProduct::kernel(const RankedTile& tile) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, kernel] : kernels_)
    if (known == tile) return *kernel;
  const WatchedKernels watched;
  Kernel made = form_ == RankedForm::all_gather ? all_gather_product(tile) : product_reduce_scatter(tile);
  return *kernels_
              .emplace_back(tile,
                            std::make_unique<runtime::LoadedKernel>(load(device_, std::move(made), options_)))
              .second;
}

void RankedProduct::operator()(const RankedArguments& p, Where where) {
  AtLine line(where);
  RankedTile fixed = with_arguments({}, p, form_);
  fixed.ranks = static_cast<int>(p.memory.size());
  kernels::check(fixed);
  check(p, form_);
  (*this)(p, ranked_choice(form_, fixed, p.rows, p.n, p.k, multiprocessors_of(p)), where);
}

void RankedProduct::operator()(const RankedArguments& p, const RankedTile& given, Where where) {
  AtLine line(where);
  const RankedTile tile = with_arguments(given, p, form_);
  kernels::check(tile);
  check(p, form_);
  if (tile.ranks != static_cast<int>(p.memory.size()))
    throw Error(fmt::format("a tile of {} ranks for {}", tile.ranks, p.memory.size()));
  if (tile.keeps && form_ != RankedForm::all_gather)
    throw Error(fmt::format("a product and {} that keeps the gathered A; it gathers none", name(form_)));
  check_blocks(p, form_, tile);
  const auto ranks = p.memory.size();
  const auto [rows, n, k] =
      std::tuple(static_cast<uint64_t>(p.rows), static_cast<uint64_t>(p.n), static_cast<uint64_t>(p.k));
  const runtime::View &own = p.memory[static_cast<size_t>(p.rank)],
                      &next = p.memory[(static_cast<size_t>(p.rank) + 1) % ranks];
  const auto data = [](const runtime::View& memory) {
    return runtime::View{memory.address + kExchangeBytes, memory.bytes - kExchangeBytes};
  };
  const uint64_t batches = tile.to_all ? 1 : ranks;
  const auto number = [](auto value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  const runtime::Argument b =
      p.b_along_n ? runtime::tensor(p.b, p.type, {n, k}) : runtime::tensor(p.b, p.type, {k, n});
  std::vector<runtime::Argument> arguments;
  if (form_ == RankedForm::all_gather)
    arguments = {runtime::tensor(p.a, p.type, {k, rows, 1}), runtime::pointer(p.a, DType::u32),
                 runtime::tensor(data(own), p.type, {k, rows, ranks}), b,
                 runtime::tensor(p.d, p.d_type, {n, rows, ranks})};
  else
    arguments = {runtime::tensor(p.a, p.type, {k, rows, batches}), b, runtime::pointer(data(own), p.d_type),
                 runtime::tensor(data(next), p.d_type, {n, rows, batches}),
                 runtime::tensor(p.d, p.d_type, {n, rows, 1})};
  for (const runtime::View& memory : p.memory) arguments.push_back(runtime::pointer(memory, DType::u32));
  for (const runtime::Argument& more :
       {number(rows_of_rank(form_, tile, p.rows)), number(p.n), number(p.k), number(p.rank)})
    arguments.push_back(more);
  if (tile.to_all)
    for (const runtime::Argument& more : {number(p.rows), runtime::pointer(p.d, p.d_type)})
      arguments.push_back(more);
  if (tile.keeps) arguments.push_back(runtime::pointer(p.kept, DType::u32));
  if (tile.is_scaled) arguments.push_back(runtime::pointer(p.scale, DType::f32));
  const auto described = [&] {
    return fmt::format("a product of {} ranks and {}, rows {} n {} k {} of {}", ranks, name(form_), p.rows,
                       p.n, p.k, ptxbuilder::name(p.type));
  };
  told_call(described, [&] {
    kernel(tile).launch(
        {.grid = {ranked_grid(form_, tile, p.rows, p.n, multiprocessors_of(p))}, .stream = p.stream},
        arguments);
  });
}

}  // namespace ptxbuilder::kernels
