#include "kernels/ranks/ranked_product.h"

#include <fmt/format.h>

#include "kernels/call/kernel_cache.h"
#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"
#include "kernels/ranks/all_gather.h"
#include "kernels/ranks/choice.h"
#include "kernels/ranks/exchange.h"
#include "kernels/ranks/known_calls.h"
#include "kernels/ranks/reduce_scatter.h"

namespace ptxbuilder::kernels {
namespace {

constexpr std::string_view kName = "a product of ranks";

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
  check_peers(kName, p.memory, p.rank);
  if (p.rows < 1 || p.n < 1 || p.k < 1)
    throw Error(
        fmt::format("rows is {}, n is {} and k is {}, but each must be at least 1", p.rows, p.n, p.k));
  if (p.multiprocessors < 0)
    throw Error(fmt::format("multiprocessors is {}, but must be 0 or more", p.multiprocessors));
  constexpr int64_t most = (int64_t{1} << 31) - 4096;
  const bool gathers = form == RankedForm::all_gather, scatters = form == RankedForm::reduce_scatter;
  const int64_t all = gathers || scatters ? ranks * p.rows : p.rows;
  for (const auto& [name, value] : {std::pair{"all rows", all}, {"n", p.n}, {"k", p.k}})
    if (value > most)
      throw Error(fmt::format("{} is {}, but for a tensor map it must be at most {}", name, value, most));
  for (const auto& [name, value, type] : {std::tuple{"n", p.n, p.d_type}, {"k", p.k, p.type}})
    if (const int unit = 16 / size_of(type); value % unit != 0)
      throw Error(
          fmt::format("{} is {}, but must be a multiple of 16 B, which are {} elements", name, value, unit));
  const auto wants = [](const char* what, const runtime::View& memory, DType type, int64_t elements) {
    if (memory.address % 16 != 0)
      throw Error(fmt::format("{} begins at {:#x}, but for TMA it must begin at a multiple of 16 B", what,
                              memory.address));
    if (memory.bytes < static_cast<uint64_t>(elements * size_of(type)))
      throw Error(fmt::format("{} has {} B, but must have {}", what, memory.bytes, elements * size_of(type)));
  };
  wants("A", p.a, p.type, (scatters ? all : p.rows) * p.k);
  wants("B", p.b, p.type, p.n * p.k);
  wants("D", p.d, p.d_type, (gathers ? all : p.rows) * p.n);
  if (p.kept.address) wants("the gathered A", p.kept, p.type, all * p.k);
  if (p.scale.address && (p.scale.bytes < 4 || p.scale.address % 4 != 0))
    throw Error(fmt::format("scale has {} B at {:#x}, but must be one f32, at a multiple of 4 B",
                            p.scale.bytes, p.scale.address));
  check_peer_memory(kName, p.memory,
                    RankedProduct::memory_bytes(form, static_cast<int>(ranks), p.rows, p.n, p.k, p.type));
}

void check_blocks(const RankedArguments& p, RankedForm form, const RankedTile& t) {
  const bool gathers = form == RankedForm::all_gather;
  if (const int64_t blocks = ranked_blocks(form, t, p.rows, p.n); blocks > Exchange::most_blocks())
    throw Error(fmt::format(
        "the product has {} blocks of {} rows{}, but the exchange memory has words for {}", blocks,
        gathers ? t.bm : 64, gathers ? "" : fmt::format(" x {} columns", t.bn), Exchange::most_blocks()));
}

// Returns the tile, with those fields set that the arguments determine.
RankedTile with_arguments(RankedTile tile, const RankedArguments& p, RankedForm form) {
  tile.type = p.type, tile.d_type = p.d_type, tile.b_along_n = p.b_along_n;
  tile.is_scaled = p.scale.address != 0, tile.keeps = p.kept.address != 0;
  tile.to_all = form == RankedForm::all_reduce;
  return tile;
}

constexpr size_t kWords = kWordsOfPeers + 6 + RankedSources::kMostTensors * kWordsOfView;

auto words_of(const RankedArguments& p) {
  return [&p](const auto& word) {
    words_of_peers(word, 0, p);
    size_t at = kWordsOfPeers;
    for (const int64_t number : {p.rows, p.n, p.k, int64_t{p.b_along_n}, static_cast<int64_t>(p.type),
                                 static_cast<int64_t>(p.d_type)})
      word(at++, static_cast<uint64_t>(number));
    for (const runtime::View* view : {&p.a, &p.b, &p.d, &p.kept, &p.scale}) {
      words_of_view(word, at, *view);
      at += kWordsOfView;
    }
  };
}

RankedSources sources_of(const RankedArguments& p) {
  return {{p.a.address, p.b.address, p.d.address, p.kept.address, p.scale.address}, p.memory};
}

void add_arguments(SourcedArguments& to, const RankedArguments& p, RankedForm form, const RankedTile& tile) {
  enum { A, B, D, KEPT, SCALE };
  const size_t ranks = p.memory.size(), own = static_cast<size_t>(p.rank), next = (own + 1) % ranks;
  const auto [rows, n, k] =
      std::tuple(static_cast<uint64_t>(p.rows), static_cast<uint64_t>(p.n), static_cast<uint64_t>(p.k));
  const auto add = [&](size_t tensor, const runtime::Argument& argument) {
    to.add(RankedSources::tensor(tensor), [&] { return argument; });
  };
  const auto add_memory = [&](size_t rank, const runtime::Argument& argument) {
    to.add(RankedSources::memory(rank), [&] { return argument; });
  };
  const auto add_number = [&](auto value) {
    to.add(SourcedArguments::kNone, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
  };
  const auto data = [&](size_t rank) {
    return runtime::View{p.memory[rank].address + kExchangeBytes, p.memory[rank].bytes - kExchangeBytes};
  };
  const runtime::Argument b =
      p.b_along_n ? runtime::tensor(p.b, p.type, {n, k}) : runtime::tensor(p.b, p.type, {k, n});
  if (form == RankedForm::all_gather) {
    add(A, runtime::tensor(p.a, p.type, {k, rows, 1}));
    add(A, runtime::pointer(p.a, DType::u32));
    add_memory(own, runtime::tensor(data(own), p.type, {k, rows, ranks}));
    add(B, b);
    add(D, runtime::tensor(p.d, p.d_type, {n, rows, ranks}));
  } else {
    const uint64_t batches = tile.to_all ? 1 : ranks;
    add(A, runtime::tensor(p.a, p.type, {k, rows, batches}));
    add(B, b);
    add_memory(own, runtime::pointer(data(own), p.d_type));
    add_memory(next, runtime::tensor(data(next), p.d_type, {n, rows, batches}));
    add(D, runtime::tensor(p.d, p.d_type, {n, rows, 1}));
  }
  for (size_t r = 0; r < ranks; ++r) add_memory(r, runtime::pointer(p.memory[r], DType::u32));
  for (const int64_t number : {rows_of_rank(form, tile, p.rows), p.n, p.k, int64_t{p.rank}})
    add_number(number);
  if (tile.to_all) {
    add_number(p.rows);
    add(D, runtime::pointer(p.d, p.d_type));
  }
  if (tile.keeps) add(KEPT, runtime::pointer(p.kept, DType::u32));
  if (tile.is_scaled) add(SCALE, runtime::pointer(p.scale, DType::f32));
}

}  // namespace

struct RankedProduct::State {
  State(runtime::Device& the_device, RankedForm the_form, const LoadOptions& options)
      : device(the_device),
        form(the_form),
        load_options(options),
        multiprocessors(the_device.properties().multiprocessors) {}

  runtime::LoadedKernel& kernel(const RankedTile& tile) {
    return kernels.get(form, tile, [&] {
      const WatchedKernels watched;
      Kernel made = form == RankedForm::all_gather ? all_gather_product(tile) : product_reduce_scatter(tile);
      return std::make_unique<runtime::LoadedKernel>(load(device, std::move(made), load_options));
    });
  }
  int multiprocessors_of(const RankedArguments& p) const {
    return p.multiprocessors ? p.multiprocessors : multiprocessors;
  }

  void call(const RankedArguments& p, Where where) {
    if (known.queue(p.memory, words_of(p), sources_of(p), p.stream)) return;
    RankedTile fixed = with_arguments({}, p, form);
    fixed.ranks = static_cast<int>(p.memory.size());
    kernels::check(fixed);
    check(p, form);
    call(p, ranked_choice(form, fixed, p.rows, p.n, p.k, multiprocessors_of(p)), where, true);
  }

  void call(const RankedArguments& p, const RankedTile& given, Where where, bool is_kept) {
    const RankedTile tile = with_arguments(given, p, form);
    kernels::check(tile);
    check(p, form);
    if (tile.ranks != static_cast<int>(p.memory.size()))
      throw Error(
          fmt::format("the tile is for {} ranks, but the product is of {}", tile.ranks, p.memory.size()));
    if (tile.keeps && form != RankedForm::all_gather)
      throw Error(fmt::format(
          "a product and {} cannot keep the gathered A, since it does not gather anything", name(form)));
    check_blocks(p, form, tile);
    const RankedSources sources = sources_of(p);
    SourcedArguments arguments(sources, p.memory.size() + 13);
    add_arguments(arguments, p, form, tile);
    known.launch(kernel(tile),
                 {.grid = {ranked_grid(form, tile, p.rows, p.n, multiprocessors_of(p))}, .stream = p.stream},
                 arguments, words_of(p), where, is_kept);
  }

  std::string described(const RankedArguments& p) const {
    return fmt::format("a product of {} ranks and {}, rows {} n {} k {} of {}", p.memory.size(), name(form),
                       p.rows, p.n, p.k, ptxbuilder::name(p.type));
  }

  runtime::Device& device;
  const RankedForm form;
  const LoadOptions load_options;
  const int multiprocessors;
  KernelCache<RankedForm, RankedTile> kernels = {};
  KnownRankedCalls<kWords> known = {};
};

RankedProduct::RankedProduct(runtime::Device& device, RankedForm form, const LoadOptions& options)
    : state_(std::make_unique<State>(device, form, options)) {}
RankedProduct::~RankedProduct() = default;

size_t RankedProduct::memory_bytes(RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k,
                                   DType type) {
  const int64_t of_row = form == RankedForm::all_gather ? k * size_of(type) : n * 2;
  const int64_t all = form == RankedForm::all_reduce ? rows : ranks * rows;
  return kExchangeBytes + static_cast<size_t>(all * of_row);
}

void RankedProduct::operator()(const RankedArguments& p, Where where) {
  AtLine line(where);
  told_call([&] { return state_->described(p); }, [&] { state_->call(p, where); });
}

void RankedProduct::operator()(const RankedArguments& p, const RankedTile& tile, Where where) {
  AtLine line(where);
  told_call([&] { return state_->described(p); }, [&] { state_->call(p, tile, where, false); });
}

}  // namespace ptxbuilder::kernels
