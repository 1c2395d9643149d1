// Products of several ranks on devices of the emulator: right by float64 on drawn shapes and schedules, and
// with one piece put wrong, named.
#include <doctest/doctest.h>

#include "error_kit.h"
#include "kernels/ranks/all_gather.h"
#include "kernels/ranks/reduce_scatter.h"
#include "tests/ranks/mutant_kit.h"
#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder::test::ranks_test {
namespace {

kernels::RankedTile small_tile(int ranks, int cluster) {
  kernels::RankedTile tile;
  tile.ranks = ranks, tile.cluster = cluster;
  tile.bm = 64, tile.bn = 32, tile.stages = 3, tile.group = 2;
  return tile;
}

// Two calls, one queued after the other, where the second finds the first one's data.
void call_twice(const RankedCase& c, const kernels::RankedTile& tile, uint64_t seed,
                const LoadOptions& options) {
  auto devices = ranked_devices("emulator", c.ranks, of_seed(seed));
  std::vector<std::unique_ptr<kernels::RankedProduct>> products;
  for (auto& device : devices)
    products.push_back(std::make_unique<kernels::RankedProduct>(*device, c.form, options));
  RankedRun run(devices, c, seed + 1);
  for (int call = 0; call < 2; ++call)
    for (int r = 0; r < c.ranks; ++r) {
      kernels::RankedArguments p = run.arguments(r);
      p.multiprocessors = 4;  // each CTA has several tiles
      (*products[static_cast<size_t>(r)])(p, tile);
    }
  run.synchronize();
  CHECK(run.worst() <= 1);
  if (c.keeps) CHECK(run.has_kept());
}

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
  int number = 0;  // Each form gets every type by it, and B of either order.
  for (const int ranks : {2, 3, 4})
    for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter})
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
        if (c.b_along_n) tile.bn = 64;  // Its rows have 128 bytes.
        call_twice(c, tile, seed, uncached());
      }
}

TEST_CASE("what orders the ranks of a product is named where it is wrong") {
  using enum RankedForm;
  const std::string written = "cp\\.async\\.bulk\\.wait_group 0;",
                    not_waited = "cp.async.bulk.wait_group 60;";
  std::vector<Mutant> mutants = {
      {{"rows are signalled ahead of their coming", written, not_waited}, all_gather},
      {{"sums are signalled ahead of their coming", written, not_waited}, reduce_scatter},
      {{"a stage is loaded anew before it was sent", "wait_group\\.read 1;", "wait_group.read 60;"},
       all_gather}};
  for (const RankedForm form : {all_gather, reduce_scatter}) {
    mutants.push_back({{"a release of the GPU's scope", "st\\.release\\.sys", "st.release.gpu"}, form});
    mutants.push_back({{"an acquire of the GPU's scope", "ld\\.acquire\\.sys", "ld.acquire.gpu"}, form});
    mutants.push_back({{"another rank's words", "_param_6\\]", "_param_5]"}, form});
    // open() comes first, and says so of all calls to come.
    mutants.push_back({{"memory is free that is still read",
                        "(st\\.release\\.sys\\.global\\.u32 \\[%rd\\d+\\]), %r\\d+", "$1, 100", true},
                       form});
  }
  const kernels::RankedTile tile = small_tile(2, 1);
  for (const Mutant& m : mutants) {
    const std::string what = m.what;
    CAPTURE(what);
    CAPTURE(static_cast<int>(m.form));
    const RankedCase c{m.form, 2, 100, 48, 320};
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
  refused([](auto& p) { p.rank = 2; }, "rank 2 of 2");
  refused([](auto& p) { p.memory.pop_back(); }, "a product of 1 ranks; there may be 2 to 64");
  refused([](auto& p) { p.k = 63; }, "k is 63; rows are multiples of 16 B, which are 8 elements");
  refused([](auto& p) { p.rows = 0; }, "rows 0");
  refused([](auto& p) { p.rows = 65; }, "A has 8192 B; it takes 8320");
  refused([](auto& p) { p.memory[1].bytes -= 2; }, "the exchange memory of rank 1 has 278526 B");
  refused([](auto& p) { p.type = DType::f32; }, "in f32; it takes bf16, f16 and e4m3");
  refused([](auto& p) { p.type = DType::f16; }, "of f16 into bf16; the result is of the operands' type");
  refused([](auto& p) { p.type = DType::e4m3, p.b_along_n = true; }, "tensor cores take it along k");
  refused([](auto& p) { p.type = DType::e4m3, p.k = 56; },
          "k is 56; rows are multiples of 16 B, which are 16 elements");
  refused([&](auto& p) { p.kept = {p.d.address, 16000}; }, "the gathered A has 16000 B; it takes 16384");
  refused([](auto& p) { p.scale = {p.d.address, 2}; }, "scale has 2 B");
  kernels::RankedProduct scatter(*devices[0], RankedForm::reduce_scatter, uncached());
  RankedRun scattered(devices, {RankedForm::reduce_scatter, 2, 64, 64, 64}, 1);
  kernels::RankedArguments p = scattered.arguments(0);
  p.kept = p.a;
  CHECK_ERROR(scatter(p), "it gathers none");
}

}  // namespace ptxbuilder::test::ranks_test
