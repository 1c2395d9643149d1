// Tests rules of a launch: their values, and the errors for strings that are not rules.
#include "ptxbuilder/launch_rule.h"

#include <doctest/doctest.h>

#include "error_kit.h"

namespace ptxbuilder::test::launch_rule_test {
namespace {

Parameter parameter(std::string name, Parameter::Kind kind, DType type) {
  Parameter p;
  p.name = std::move(name);
  p.kind = kind;
  p.dtype = type;
  if (kind == Parameter::Kind::tensor_map) p.tensor_map.box = {64, 64};
  return p;
}

const std::vector<Parameter> kParameters = {parameter("A", Parameter::Kind::tensor_map, DType::f16),
                                            parameter("n", Parameter::Kind::scalar, DType::u32),
                                            parameter("s", Parameter::Kind::scalar, DType::s8),
                                            parameter("big", Parameter::Kind::scalar, DType::u64),
                                            parameter("x", Parameter::Kind::scalar, DType::f32)};

// A is 300 x 50, n is 1000, s is -3 with garbage above its byte, and big is the largest u64.
struct Values final : RuleValues {
  uint64_t bits(size_t i) const override {
    return i == 1 ? 0xdead'0000'03e8 : i == 2 ? 0xabfd : i == 3 ? UINT64_MAX : 0;
  }
  uint64_t extent(size_t, size_t dimension) const override { return dimension == 0 ? 300 : 50; }
  int64_t multiprocessors() const override { return 132; }
};

int64_t value(const std::string& rule) { return LaunchRule("rule", rule, kParameters).value(Values()); }

}  // namespace

TEST_CASE("a rule is evaluated as C would") {
  CHECK(value("7") == 7);
  CHECK(value("2 + 3 * 4 - 20 / 6 % 2") == 13);
  CHECK(value("(2 + 3) * -4") == -20);
  CHECK(value("10 - 4 - 3") == 3);
  CHECK(value("ceil_div(n, 128)") == 8);
  CHECK(value("ceil_div(1024, 128) * ceil_div(extent(A, 1), 64)") == 8);
  CHECK(value("extent(A, 0)") == 300);
  CHECK(value("s") == -3);
  CHECK(value("min(n, multiprocessors * 2)") == 264);
  CHECK(value("max(min(1, 2), s)") == 1);
  CHECK(value("n <= 1000") == 1);
  CHECK(value("n < 1000") == 0);
  CHECK(value("n >= 1001") == 0);
  CHECK(value("n > 999") == 1);
  CHECK(value("n == 1000") == 1);
  CHECK(value("n != 1000") == 0);
  CHECK(value("1 + 1 < 3 == 1") == 1);
  CHECK(value("(n > 5) * (s < 0)") == 1);
  CHECK(value("-9223372036854775807 / -1") == INT64_MAX);
  CHECK(value("(-9223372036854775807 - 1) % -1") == 0);
}

TEST_CASE("a rule that is none is refused with its column") {
  auto refused = [](const std::string& rule, const std::string& text) {
    const std::string message = error_of([&] { LaunchRule("grid.x", rule, kParameters); });
    CAPTURE(message);
    CHECK(message.find("grid.x = '" + rule + "', column " + text) != std::string::npos);
  };
  refused("", "1: expected a number, a name or '(', found the end");
  refused("n +", "4: expected a number, a name or '('");
  refused("n 2", "3: expected an operator or the end, found '2'");
  refused("(n", "3: expected ')', found the end");
  refused("n = 2", "3: expected an operator or the end, found '='");
  refused("ceil_div(n)", "11: expected ',', found ')'");
  refused("floor(n)", "1: there is no function 'floor'; the functions are ceil_div, min, max and extent");
  refused("2 * m", "5: there is no 'm'; the names are extent(A, 0 to 1), n, s, big, multiprocessors");
  refused("x", "1: there is no 'x'; the names are");
  refused("A", "1: there is no 'A'");
  refused("extent(A, 2)", "1: there is no 'extent(A, 2)'; the names are extent(A, 0 to 1), n");
  refused("extent(n, 0)", "1: there is no 'extent(n, 0)'");
  refused("extent(A, n)", "11: expected an integer, found 'n'");
  refused("9223372036854775808", "1: the integer does not fit in 64 bits");
  refused(std::string(40, '(') + "1", "33: nested more than 32 levels deep");
  refused(std::string(40, '-') + "1", "33: nested more than 32 levels deep");
  refused(std::string(5000, ' ') + "1", "1: it is longer than 4096 characters");
}

TEST_CASE("the deepest rule that is taken has room to be evaluated") {
  std::string sum = "1", least = "1";
  for (int i = 0; i < 15; ++i) sum = "1 + min(2, " + sum + ")";
  CHECK(value(sum) == 3);
  for (int i = 0; i < 31; ++i) least = "min(2, " + least + ")";
  CHECK(value(least) == 1);
}

TEST_CASE("numbers that a rule cannot make are errors with its values") {
  auto refused = [](const std::string& rule, const std::string& text) {
    const std::string message = error_of([&] { value(rule); });
    CAPTURE(message);
    CHECK(message.find("rule = '" + rule + "': " + text) != std::string::npos);
  };
  refused("n / (s + 3)", "a division by 0, with n = 1000, s = -3");
  refused("n % 0", "a division by 0, with n = 1000");
  refused("ceil_div(n, 0)", "a division by 0");
  refused("ceil_div(s, 2)", "ceil_div of a negative number, with s = -3");
  for (const char* overflow :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2",
        "(-9223372036854775807 - 1) / -1", "-(-9223372036854775807 - 1)"})
    refused(overflow, "its numbers do not fit 64 bits");
  refused("big", "its numbers do not fit 64 bits, with big = more than 2^63 - 1");
}

TEST_CASE("a grid has at least one CTA along each dimension, and less than 2^32") {
  auto grid = [](const char* x, const char* y, const char* z) {
    Signature s;
    s.parameters = kParameters;
    s.grid = {x, y, z};
    return GridRule(s).value(Values());
  };
  CHECK(grid("n", "extent(A, 1)", "1") == std::array<uint32_t, 3>{1000, 50, 1});
  CHECK(error_of([&] { grid("1", "n - 1000", "1"); }) ==
        "grid.y = 'n - 1000': it is 0, but a launch has at least 1 CTA along each dimension, with n = 1000");
  CHECK_ERROR(grid("1", "1", "s"), "grid.z = 's': it is -3");
  CHECK_ERROR(grid("4294967296", "1", "1"), "less than 2^32 CTAs");
  CHECK_ERROR(grid("1", "1", "m"), "grid.z = 'm', column 1: there is no 'm'");
}

}  // namespace ptxbuilder::test::launch_rule_test
