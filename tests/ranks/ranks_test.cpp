// Products of several ranks on devices of the emulator: right by float64 on drawn shapes and schedules, and
// with one piece put wrong, named.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "error_kit.h"
#include "kernels/ranks/all_gather.h"
#include "kernels/ranks/reduce_scatter.h"
#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder::test::ranks_test {
namespace {

kernels::RankedTile small_tile(int ranks, int cluster) {
  kernels::RankedTile tile;
  tile.ranks = ranks, tile.cluster = cluster;
  tile.bm = 64, tile.bn = 32, tile.stages = 3, tile.group = 2;
  return tile;
}

runtime::EmulatorOptions of_seed(uint64_t seed) {
  runtime::EmulatorOptions options;
  options.seed = seed;
  return options;
}

LoadOptions uncached() {
  LoadOptions options;
  options.cache = false;
  return options;
}

// Two calls, one queued behind the other, of which the second finds the first one's data.
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
}

// Makes a file of the kernel's PTX with a piece put wrong.
struct Mutant {
  const char* what;
  RankedForm form;
  std::string from, to;
  bool all = false;  // wherever it stands, and not the first time alone
};

std::string ptx_of(RankedForm form, const kernels::RankedTile& tile) {
  CompilerOptions options;
  options.cache = false;
  options.assemble = false;
  return Compiler(options)
      .compile(form == RankedForm::all_gather ? kernels::all_gather_product(tile)
                                              : kernels::product_reduce_scatter(tile))
      .ptx;
}

}  // namespace

TEST_CASE("products of ranks are right on every schedule") {
  std::mt19937_64 engine(53);
  for (const int ranks : {2, 3, 4})
    for (const RankedForm form : {RankedForm::all_gather, RankedForm::reduce_scatter})
      for (const int cluster : {1, 2}) {
        RankedCase c{form, ranks};
        c.rows = 1 + static_cast<int64_t>(engine() % 150);
        c.n = 8 * (1 + static_cast<int64_t>(engine() % 9));
        c.k = 8 * (1 + static_cast<int64_t>(engine() % 40));
        const uint64_t seed = ranks == 2 && cluster == 1 ? 0 : engine() % 1000;
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(form));
        CAPTURE(c.rows);
        CAPTURE(c.n);
        CAPTURE(c.k);
        CAPTURE(seed);
        call_twice(c, small_tile(ranks, cluster), seed, uncached());
      }
}

TEST_CASE("what orders the ranks of a product is named where it is wrong") {
  const std::string to_next = "_param_6]", to_own = "_param_5]";
  const std::vector<Mutant> mutants = {
      {"rows are signalled ahead of their coming", RankedForm::all_gather, "cp.async.bulk.wait_group 0;",
       "cp.async.bulk.wait_group 60;", true},
      {"a release of the GPU's scope", RankedForm::all_gather, "st.release.sys", "st.release.gpu", true},
      {"an acquire of the GPU's scope", RankedForm::all_gather, "ld.acquire.sys", "ld.acquire.gpu", true},
      {"a stage is loaded anew before it was sent", RankedForm::all_gather,
       "cp.async.bulk.wait_group.read 1;", "cp.async.bulk.wait_group.read 60;", true},
      {"another rank's words", RankedForm::all_gather, to_next, to_own, true},
      {"sums are signalled ahead of their coming", RankedForm::reduce_scatter, "cp.async.bulk.wait_group 0;",
       "cp.async.bulk.wait_group 60;", true},
      {"a release of the GPU's scope", RankedForm::reduce_scatter, "st.release.sys", "st.release.gpu", true},
      {"an acquire of the GPU's scope", RankedForm::reduce_scatter, "ld.acquire.sys", "ld.acquire.gpu", true},
      {"another rank's words", RankedForm::reduce_scatter, to_next, to_own, true},
  };
  const std::string file = (std::filesystem::temp_directory_path() / "ranks_test_mutant.ptx").string();
  const kernels::RankedTile tile = small_tile(2, 1);
  for (const Mutant& m : mutants) {
    const std::string what = m.what;
    CAPTURE(what);
    CAPTURE(static_cast<int>(m.form));
    std::string text = ptx_of(m.form, tile);
    size_t places = 0;
    for (size_t at = 0; (at = text.find(m.from, at)) != std::string::npos; at += m.to.size(), ++places)
      text.replace(at, m.from.size(), m.to);
    REQUIRE(places > 0);
    std::ofstream(file) << text;
    LoadOptions options = uncached();
    options.ptx_file = file;
    const RankedCase c{m.form, 2, 100, 48, 320};
    std::string report;
    for (uint64_t seed = 0; seed < 12 && report.empty(); ++seed) try {
        call_twice(c, tile, seed, options);
      } catch (const runtime::EmulatorError& e) {
        CHECK((e.fault() == runtime::Fault::race || e.fault() == runtime::Fault::deadlock));
        report = e.what();
      }
    CHECK(report.find("of device ") != std::string::npos);
  }
  std::filesystem::remove(file);
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
  refused([](auto& p) { p.type = DType::f32; }, "in f32; it takes bf16 and f16");
}

}  // namespace ptxbuilder::test::ranks_test
