// Checks that ptxas assembles tiles of the tuned table without printing any note, warning or spill. The
// tested tiles cover every value of every field of a tile, with every operation. `library_tests
// gemm_tuned_test --every-row` tests all of them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/gemm/kernel.h"
#include "options.h"
#include "ptxbuilder/compile/compile.h"
#include "tuned_rows.h"

namespace ptxbuilder::test::gemm_tuned_test {
namespace {

const bool& every_row = option("every-row", false);

// Returns the choices of the row's kernel: its operation, and each field of its tile together with the
// operation's types.
std::vector<std::string> choices_of(const TunedRow& row) {
  const kernels::GemmTile t = kernels::parse_tile(row.tile);
  const std::string type = fmt::format("{} {}", name(row.a), name(row.d));
  std::vector<std::string> all = {fmt::format("{} {}", type, row.layout)};
  auto add = [&](const char* field, auto value) {
    all.push_back(fmt::format("{} = {}", field, value));
    if constexpr (std::is_same_v<decltype(value), bool>)
      all.push_back(fmt::format("{} {} = {}", type, field, value));
  };
  add("bm", t.bm), add("bn", t.bn), add("bk", t.bk), add("stages", t.stages), add("consumers", t.consumers);
  add("pingpong", t.pingpong), add("swapped", t.swapped), add("overlaps", t.overlaps),
      add("inside", t.inside);
  add("cluster_m", t.cluster_m), add("cluster_n", t.cluster_n), add("split_k", t.split_k);
  add("split_last", t.split_last), add("ctas_per_sm", t.ctas_per_sm);
  add("group", t.raster.group), add("rows of a consumer", t.warpgroup_rows());
  return all;
}

}  // namespace

TEST_CASE("every tuned kernel compiles without a message from ptxas") {
  std::vector<test::TunedRow> distinct;  // rows that differ only in sizes have the same kernel
  for (const test::TunedRow& row : test::tuned_rows()) {
    auto same = [&](const test::TunedRow& other) {
      return other.operation() == row.operation() && std::string(other.tile) == row.tile;
    };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(row);
  }
  REQUIRE(distinct.size() > 30);
  if (!every_row) {
    // Rows with the most accumulators come first, because they leave the fewest other registers.
    std::stable_sort(distinct.begin(), distinct.end(), [](const test::TunedRow& x, const test::TunedRow& y) {
      const auto sums = [](const test::TunedRow& row) {
        const kernels::GemmTile t = kernels::parse_tile(row.tile);
        return t.warpgroup_rows() * t.bn;
      };
      return sums(x) > sums(y);
    });
    std::set<std::string> there;
    std::erase_if(distinct, [&](const test::TunedRow& row) {
      size_t more = 0;
      for (const std::string& choice : choices_of(row)) more += there.insert(choice).second;
      return more == 0;
    });
  }
  std::vector<std::function<Kernel()>> builders;
  for (const test::TunedRow& row : distinct)
    builders.push_back([row] { return kernels::gemm(row.operation(), kernels::parse_tile(row.tile)); });
  const std::vector<Compiled> compiled = Compiler({.cache = false}).compile_all(builders);
  for (size_t i = 0; i < compiled.size(); ++i) {
    const Assembled& a = compiled[i].assembled;
    CAPTURE(compiled[i].signature.kernel);
    CAPTURE(a.log);
    CHECK(!a.cubin.empty());
    CHECK(a.notes.messages.empty());
    CHECK(a.spill_bytes == 0);
    CHECK(a.stack_bytes == 0);
  }
  MESSAGE(compiled.size() << " kernels of " << test::tuned_rows().size() << " rows");
}

}  // namespace ptxbuilder::test::gemm_tuned_test
