// Tests the command line of the tests themselves. Tests that are missing, unknown or skipped must not count
// as success.
#include <doctest/doctest.h>

#include "command_kit.h"
#include "options.h"

namespace ptxbuilder::test::main_test {
namespace {

const int& number = ptxbuilder::test::option("number-of-main-test", 1);

Ran run_case(const std::string& name, const std::string& more = "") {
  return run(fmt::format("unit_tests main_test --no-skip --test-case='{}' {}", name, more));
}

}  // namespace

// The tests below run these skipped tests with --no-skip.
TEST_CASE("inner: passes" * doctest::skip()) { CHECK(number > 0); }
TEST_CASE("inner: leaves out" * doctest::skip()) { ptxbuilder::test::skip("half of it"); }
TEST_CASE("inner: leaves out and fails" * doctest::skip()) {
  ptxbuilder::test::skip("half of it");
  CHECK(number < 0);
}

TEST_CASE("a test that leaves something out is skipped, one that also fails has failed") {
  CHECK(run_case("inner: passes").code == 0);
  Ran skipped = run_case("inner: leaves out");
  CHECK(skipped.code == 77);
  CHECK(skipped.output.find("SKIPPED: half of it\n") != std::string::npos);
  CHECK(run_case("inner: leaves out and fails").code == 1);
}

TEST_CASE("a filter that no test passes is an error") {
  CHECK(run_case("inner: passes").code == 0);
  CHECK(run_case("inner: is not there").code == 2);
  Ran unknown = run("unit_tests main_tset");
  CHECK(unknown.code == 2);
  CHECK(unknown.output.find("no test of main_tset ran; there are") != std::string::npos);
  CHECK(run("unit_tests main_tset main_test --no-skip --test-case='inner: passes'").code == 2);
}

TEST_CASE("an unknown option and an invalid value are errors") {
  CHECK(run_case("inner: passes", "--number-of-main-test=7").code == 0);
  CHECK(run_case("inner: passes", "--number-of-main-test=-7").code == 1);
  for (const char* wrong : {"--number-of-main-test", "--number-of-main-test=", "--number-of-main-test=7x",
                            "--numbre-of-main-test=7", "-number-of-main-test=7"}) {
    CAPTURE(wrong);
    CHECK(run_case("inner: passes", wrong).code == 2);
  }
}

}  // namespace ptxbuilder::test::main_test
