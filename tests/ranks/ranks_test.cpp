// Tests products of several ranks on emulated devices: their results against float64 for random shapes and
// schedules, and the report if one piece of the code is wrong.
#include <doctest/doctest.h>

#include "error_kit.h"
#include "kernels/ranks/all_gather.h"
#include "kernels/ranks/choice.h"
#include "kernels/ranks/reduce_scatter.h"
#include "ptxbuilder/isa/hopper.h"
#include "tests/ranks/mutant_kit.h"
#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder::test::ranks_test {
namespace {

kernels::RankedTile small_tile(int ranks, int cluster) {
  kernels::RankedTile tile;
  tile.ranks = ranks, tile.cluster = cluster;
  tile.bm = 64, tile.bn = 32, tile.stages = 3, tile.group = 2, tile.piece_bytes = 2048;
  return tile;
}

// Queues two calls one after the other, so that the second finds the data of the first. Makes `pairs` such
// pairs, each with its own data and schedule. Without a tile, the calls use a tile that suits their size.
void call_twice(const RankedCase& c, const std::optional<kernels::RankedTile>& tile, uint64_t seed,
                const LoadOptions& options, int multiprocessors = 4, uint64_t pairs = 1) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  std::vector<std::unique_ptr<kernels::RankedProduct>> products;
  for (auto& device : devices)
    products.push_back(std::make_unique<kernels::RankedProduct>(*device, c.form, options));
  for (uint64_t pair = 0; pair < pairs; ++pair) {
    RankedRun run(devices, c, seed + pair + 1);
    for (int call = 0; call < 2; ++call)
      for (int r = 0; r < c.ranks; ++r) {
        kernels::RankedArguments p = run.arguments(r);
        p.multiprocessors = multiprocessors;
        kernels::RankedProduct& product = *products[static_cast<size_t>(r)];
        tile ? product(p, *tile) : product(p);
      }
    run.synchronize();
    CHECK(run.worst() <= 1);
    if (c.keeps) CHECK(run.has_kept());
    if (c.form == RankedForm::all_reduce) CHECK(run.is_same_on_all());
  }
}

constexpr std::array kForms = {RankedForm::all_gather, RankedForm::reduce_scatter, RankedForm::all_reduce};

struct Mutant : PtxMutant {
  RankedForm form;
};

std::string ptx_of_form(RankedForm form, const kernels::RankedTile& tile) {
  return compiled_ptx(form == RankedForm::all_gather ? kernels::all_gather_product(tile)
                                                     : kernels::product_reduce_scatter(tile));
}

}  // namespace

TEST_CASE("products of ranks are right on every schedule") {
  std::mt19937_64 engine(53);
  int number = 0;  // combines each form with every type and both orders of B
  for (const int ranks : ranks_or({2, 3, 4}))
    for (const RankedForm form : kForms)
      for (const int cluster : {1, 2}) {
        RankedCase c{form, ranks};
        c.rows = 1 + static_cast<int64_t>(engine() % 150);
        c.n = 8 * (1 + static_cast<int64_t>(engine() % 14));
        c.k = 16 * (1 + static_cast<int64_t>(engine() % 20));
        c.type = std::array{DType::bf16, DType::f16, DType::e4m3}[static_cast<size_t>(number % 3)];
        c.d_type = c.type == DType::e4m3 ? DType::f16 : c.type;
        c.b_along_n = c.type != DType::e4m3 && number / 3 % 2 != 0;
        c.keeps = form == RankedForm::all_gather && (ranks + cluster) % 2 != 0;
        c.is_scaled = engine() % 2 != 0;
        ++number;
        const uint64_t seed = ranks == 2 && cluster == 1 ? 0 : engine() % 1000;
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(form));
        CAPTURE(c.rows);
        CAPTURE(c.n);
        CAPTURE(c.k);
        CAPTURE(name(c.type));
        CAPTURE(c.b_along_n);
        CAPTURE(c.keeps);
        CAPTURE(c.is_scaled);
        CAPTURE(seed);
        kernels::RankedTile tile = small_tile(ranks, cluster);
        if (c.b_along_n) tile.bn = 64;  // its rows have 128 bytes
        if (form == RankedForm::all_reduce) c.rows *= ranks, tile.rounds = 1 + number % 3;
        // A CTA has several tiles, or one, or none.
        call_twice(c, tile, seed, uncached(), (number + number / 4) % 2 == 0 ? 4 : 20);
      }
}

TEST_CASE("short products of ranks are right on twenty schedules") {
  const Folder folder;
  LoadOptions options = uncached();
  options.ptx_file = folder.path("short.ptx");
  for (const RankedForm form : kForms)
    for (const int ranks : ranks_or({2, 3, 4, 8})) {
      RankedCase c{form, ranks, 70, 40, 40};
      kernels::RankedTile tile = small_tile(ranks, ranks == 3 ? 2 : 1);
      tile.keeps = c.keeps = form == RankedForm::all_gather && ranks == 3;
      tile.to_all = form == RankedForm::all_reduce;
      if (tile.to_all) c.rows = 150, c.n = 24, tile.rounds = 2;
      std::ofstream(options.ptx_file) << ptx_of_form(form, tile);
      const bool is_brief = ranks == 8 && asked_ranks == 0;
      for (const uint64_t seed : is_brief ? std::vector<uint64_t>{9} : std::vector<uint64_t>{0, 9}) {
        CAPTURE(static_cast<int>(form));
        CAPTURE(ranks);
        CAPTURE(seed);
        call_twice(c, tile, seed, options, seed == 0 ? 2 : 3,
                   asked_ranks  ? 10
                   : ranks == 2 ? 5
                   : ranks == 8 ? 1
                                : 3);
      }
    }
}

TEST_CASE("calls of all forms and sizes take turns on the same exchange memory") {
  const int ranks = 3;
  auto devices = ranked_devices("emulator", ranks, of_seed(11));
  const std::vector<RankedCase> cases = {{RankedForm::reduce_scatter, ranks, 90, 72, 64},
                                         {RankedForm::all_gather, ranks, 140, 40, 96},
                                         {RankedForm::all_reduce, ranks, 200, 48, 64},
                                         {RankedForm::all_gather, ranks, 20, 64, 64}};
  std::vector<std::unique_ptr<kernels::RankedProduct>> products;
  std::vector<std::unique_ptr<RankedRun>> runs;
  for (const RankedCase& c : cases) {
    for (auto& device : devices)
      products.push_back(std::make_unique<kernels::RankedProduct>(*device, c.form, uncached()));
    runs.push_back(std::make_unique<RankedRun>(devices, c, runs.size()));
  }
  std::vector<runtime::View> memory = runs[0]->arguments(0).memory;
  for (const auto& run : runs)
    if (const auto other = run->arguments(0).memory; other[0].bytes > memory[0].bytes) memory = other;
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < cases.size(); ++i)
      for (int r = 0; r < ranks; ++r) {
        kernels::RankedArguments p = runs[i]->arguments(r);
        p.memory = memory, p.multiprocessors = 3;
        (*products[i * ranks + static_cast<size_t>(r)])(p, small_tile(ranks, 1 + round));
      }
  runs[0]->synchronize();
  for (const auto& run : runs) CHECK(run->worst() <= 1);
}

TEST_CASE("a product of ranks has a tile that suits its size") {
  const auto chosen = [](RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k) {
    kernels::RankedTile fixed;
    fixed.ranks = ranks;
    return kernels::ranked_choice(form, fixed, rows, n, k, hopper::multiprocessors);
  };
  using enum RankedForm;
  for (const RankedForm form : {all_gather, reduce_scatter}) {
    CAPTURE(static_cast<int>(form));
    const kernels::RankedTile large = chosen(form, 2, 4096, 8192, 8192);
    CHECK(large.bm == 128);
    CHECK(large.bn == 256);
    CHECK(large.cluster == 2);
    const kernels::RankedTile small = chosen(form, 2, 416, 896, 8704);
    CHECK(small.bm * small.bn <= 128 * 128);
  }
  // Here, the 65408 words are fewer than the blocks of 64 x 64, but not fewer than the blocks of 64 x 256.
  const kernels::RankedTile many = chosen(reduce_scatter, 2, 16384, 16384, 64);
  CHECK(kernels::ranked_blocks(reduce_scatter, many, 16384, 16384) <= kernels::Exchange::most_blocks());

  // Every chosen tile must be a valid kernel.
  std::mt19937_64 engine(55);
  std::vector<std::pair<RankedForm, kernels::RankedTile>> known;
  for (int i = 0; i < 100; ++i) {
    const RankedForm form = engine() % 2 ? all_gather : reduce_scatter;
    const auto size = [&] { return int64_t{1} << (4 + engine() % 11); };
    const kernels::RankedTile t = chosen(form, 2 + static_cast<int>(engine() % 7), size(), size(), size());
    if (std::ranges::find(known, std::pair(form, t)) != known.end()) continue;
    known.emplace_back(form, t);
    Kernel k = form == all_gather ? kernels::all_gather_product(t) : kernels::product_reduce_scatter(t);
    k.finish();
  }
  CHECK(known.size() > 10);
  for (const RankedForm form : {all_gather, reduce_scatter})
    call_twice({form, 2, 100, 136, 72}, std::nullopt, 3, uncached());
}

TEST_CASE("what orders the ranks of a product is named where it is wrong") {
  using enum RankedForm;
  const std::string written = "cp\\.async\\.bulk\\.wait_group [01];",
                    not_waited = "cp.async.bulk.wait_group 60;";
  std::vector<Mutant> mutants = {
      {{"rows are signalled ahead of their coming", written, not_waited}, all_gather},
      {{"sums are signalled ahead of their coming", written, not_waited}, reduce_scatter},
      {{"sums are copied ahead of their coming", written, not_waited}, all_reduce},
      {{"a piece is loaded anew before it was sent", "wait_group\\.read 1;", "wait_group.read 60;"},
       all_gather},
      {{"signals of the call before are there", "st\\.global\\.b32\\s+\\[%rd\\d+\\], 0;", ""}, all_gather}};
  for (const RankedForm form : kForms) {
    mutants.push_back({{"a release of the GPU's scope", "red\\.release\\.sys", "red.release.gpu"}, form});
    mutants.push_back({{"an acquire of the GPU's scope", "ld\\.acquire\\.sys", "ld.acquire.gpu"}, form});
    mutants.push_back({{"another rank's words", "_param_6\\]", "_param_5]"}, form});
    // Only open() signals in this way, to announce all calls to come. An all-reduce is left out: it would
    // count signals of the next call as its own, so that its sums would be wrong, but in order.
    if (form != all_reduce)
      mutants.push_back({{"memory is free that is still read",
                          "(red\\.relaxed\\.sys\\.global\\.add\\.u32 \\[%rd\\d+\\]), 1", "$1, 100"},
                         form});
  }
  const int ranks = ranks_or({2}).front();
  for (const Mutant& m : mutants) {
    kernels::RankedTile tile = small_tile(ranks, 1);
    tile.to_all = m.form == all_reduce;
    const std::string what = m.what;
    CAPTURE(what);
    CAPTURE(static_cast<int>(m.form));
    const RankedCase c{m.form, ranks, 100, 48, 320};
    const std::string report =
        report_of(m, ptx_of_form(m.form, tile),
                  [&](uint64_t seed, const LoadOptions& o) { call_twice(c, tile, seed, o); });
    CHECK(report.find("of device ") != std::string::npos);
  }
}

TEST_CASE("calls of ranks that cannot be right are refused") {
  auto devices = ranked_devices("emulator", 2);
  kernels::RankedProduct product(*devices[0], RankedForm::all_gather, uncached());
  const RankedCase c{RankedForm::all_gather, 2, 64, 64, 64};
  RankedRun run(devices, c, 1);
  const auto refused = [&](const std::function<void(kernels::RankedArguments&)>& change,
                           const std::string& why) {
    kernels::RankedArguments p = run.arguments(0);
    change(p);
    CHECK_THROWS_WITH_AS(product(p), doctest::Contains(why.c_str()), Error);
  };
  refused([](auto& p) { p.rank = 2; }, "the rank is 2 of 2");
  refused([](auto& p) { p.memory.pop_back(); }, "a product of ranks has 1 ranks, but must have 2 to 64");
  refused([](auto& p) { p.k = 63; }, "k is 63, but must be a multiple of 16 B, which are 8 elements");
  refused([](auto& p) { p.rows = 0; }, "rows is 0");
  refused([](auto& p) { p.rows = 65; }, "A has 8192 B, but must have 8320");
  refused([](auto& p) { p.memory[1].bytes -= 2; }, "the exchange memory of rank 1 has 278526 B");
  refused([](auto& p) { p.type = DType::f32; }, "does not support f32; A and B must be bf16, f16 or e4m3");
  refused([](auto& p) { p.type = DType::f16; },
          "of f16 cannot have a result of bf16; the result must be of the operands' type");
  refused([](auto& p) { p.type = DType::e4m3, p.b_along_n = true; }, "needs B contiguous along k");
  refused([](auto& p) { p.type = DType::e4m3, p.k = 56; },
          "k is 56, but must be a multiple of 16 B, which are 16 elements");
  refused([&](auto& p) { p.kept = {p.d.address, 16000}; }, "the gathered A has 16000 B, but must have 16384");
  refused([](auto& p) { p.scale = {p.d.address, 2}; }, "scale has 2 B");
  kernels::RankedProduct scatter(*devices[0], RankedForm::reduce_scatter, uncached());
  RankedRun scattered(devices, {RankedForm::reduce_scatter, 2, 64, 64, 64}, 1);
  kernels::RankedArguments p = scattered.arguments(0);
  p.kept = p.a;
  CHECK_ERROR(scatter(p), "since it does not gather anything");
}

}  // namespace ptxbuilder::test::ranks_test
