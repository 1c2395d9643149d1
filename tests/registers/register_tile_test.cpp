// Compares arithmetic, functions and conversions of register tiles with float64, for every type and layout,
// on fresh random numbers.
//
//   register_tile_test [--device=emulator|cuda|auto]
#include "register_tile_kit.h"

namespace ptxbuilder::test::register_tile_test {
namespace {

constexpr TileExtent kExtent = {64, 32};

std::vector<RegisterLayout> layouts() {
  return {wgmma_layout(64, 32), wgmma_8bit(32), wgmma_32bit(32), strided(kExtent, 4), strided(kExtent, 1),
          // In this layout, each thread holds every second element of one half of a column.
          RegisterLayout(kExtent, make_layout({{2, 32, 2}, 16}, {{32, 1, 1024}, 64}), "columns")};
}

// An expression of x and y, which the tests evaluate on the device and on the host.
template <class T>
struct Expression {
  std::string text;
  std::function<RegisterTile<T>(const RegisterTile<T>&, const RegisterTile<T>&)> device;
  std::function<double(double, double)> host;
};

// Evaluates many expressions of x and y in one kernel, and stores the results one after another.
template <class T, class Out = T>
std::vector<double> evaluate(
    const RegisterLayout& layout, const Matrix& x, const Matrix& y, int count,
    const std::type_identity_t<
        std::function<RegisterTile<Out>(int, const RegisterTile<T>&, const RegisterTile<T>&)>>& device) {
  Kernel k("evaluate");
  auto [px, py, out] = k.params<gptr<T>, gptr<T>, gptr<Out>>("x", "y", "out");
  RegisterTile<T> tx = load(px, layout), ty = load(py, layout);
  for (int i = 0; i < count; ++i) store(out + i * layout.elements(), device(i, tx, ty));
  return result_of(std::move(k), {x, y}, {Out::dtype, {count * layout.rows(), layout.cols()}, {}});
}

template <class T>
std::vector<Expression<T>> arithmetic_expressions() {
  using Tile = RegisterTile<T>;
  std::vector<Expression<T>> all = {
      {"x + y", [](const Tile& x, const Tile& y) { return x + y; }, [](double x, double y) { return x + y; }},
      {"x - y", [](const Tile& x, const Tile& y) { return x - y; }, [](double x, double y) { return x - y; }},
      {"x * y", [](const Tile& x, const Tile& y) { return x * y; }, [](double x, double y) { return x * y; }},
      {"x + 3", [](const Tile& x, const Tile&) { return x + 3; }, [](double x, double) { return x + 3; }},
      {"100 - x", [](const Tile& x, const Tile&) { return 100 - x; },
       [](double x, double) { return 100 - x; }},
      {"min", [](const Tile& x, const Tile& y) { return min(x, y); },
       [](double x, double y) { return std::min(x, y); }},
      {"max(x, 2)", [](const Tile& x, const Tile&) { return max(x, 2); },
       [](double x, double) { return std::max(x, 2.0); }},
      {"x < y ? x : 7", [](const Tile& x, const Tile& y) { return select(x < y, x, 7); },
       [](double x, double y) { return x < y ? x : 7; }},
      {"x >= 5 ? 1 : y", [](const Tile& x, const Tile& y) { return select(x >= 5, 1, y); },
       [](double x, double y) { return x >= 5 ? 1 : y; }},
      {"x == y or not x > 4 ? y : x",
       [](const Tile& x, const Tile& y) { return select((x == y) | !(x > 4), y, x); },
       [](double x, double y) { return x == y || !(x > 4) ? y : x; }},
      {"6 < x or 3 == y ? 1 : x",
       [](const Tile& x, const Tile& y) { return select((6 < x) | (3 == y), 1, x); },
       [](double x, double y) { return 6 < x || y == 3 ? 1 : x; }},
      {"x != y and x <= 6 ? y : x",
       [](const Tile& x, const Tile& y) { return select((x != y) & (x <= 6), y, x); },
       [](double x, double y) { return x != y && x <= 6 ? y : x; }},
      {"x + splat", [](const Tile& x, const Tile&) { return x + Tile(T(9), splat(kExtent)); },
       [](double x, double) { return x + 9; }},
      {"splat + x", [](const Tile& x, const Tile&) { return Tile(T(9), splat(kExtent)) + x; },
       [](double x, double) { return x + 9; }},
  };
  if constexpr (!std::same_as<T, u32>)
    all.push_back({"|x - y|", [](const Tile& x, const Tile& y) { return abs(x - y); },
                   [](double x, double y) { return std::abs(rounded(T::dtype, x - y)); }});
  if constexpr (!std::same_as<T, u32>)
    all.push_back({"-x", [](const Tile& x, const Tile&) { return -x; }, [](double x, double) { return -x; }});
  if constexpr (FloatElement<T>) {
    all.push_back({"x / y", [](const Tile& x, const Tile& y) { return x / y; },
                   [](double x, double y) { return x / y; }});
    all.push_back({"fma", [](const Tile& x, const Tile& y) { return fma(x, y, 2); },
                   [](double x, double y) { return x * y + 2; }});
  } else {
    all.push_back({"x / 3", [](const Tile& x, const Tile&) { return x / 3; },
                   [](double x, double) { return std::trunc(x / 3); }});
  }
  return all;
}

struct Function {
  const char* name;
  RegisterTile<f32> (*device)(const RegisterTile<f32>&, Approx);
  double (*host)(double);
  double least, greatest;
  double exact, approximate;  // relative errors
  double approximate_absolute = 0;
};

constexpr double kUlp = 0x1p-23, kAny = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("arithmetic on every type in every layout") {
  for_types<f32, f16, bf16, s32, u32>([]<class T>() {
    bool is_unsigned = T::dtype == DType::u32;
    Matrix x = random_matrix(T::dtype, kExtent, is_unsigned ? 0 : -10, 10),
           y = random_matrix(T::dtype, kExtent, is_unsigned ? 0 : -10, 10);
    std::vector<Expression<T>> all = arithmetic_expressions<T>();
    std::vector<RegisterLayout> some = layouts();
    for (const RegisterLayout& layout : some) {
      std::vector<double> got = evaluate<T>(
          layout, x, y, static_cast<int>(all.size()),
          [&](int i, const auto& a, const auto& b) { return all[static_cast<size_t>(i)].device(a, b); });
      for (size_t i = 0; i < all.size(); ++i) {
        std::vector<double> expected;
        for (size_t e = 0; e < x.count(); ++e)
          expected.push_back(rounded(T::dtype, all[i].host(x.values[e], y.values[e])));
        check_equal({got.begin() + static_cast<long>(i * x.count()),
                     got.begin() + static_cast<long>((i + 1) * x.count())},
                    expected, fmt::format("{} of {} in {}", all[i].text, name(T::dtype), layout.describe()));
      }
    }
  });
}

TEST_CASE("functions, exact and approximate") {
  using Tile = RegisterTile<f32>;
#define FUNCTION(f) #f, [](const Tile& x, Approx a) { return f(x, a); }, [](double x) { return std::f(x); }
  const std::vector<Function> functions = {
      {FUNCTION(exp), -100, 88, 2 * kUlp, 64 * kUlp, 0x1p-126},
      {FUNCTION(exp), -1, 1, 2 * kUlp, 4 * kUlp},
      {FUNCTION(exp2), -140, 127, 2 * kUlp, 2 * kUlp, 0x1p-126},
      {FUNCTION(log), 0, 2, 2 * kUlp, 4 * kUlp, 4 * kUlp},
      {FUNCTION(log), 0, 1e30, 2 * kUlp, 4 * kUlp},
      {FUNCTION(log2), 0, 2, 2 * kUlp, 4 * kUlp, 4 * kUlp},
      {FUNCTION(log2), 0, 1e-40, 2 * kUlp, kAny},  // the approximation flushes subnormal numbers
      {FUNCTION(sin), -3, 3, 2 * kUlp, 0, 8 * kUlp},
      {FUNCTION(sin), -1e9, 1e9, 2 * kUlp, 0, 3},
      {FUNCTION(cos), -3, 3, 2 * kUlp, 0, 8 * kUlp},
      {FUNCTION(cos), -1e5, 1e5, 2 * kUlp, 0, 3},
      {FUNCTION(tanh), -6, 6, 4 * kUlp, 0x1p-10},
      {FUNCTION(tanh), -0.1, 0.1, 2 * kUlp, 0x1p-10},
      {FUNCTION(sqrt), 0, 1e6, 0.5 * kUlp, 2 * kUlp},
      {FUNCTION(erf), -5, 5, 4 * kUlp, 8 * kUlp},
      {"rsqrt", [](const Tile& x, Approx a) { return rsqrt(x, a); },
       [](double x) { return 1 / std::sqrt(x); }, 0, 1e6, 2 * kUlp, 3 * kUlp},
      {"divide(1, x)", [](const Tile& x, Approx a) { return divide(Tile(f32(1), x.layout()), x, a); },
       [](double x) { return 1 / x; }, 1, 1e6, 0.5 * kUlp, 2 * kUlp},
  };
#undef FUNCTION
  RegisterLayout layout = strided(kExtent, 4);
  for (const Function& f : functions) {
    Matrix x = random_matrix(DType::f32, kExtent, f.least, f.greatest);
    std::vector<double> got = evaluate<f32>(layout, x, x, 2, [&](int i, const Tile& a, const Tile&) {
      return f.device(a, i ? Approx::yes : Approx::no);
    });
    std::vector<double> expected;
    for (double v : x.values) expected.push_back(f.host(v));
    auto middle = got.begin() + static_cast<long>(x.count());
    check_equal({got.begin(), middle}, expected, f.name, f.exact, 0x1p-149);
    check_equal({middle, got.end()}, expected, fmt::format("{}, approximate", f.name), f.approximate,
                f.approximate_absolute);
  }
}

TEST_CASE("functions at the edges") {
  using Tile = RegisterTile<f32>;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  Matrix x{DType::f32, kExtent, std::vector<double>(2048)};
  const double edges[] = {inf, -inf, nan, 0.0, -1.0, 1.0, 1000, -1000, 0x1p-140};
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = edges[i % std::size(edges)];
  const std::vector<std::pair<Tile (*)(const Tile&), double (*)(double)>> functions = {
      {[](const Tile& t) { return exp(t); }, [](double v) { return std::exp(v); }},
      {[](const Tile& t) { return exp2(t); }, [](double v) { return std::exp2(v); }},
      {[](const Tile& t) { return log(t); }, [](double v) { return std::log(v); }},
      {[](const Tile& t) { return log2(t); }, [](double v) { return std::log2(v); }},
      {[](const Tile& t) { return tanh(t); }, [](double v) { return std::tanh(v); }},
      {[](const Tile& t) { return erf(t); }, [](double v) { return std::erf(v); }},
      {[](const Tile& t) { return sin(t); }, [](double v) { return std::sin(v); }},
      {[](const Tile& t) { return cos(t); }, [](double v) { return std::cos(v); }},
      {[](const Tile& t) { return sqrt(t); }, [](double v) { return std::sqrt(v); }},
      {[](const Tile& t) { return rsqrt(t); }, [](double v) { return 1 / std::sqrt(v); }}};
  std::vector<double> got = evaluate<f32>(
      wgmma_layout(64, 32), x, x, static_cast<int>(functions.size()),
      [&](int i, const Tile& a, const Tile&) { return functions[static_cast<size_t>(i)].first(a); });
  std::vector<double> expected;
  for (auto& f : functions)
    for (double v : x.values) expected.push_back(rounded(DType::f32, f.second(v)));
  check_equal(got, expected, "edges", 4 * kUlp);
}

TEST_CASE("functions of 16-bit types round once") {
  for_types<f16, bf16>([]<class T>() {
    Matrix x = random_matrix(T::dtype, kExtent, -4, 4);
    std::vector<double> got =
        evaluate<T>(wgmma_layout(64, 32), x, x, 1, [](int, const auto& a, const auto&) { return exp(a); });
    std::vector<double> expected;
    for (double v : x.values) expected.push_back(rounded(T::dtype, std::exp(v)));
    // The tolerance is one unit in the last place, because the error of the f32 result can move it across a
    // tie.
    check_equal(got, expected, std::string(name(T::dtype)), T::dtype == DType::f16 ? 0x1p-10 : 0x1p-7);
  });
}

namespace {

double convert(DType from, DType to, double value) {
  auto clamp = [&](double least, double greatest) {
    return std::isnan(value) ? 0 : std::clamp(std::trunc(value), least, greatest);
  };
  switch (to) {
    case DType::s8:
      return clamp(-128, 127);
    case DType::u8:
      return clamp(0, 255);
    case DType::s32:
      return is_integer(from) ? static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)))
                              : clamp(-0x1p31, 0x1p31 - 1);
    case DType::u32:
      return is_integer(from) ? static_cast<uint32_t>(static_cast<int64_t>(value)) : clamp(0, 0x1p32 - 1);
    case DType::e4m3:
      return rounded(to, std::clamp(value, -448.0, 448.0));
    case DType::e5m2:
      return rounded(to, std::clamp(value, -57344.0, 57344.0));
    case DType::tf32: {  // ties away from zero
      uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value)) + 0x1000;
      return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffu));
    }
    default:
      return rounded(to, value);
  }
}

template <class From, class To>
void check_conversion(double least, double greatest) {
  Matrix x = random_matrix(From::dtype, kExtent, least, greatest);
  if (From::dtype == DType::tf32)
    for (double& v : x.values) v = convert(DType::f32, DType::tf32, v);
  for (const RegisterLayout& layout : {wgmma_layout(64, 32), strided(kExtent, 1)}) {
    std::vector<double> got =
        evaluate<From, To>(layout, x, x, 1, [](int, const auto& a, const auto&) { return astype<To>(a); });
    std::vector<double> expected;
    for (double v : x.values) expected.push_back(convert(From::dtype, To::dtype, v));
    check_equal(got, expected,
                fmt::format("{} to {} from {} to {}", name(From::dtype), name(To::dtype), least, greatest));
  }
}

}  // namespace

TEST_CASE("conversions between all types") {
  int pairs = 0;
  for_types<f32, f16, bf16, tf32, e4m3, e5m2, s8, u8, s32, u32>([&]<class From>() {
    for_types<f32, f16, bf16, tf32, e4m3, e5m2, s8, u8, s32, u32>([&]<class To>() {
      bool has_sign = From::dtype != DType::u8 && From::dtype != DType::u32;
      check_conversion<From, To>(has_sign ? -2 : 0, 3);
      check_conversion<From, To>(has_sign ? -120 : 0, 120);
      ++pairs;
    });
  });
  CHECK(pairs == 100);
}

TEST_CASE("conversions that clamp, and integers of many bits") {
  for_types<e4m3, e5m2, s8, u8, s32, u32>([]<class To>() {
    check_conversion<f32, To>(-1e5, 1e5);
    check_conversion<f32, To>(-1e11, 1e11);
    check_conversion<f16, To>(-6e4, 6e4);
    check_conversion<bf16, To>(-1e6, 1e6);
    check_conversion<s32, To>(-2147483648.0, 2147483647.0);
    check_conversion<u32, To>(0, 4294967295.0);
  });
  for_types<f32, bf16>([]<class To>() {
    check_conversion<s32, To>(-2147483648.0, 2147483647.0);
    check_conversion<u32, To>(0, 4294967295.0);
  });
}

TEST_CASE("integers become bf16 by one rounding") {
  // The number is just above the midpoint of two adjacent bf16 values. If it were first rounded to f32, it
  // would become the midpoint, which would then be rounded down.
  Matrix x{DType::s32, kExtent, std::vector<double>(2048, 0x1p30 + 0x1p22 + 1)},
      y{DType::u32, kExtent, std::vector<double>(2048, 0x1p31 + 0x1p23 + 1)};
  auto to_bf16 = [](int, const auto& a, const auto&) { return astype<bf16>(a); };
  check_equal(evaluate<s32, bf16>(wgmma_layout(64, 32), x, x, 1, to_bf16),
              std::vector<double>(2048, 0x1p30 + 0x1p23), "s32");
  check_equal(evaluate<u32, bf16>(wgmma_layout(64, 32), y, y, 1, to_bf16),
              std::vector<double>(2048, 0x1p31 + 0x1p24), "u32");
}

}  // namespace ptxbuilder::test::register_tile_test
