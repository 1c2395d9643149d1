// Tests the operands of expressions with register tiles: one value for each row or column, a Var, bits,
// elements and registers that a thread computed itself, and parts of sums. The results are compared with
// float64, on fresh random numbers.
//
//   register_operand_test [--device=emulator|cuda|auto]
#include "library_kit.h"
#include "ptxbuilder/registers/partial.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::register_operand_test {
namespace {

constexpr TileExtent kExtent = {64, 32};

std::vector<RegisterLayout> layouts() {
  return {wgmma_layout(64, 32), wgmma_8bit(32), wgmma_transposed(64, 32), strided(kExtent, 4),
          RegisterLayout(kExtent, make_layout({{2, 32, 2}, 16}, {{32, 1, 1024}, 64}), "columns")};
}

double least_of(DType type) { return type == DType::u32 ? 0 : -10; }

// Computes the greatest element of each row and of each column, as tiles and as numbers.
template <class T>
struct Lines {
  RegisterTile<T> row, col;
};
struct HostLines {
  std::vector<double> row, col;
  explicit HostLines(const Matrix& x)
      : row(static_cast<size_t>(x.extent.rows), -1e30), col(static_cast<size_t>(x.extent.cols), -1e30) {
    for (size_t i = 0; i < row.size(); ++i)
      for (size_t j = 0; j < col.size(); ++j) {
        row[i] = std::max(row[i], x.values[i * col.size() + j]);
        col[j] = std::max(col[j], x.values[i * col.size() + j]);
      }
  }
};

template <class T>
struct Expression {
  const char* text;
  std::function<RegisterTile<T>(const RegisterTile<T>& x, const RegisterTile<T>& row,
                                const RegisterTile<T>& col)>
      device;
  std::function<double(double x, double row, double col)> host;
};

template <class T>
std::vector<Expression<T>> expressions() {
  using Tile = const RegisterTile<T>&;
  std::vector<Expression<T>> all = {
      {"x + row", [](Tile x, Tile r, Tile) { return x + r; },
       [](double x, double r, double) { return x + r; }},
      {"row + x", [](Tile x, Tile r, Tile) { return r + x; },
       [](double x, double r, double) { return x + r; }},
      {"x - col", [](Tile x, Tile, Tile c) { return x - c; },
       [](double x, double, double c) { return x - c; }},
      {"col - x", [](Tile x, Tile, Tile c) { return c - x; },
       [](double x, double, double c) { return c - x; }},
      {"x * row", [](Tile x, Tile r, Tile) { return x * r; },
       [](double x, double r, double) { return x * r; }},
      {"min(col, x)", [](Tile x, Tile, Tile c) { return min(c, x); },
       [](double x, double, double c) { return std::min(x, c); }},
      {"max(x, row)", [](Tile x, Tile r, Tile) { return max(x, r); },
       [](double x, double r, double) { return std::max(x, r); }},
      {"x == row ? col : x", [](Tile x, Tile r, Tile c) { return select(x == r, c, x); },
       [](double x, double r, double c) { return x == r ? c : x; }},
      {"row > 3 ? x : col", [](Tile x, Tile r, Tile c) { return select(r > 3, x, c); },
       [](double x, double r, double c) { return r > 3 ? x : c; }},
      {"x >= col ? 1 : row", [](Tile x, Tile r, Tile c) { return select(x >= c, select(x == x, 1, x), r); },
       [](double x, double r, double c) { return x >= c ? 1 : r; }},
      {"x + splat of rows",
       [](Tile x, Tile, Tile) {
         return x + RegisterTile<T>(T(5), splat({64, 1}));
       },
       [](double x, double, double) { return x + 5; }},
  };
  if constexpr (FloatElement<T>) {
    all.push_back({"x / row", [](Tile x, Tile r, Tile) { return x / r; },
                   [](double x, double r, double) { return x / r; }});
    all.push_back({"fma(x, row, col)", [](Tile x, Tile r, Tile c) { return fma(x, r, c); },
                   [](double x, double r, double c) { return x * r + c; }});
    all.push_back({"fma(col, x, row)", [](Tile x, Tile r, Tile c) { return fma(c, x, r); },
                   [](double x, double r, double c) { return c * x + r; }});
  }
  return all;
}

}  // namespace

TEST_CASE("one value per row or column is used for the whole row or column") {
  for_types<f32, f16, bf16, s32, u32>([]<class T>() {
    Matrix in = random_matrix(T::dtype, kExtent, least_of(T::dtype), 10);
    const HostLines lines(in);
    const std::vector<Expression<T>> all = expressions<T>();
    for (const RegisterLayout& layout : layouts()) {
      Kernel k("lines");
      auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
      RegisterTile<T> x = load(from, layout), row = reduce_rows(Reduction::max, x),
                      col = reduce_cols(Reduction::max, x);
      for (size_t e = 0; e < all.size(); ++e)
        store(out + static_cast<int>(e) * layout.elements(), all[e].device(x, row, col));
      const int rows = static_cast<int>(all.size()) * 64;
      std::vector<double> got = result_of(std::move(k), {in}, {T::dtype, {rows, 32}, {}});
      for (size_t e = 0; e < all.size(); ++e) {
        std::vector<double> expected;
        for (size_t i = 0; i < in.count(); ++i)
          expected.push_back(
              rounded(T::dtype, all[e].host(in.values[i], lines.row[i / 32], lines.col[i % 32])));
        auto first = got.begin() + static_cast<long>(e * in.count());
        check_equal({first, first + static_cast<long>(in.count())}, expected,
                    fmt::format("{} of {} in {}", all[e].text, name(T::dtype), layout.describe()));
      }
    }
  });
}

TEST_CASE("an outer product has the layout of what is next to it") {
  Matrix in = random_matrix(DType::f32, kExtent, -4, 4);
  const HostLines lines(in);
  Kernel k("outer");
  auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
  RegisterTile<f32> x = load(from, wgmma_layout(64, 32));
  auto row = reduce_rows(Reduction::max, x), col = reduce_cols(Reduction::max, x);
  store(out, broadcast(row, x.layout()) * col);
  std::vector<double> expected;
  for (size_t i = 0; i < in.count(); ++i)
    expected.push_back(rounded(DType::f32, lines.row[i / 32] * lines.col[i % 32]));
  check_equal(result_of(std::move(k), {in}, {DType::f32, kExtent, {}}), expected, "outer");
}

TEST_CASE("the code of a broadcast: no moves, halves two at a time") {
  Kernel k("code", {.line_info = false});
  auto [from, out] = k.params<gptr<f16>, gptr<f16>>("from", "out");
  RegisterTile<f16> x = load(from, wgmma_layout(64, 32));
  store(out, x * reduce_cols(Reduction::max, x));
  std::string ptx = ptx_of(k);
  CHECK(count(ptx, "mul.rn.f16x2") == 8);
  CHECK_FALSE(contains(ptx, "prmt"));
}

TEST_CASE("a Var of a tile is changed in place") {
  Matrix in = random_matrix(DType::f32, kExtent, -4, 4);
  const HostLines lines(in);
  for (const RegisterLayout& layout : layouts()) {
    Kernel k("in_place");
    auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
    RegisterTile<f32> x = load(from, layout);
    Var<RegisterTile<f32>> v(x), shrink(reduce_rows(Reduction::max, x));
    for_(0u, u32(3), [&](u32) {
      v *= shrink;
      v += x;
      v -= reduce_cols(Reduction::max, x);
      v /= 2;
      shrink *= 0.5f;
      shrink += 1;
    });
    store(out, v);
    std::vector<double> expected;
    auto f = [](double value) { return rounded(DType::f32, value); };
    for (size_t i = 0; i < in.count(); ++i) {
      double sum = in.values[i], factor = lines.row[i / 32];
      for (int round = 0; round < 3; ++round) {
        sum = f(f(f(f(sum * factor) + in.values[i]) - lines.col[i % 32]) / 2);
        factor = f(f(factor * 0.5) + 1);
      }
      expected.push_back(sum);
    }
    check_equal(result_of(std::move(k), {in}, {DType::f32, kExtent, {}}), expected, layout.describe());
  }
}

namespace {

// Uses everything that accepts a tile, with `x` and `row`, which are two tiles or two Vars.
template <class X>
void use(gptr<f32> out, const X& x, const X& row, const Var<RegisterTile<pred>>& which) {
  int place = 0;
  auto put = [&](const auto& t) { store(out + 4096 * place++, t); };
  put(x);
  put(x + x);
  put(1 - x);
  put(row * x);
  put(-x);
  put(abs(x));
  put(min(x, row));
  put(max(x, 0));
  put(fma(x, x, row));
  put(exp2(x, Approx::yes));
  put(rsqrt(x, Approx::yes));
  put(divide(x, row, Approx::yes));
  put(divide(x, row));
  put(select(x < row, x, 0));
  put(select(which, 1, x));
  put(select(!which & (x >= row), x, row));
  put(astype<f32>(astype<bf16>(x)));
  put(reduce_rows(Reduction::add, x));
  put(reduce_cols(Reduction::min, x));
  put(complete(partial_rows<Reduction::add>(x)));
  put(broadcast(row, x.layout()));
  put(layout_cast(x, strided(kExtent, 4)));
  out[0] = x.value(3) + reduce_all(Reduction::add, x);
  out[1] = f32(u32(x.count() + x.rows() + x.cols()));
}

}  // namespace

TEST_CASE("a Var of a tile is as good as the tile, everywhere") {
  auto text = [](bool as_var) {
    Kernel k("use", {.line_info = false});
    auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
    RegisterTile<f32> x = load(from, wgmma_layout(64, 32));
    Var<RegisterTile<f32>> v(x), row(reduce_rows(Reduction::max, x));
    Var<RegisterTile<pred>> which(x > 0);
    if (as_var)
      use<Var<RegisterTile<f32>>>(out, v, row, which);
    else
      use<RegisterTile<f32>>(out, v, row, which);
    return ptx_of(k);
  };
  CHECK(text(true) == text(false));
  CHECK(count(text(true), "st.global") > 100);
}

TEST_CASE("elements in memory and Vars of scalars stand for scalars, on either side") {
  for_types<f32, bf16, s32>([]<class T>() {
    Matrix in = random_matrix(T::dtype, kExtent, -10, 10), scalars{T::dtype, {1, 2}, {3, 5}};
    Kernel k("scalars");
    auto [from, p, out] = k.params<gptr<T>, gptr<T>, gptr<T>>("from", "scalars", "out");
    auto shared = k.shared<T>({1, 128});
    if_(tid_x() == 0u, [&, p = p] { sptr<T>(shared[0].address())[0] = p[0]; });
    sync_threads();
    GlobalTensor<T, 2> tensor(p, {1, 2});
    sptr<T> s(shared[0].address());
    Var<T> five(p[1]);
    RegisterTile<T> x = load(from, wgmma_layout(64, 32));
    x = x * p[0];
    x = five - x;
    x = s[0] + x;
    x = max(x, tensor(0, 1));
    x = select(x == five, s[0], x);
    x = select(tensor(0, 0) < x, x, five);
    Var<RegisterTile<T>> y(x);
    y += p[1];
    y -= five;
    store(out, y.value());
    std::vector<double> expected;
    for (double v : in.values) {
      auto r = [](double x) { return rounded(T::dtype, x); };
      double e = std::max(r(3 + r(5 - r(v * 3))), 5.0);
      e = e == 5 ? 3 : e;
      e = 3 < e ? e : 5;
      expected.push_back(r(r(e + 5) - 5));
    }
    check_equal(result_of(std::move(k), {in, scalars}, {T::dtype, kExtent, {}}), expected,
                std::string(name(T::dtype)));
  });
}

TEST_CASE("bits of integers") {
  for_types<s32, u32>([]<class T>() {
    using Tile = const RegisterTile<T>&;
    using Host = std::conditional_t<std::same_as<T, s32>, int32_t, uint32_t>;
    struct Bits {
      const char* text;
      RegisterTile<T> (*device)(Tile, Tile);
      Host (*host)(Host, Host);
    };
    const std::vector<Bits> all = {
        {"x & y", [](Tile x, Tile y) { return x & y; }, [](Host x, Host y) -> Host { return x & y; }},
        {"x | y", [](Tile x, Tile y) { return x | y; }, [](Host x, Host y) -> Host { return x | y; }},
        {"x ^ y", [](Tile x, Tile y) { return x ^ y; }, [](Host x, Host y) -> Host { return x ^ y; }},
        {"~x", [](Tile x, Tile) { return ~x; }, [](Host x, Host) -> Host { return ~x; }},
        {"x << 3", [](Tile x, Tile) { return x << 3; }, [](Host x, Host) -> Host { return x << 3; }},
        {"x >> 2", [](Tile x, Tile) { return x >> 2; }, [](Host x, Host) -> Host { return x >> 2; }},
        {"x % 5", [](Tile x, Tile) { return x % 5; }, [](Host x, Host) -> Host { return x % 5; }},
        {"1 << (x & 7)", [](Tile x, Tile) { return 1 << (x & 7); },
         [](Host x, Host) -> Host { return Host{1} << (x & 7); }},
        {"6 & x ^ row of y", [](Tile x, Tile y) { return (6 & x) ^ reduce_rows(Reduction::max, y); },
         nullptr},
    };
    Matrix x = random_matrix(T::dtype, kExtent, T::dtype == DType::u32 ? 0 : -1e6, 1e6),
           y = random_matrix(T::dtype, kExtent, T::dtype == DType::u32 ? 0 : -1e6, 1e6);
    const HostLines lines(y);
    for (const RegisterLayout& layout : layouts()) {
      Kernel k("bits");
      auto [px, py, out] = k.params<gptr<T>, gptr<T>, gptr<T>>("x", "y", "out");
      RegisterTile<T> tx = load(px, layout), ty = load(py, layout);
      std::vector<double> expected;
      for (size_t e = 0; e < all.size(); ++e) {
        store(out + static_cast<int>(e) * layout.elements(), all[e].device(tx, ty));
        for (size_t i = 0; i < x.count(); ++i) {
          auto a = static_cast<Host>(x.values[i]), b = static_cast<Host>(y.values[i]);
          auto row = static_cast<Host>(lines.row[i / 32]);
          expected.push_back(static_cast<double>(all[e].host ? all[e].host(a, b) : (6 & a) ^ row));
        }
      }
      const int rows = static_cast<int>(all.size()) * 64;
      check_equal(result_of(std::move(k), {x, y}, {T::dtype, {rows, 32}, {}}), expected,
                  fmt::format("{} in {}", name(T::dtype), layout.describe()));
    }
  });
}

TEST_CASE("a tile of elements that each thread computes") {
  for (const RegisterLayout& layout : layouts()) {
    Kernel k("elements");
    auto [out] = k.params<gptr<u32>>("out");
    auto rows = row_index(layout), cols = col_index(layout);
    std::vector<u32> listed;
    for (int i = 0; i < layout.values(); ++i) listed.push_back(rows.value(i) * 100 + cols.value(i));
    store(out, RegisterTile<u32>::of(layout, listed));
    store(out + 2048, RegisterTile<u32>::of(layout, [&](int i) { return cols.value(i) * 7; }));
    auto even = RegisterTile<pred>::of(layout, [&](int i) { return cols.value(i) % 2 == 0; });
    store(out + 4096, select(even, rows, 1));
    std::vector<double> expected;
    for (int i = 0; i < 2048; ++i) expected.push_back(i / 32 * 100 + i % 32);
    for (int i = 0; i < 2048; ++i) expected.push_back(i % 32 * 7);
    for (int i = 0; i < 2048; ++i) expected.push_back(i % 2 == 0 ? i / 32 : 1);
    check_equal(result_of(std::move(k), {}, {DType::u32, {192, 32}, {}}), expected, layout.describe());
  }
}

TEST_CASE("registers of a tile and a tile of registers, of every type") {
  for_types<f32, f16, bf16, tf32, e4m3, e5m2, s8, u8, s32, u32>([]<class T>() {
    const bool is_unsigned = T::dtype == DType::u8 || T::dtype == DType::u32;
    Matrix in = random_matrix(T::dtype, kExtent, is_unsigned ? 0 : -8, 8);
    for (const RegisterLayout& layout : layouts()) {
      Kernel k("registers");
      auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
      std::vector<u32> words = load(from, layout).registers();
      CHECK(static_cast<int>(words.size()) == (layout.values() * size_of(T::dtype) + 3) / 4);
      store(out, RegisterTile<T>::of_registers(layout, words));
      check_equal(result_of(std::move(k), {in}, {T::dtype, kExtent, {}}), in.values,
                  fmt::format("{} in {}", name(T::dtype), layout.describe()));
    }
  });
}

TEST_CASE("the results of raw instructions become a tile") {
  Matrix in = random_matrix(DType::f32, kExtent, -8, 8);
  const RegisterLayout layout = wgmma_layout(64, 32);
  Kernel k("raw");
  auto [from, out] = k.params<gptr<f32>, gptr<f16>>("from", "out");
  RegisterTile<f32> x = load(from, layout);
  // Elements are packed in pairs; the second operand of the instruction is the lower half.
  std::vector<u32> packed;
  for (int i = 0; i < layout.values(); i += 2) {
    Var<u32> d(0);
    ptx("cvt.rn.relu.f16x2.f32 {d:=b32}, {high:f32}, {low:f32};",
        {{"d", d}, {"high", x.value(i + 1)}, {"low", x.value(i)}});
    packed.push_back(d);
  }
  store(out, RegisterTile<f16>::of_registers(layout, packed));
  // Elements are squared one by one.
  std::vector<Var<f32>> square;
  for (int i = 0; i < layout.values(); ++i) {
    square.emplace_back(0);
    ptx("mul.rn.f32 {d:=f32}, {a:f32}, {a};", {{"d", square.back()}, {"a", x.value(i)}});
  }
  store(out + 2048, astype<f16>(RegisterTile<f32>::of(
                        layout, [&](int i) { return square[static_cast<size_t>(i)].value(); })));
  std::vector<double> expected;
  for (double v : in.values) expected.push_back(rounded(DType::f16, std::max(v, 0.0)));
  for (double v : in.values) expected.push_back(rounded(DType::f16, rounded(DType::f32, v * v)));
  check_equal(result_of(std::move(k), {in}, {DType::f16, {128, 32}, {}}), expected, "raw");
}

namespace {

constexpr int kRounds = 4;

// Computes the sum of each row (or column) over several rounds. It is rescaled before each round and
// exchanged once at the end. Also computes the greatest element.
template <class T>
void check_partial(const RegisterLayout& layout, bool rows) {
  const bool floats = FloatElement<T>;
  Matrix in = random_matrix(T::dtype, layout.extent(), T::dtype == DType::u32 ? 0 : -4, 4);
  Kernel k("partial");
  auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
  RegisterTile<T> x = load(from, layout), zero(T(0), layout);
  const RegisterLayout line = rows ? layout.reduced_rows() : layout.reduced_cols();
  auto sum_of = [&](const RegisterTile<T>& t) {
    return rows ? partial_rows<Reduction::add>(t) : partial_cols<Reduction::add>(t);
  };
  auto most_of = [&](const RegisterTile<T>& t) {
    return rows ? partial_rows<Reduction::max>(t) : partial_cols<Reduction::max>(t);
  };
  Var<Partial<T, Reduction::add>> sum(sum_of(zero));
  Var<Partial<T, Reduction::max>> most(most_of(x));
  Var<RegisterTile<T>> now(x), scale(RegisterTile<T>(T(1), line));
  for_(0u, u32(kRounds), [&](u32) {
    sum *= scale;
    sum += sum_of(now);
    sum = sum * T(2) + sum_of(x);
    most = max(most.value(), most_of(now));
    now += 1;
    scale += 1;
  });
  store(out, complete(sum.value()));
  store(out + line.elements(), complete(most));
  const auto n = static_cast<size_t>(line.elements()), cols = static_cast<size_t>(layout.cols());
  std::vector<double> expected(2 * n, -1e30);
  for (size_t l = 0; l < n; ++l) {
    double total = 0;
    for (int round = 0; round < kRounds; ++round) {
      double once = 0, first = 0;
      for (size_t i = 0; i < in.count(); ++i) {
        if ((rows ? i / cols : i % cols) != l) continue;
        once += in.values[i] + round;
        first += in.values[i];
        expected[n + l] = std::max(expected[n + l], in.values[i] + round);
      }
      total = (total * (1 + round) + once) * 2 + first;
    }
    expected[l] = rounded(T::dtype, total);
  }
  check_equal(result_of(std::move(k), {in}, {T::dtype, {static_cast<int>(2 * n), 1}, {}}), expected,
              fmt::format("{} of {} {}", name(T::dtype), layout.describe(), rows ? "rows" : "columns"),
              floats ? 0x1p-18 : 0, floats ? 0.25 : 0);
}

}  // namespace

TEST_CASE("sums in parts over a loop, with one exchange at the end") {
  for_types<f32, s32, u32>([]<class T>() {
    std::vector<RegisterLayout> all = layouts();
    all.push_back(wgmma_layout(128, 16));
    all.push_back(strided({4, 512}, 4));  // warps share rows
    for (const RegisterLayout& layout : all)
      for (bool rows : {true, false}) check_partial<T>(layout, rows);
  });
}

TEST_CASE("the code of a partial sum: no shuffle in the loop, two for each row at its end") {
  Kernel k("code", {.line_info = false});
  auto [from, out, n] = k.params<gptr<f32>, gptr<f32>, u32>("from", "out", "n");
  RegisterTile<f32> x = load(from, wgmma_layout(64, 64));
  Var<Partial<f32, Reduction::add>> sum(partial_rows<Reduction::add>(x));
  for_(0u, n, [&, from = from](u32 i) {
    sum += partial_rows<Reduction::add>(load(from + i * 4096, wgmma_layout(64, 64)));
  });
  store(out, complete(sum));
  std::string ptx = ptx_of(k);
  CHECK(count(ptx, "shfl.sync.bfly") == 2 * 2);
  // The loop and all of its sums precede the shuffles: 16 values for each of two rows per tile, and their
  // addends.
  CHECK(count(ptx.substr(0, ptx.find("shfl")), "add.rn.f32") == 2 * 15 + 2 * 15 + 2);
}

}  // namespace ptxbuilder::test::register_operand_test
