// Every tile of the tuned table through ptxas, which must say nothing about it: no note, no warning, no
// spill.
#include <doctest/doctest.h>

#include "kernels/gemm/kernel.h"
#include "ptxbuilder/compile/compile.h"
#include "tuned_rows.h"

namespace ptxbuilder::test::gemm_tuned_test {

TEST_CASE("every tuned kernel compiles without a word from ptxas") {
  std::vector<test::TunedRow> distinct;  // sizes play no part in a kernel
  for (const test::TunedRow& row : test::tuned_rows()) {
    auto same = [&](const test::TunedRow& other) {
      return other.operation() == row.operation() && std::string(other.tile) == row.tile;
    };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(row);
  }
  REQUIRE(distinct.size() > 30);
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
