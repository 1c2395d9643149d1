// Compares the library's epilogues with float64, for a tile that extends beyond its output, plain and
// transposed. The tile's elements outside of the output are neither read nor counted.
//
//   epilogue_test [--device=emulator|cuda|auto]
#include "ptxbuilder/product/epilogue.h"

#include "library_kit.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::epilogue_test {
namespace {

constexpr TileExtent kOutput = {100, 88};
constexpr int kPitch = 104;  // row pitch of the residual, in elements
constexpr float kAlpha = 0.75f, kBeta = -1.5f;

// The place of a tile. If it is transposed, its rows are the output's columns.
struct Place {
  bool transposed;
  TileExtent tile;
  int m, n;

  TileExtent of(int i, int j) const {
    return transposed ? TileExtent{n + j, m + i} : TileExtent{m + i, n + j};
  }
  static bool inside(TileExtent at) { return at.rows < kOutput.rows && at.cols < kOutput.cols; }
};

const std::vector<Place> kPlaces = {
    {false, {64, 96}, 40, 8}, {true, {64, 96}, 40, 8}, {false, {128, 64}, 0, 0}};

template <class T>
struct Tensors {
  GlobalTensor<T, 1> bias;
  GlobalTensor<f32, 1> scales;  // one scale per row
  GlobalTensor<T, 2> c;
};

template <class T>
struct Composition {
  const char* text;
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const Tensors<T>&, const PanelPlace&)> device;
  std::function<double(double x, double bias, double scale, double c)> host;
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

template <class T>
std::vector<Composition<T>> compositions() {
  using Tile = const RegisterTile<f32>&;
  using With = const Tensors<T>&;
  using At = const PanelPlace&;
  return {
      {"bias", [](Tile x, With w, At at) { return add_bias(x, w.bias, at); },
       [](double x, double b, double, double) { return x + b; }},
      {"residual", [](Tile x, With w, At at) { return add_residual(x, w.c, at, kBeta); },
       [](double x, double, double, double c) { return x + kBeta * c; }},
      {"scale of rows", [](Tile x, With w, At at) { return scale_rows(x, w.scales, at); },
       [](double x, double, double s, double) { return x * s; }},
      {"scale of columns", [](Tile x, With w, At at) { return scale_columns(x, w.bias, at); },
       [](double x, double b, double, double) { return x * b; }},
      {"rounded", [](Tile x, With, At) { return rounded<e4m3>(x) * 2; },
       [](double x, double, double, double) { return test::rounded(DType::e4m3, x) * 2; }},
      {"silu of all",
       [](Tile x, With w, At at) {
         return silu(add_residual(add_bias(scale_rows(x * kAlpha, w.scales, at), w.bias, at), w.c, at));
       },
       [](double x, double b, double s, double c) {
         const double y = x * kAlpha * s + b + c;
         return y * sigmoid_of(y);
       }},
      {"slopes",
       [](Tile x, With w, At at) {
         return relu_slope(x) + silu_slope(x) * gelu_slope(x) + add_bias(x, w.bias, at);
       },
       [](double x, double b, double, double) {
         const double s = sigmoid_of(x), c = 2 * std::sqrt(2 / 3.14159265358979),
                      g = sigmoid_of(c * (x + 0.044715 * x * x * x));
         return (x > 0) + (s + x * s * (1 - s)) * (g + x * g * (1 - g) * c * (1 + 3 * 0.044715 * x * x)) + x +
                b;
       }},
      {"relu and gelu", [](Tile x, With, At) { return relu(x) + gelu(x); },
       [](double x, double, double, double) {
         return std::max(x, 0.0) +
                0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
       }},
  };
}

size_t at(TileExtent place, int pitch) { return static_cast<size_t>(place.rows * pitch + place.cols); }

}  // namespace

TEST_CASE("epilogues of tiles that extend beyond the output") {
  for_types<f32, bf16>([]<class T>() {
    Matrix bias = random_matrix(T::dtype, {1, kOutput.cols}, -2, 2),
           scales = random_matrix(DType::f32, {1, kOutput.rows}, 0.5, 2),
           c = random_matrix(T::dtype, {kOutput.rows, kPitch}, -2, 2);
    for (const Place& place : kPlaces) {
      Matrix x = random_matrix(DType::f32, place.tile, -4, 4);
      for (const Composition<T>& composition : compositions<T>()) {
        Kernel k("epilogue");
        auto [from, pbias, pscales, pc, numbers, D] =
            k.params<gptr<f32>, gptr<T>, gptr<f32>, gptr<T>, gptr<u32>, TensorMap>("from", "bias", "scales",
                                                                                   "c", "numbers", "D");
        u32 rows = numbers[0], cols = numbers[1], pitch = numbers[2];
        const Tensors<T> tensors{GlobalTensor(pbias, {cols}), GlobalTensor(pscales, {rows}),
                                 GlobalTensor(pc, {rows, cols}, {pitch, 1})};
        store<T>(D, load(from, wgmma_layout(place.tile.rows, place.tile.cols)), place.m, place.n,
                 [&](const RegisterTile<f32>& sums, const PanelPlace& panel) {
                   return composition.device(sums, tensors, panel);
                 },
                 {.transposed = place.transposed});
        std::vector<double> expected(at({kOutput.rows, 0}, kOutput.cols), std::nan(""));
        for (int i = 0; i < place.tile.rows; ++i)
          for (int j = 0; j < place.tile.cols; ++j) {
            const TileExtent to = place.of(i, j);
            if (!Place::inside(to)) continue;
            expected[at(to, kOutput.cols)] =
                composition.host(x.values[at({i, j}, place.tile.cols)], bias.values[at({0, to.cols}, 0)],
                                 scales.values[at({0, to.rows}, 0)], c.values[at(to, kPitch)]);
          }
        const Matrix shape{DType::u32, {1, 3}, {double(kOutput.rows), double(kOutput.cols), double(kPitch)}};
        const double precision = T::dtype == DType::f32 ? 1e-5 : 1.0 / 256;
        check_equal(result_of(std::move(k), {x, bias, scales, c, shape}, {T::dtype, kOutput, {}, true}),
                    expected,
                    fmt::format("{} of {}, {} x {}{}", composition.text, name(T::dtype), place.tile.rows,
                                place.tile.cols, place.transposed ? ", transposed" : ""),
                    precision, precision);
      }
    }
  });
}

TEST_CASE("amax counts all elements of the output, and NaNs") {
  for (const Place& place : kPlaces)
    for (const bool nan : {false, true}) {
      Matrix x = random_matrix(DType::f32, place.tile, -4, 4);
      double greatest = 0;
      for (int i = 0; i < place.tile.rows; ++i)
        for (int j = 0; j < place.tile.cols; ++j) {
          double& value = x.values[at({i, j}, place.tile.cols)];
          if (!Place::inside(place.of(i, j)))
            value = 1000;
          else if (nan && i == place.tile.rows / 3 && j == 5)
            value = std::nan("");
          else
            greatest = std::max(greatest, std::abs(value));
        }
      Kernel k("amax");
      auto [from, D, out] = k.params<gptr<f32>, TensorMap, gptr<f32>>("from", "D", "out");
      if_(tid_x() < 2, [&, out = out] { out[tid_x()] = select(tid_x() == 0, f32(0), f32(77)); });
      sync_threads();
      const RegisterTile<f32> sums = load(from, wgmma_layout(place.tile.rows, place.tile.cols));
      store<f32>(D, sums, place.m, place.n,
                 [&, out = out](const RegisterTile<f32>& y, const PanelPlace& panel) {
                   return amax(amax(y, out, kOutput.rows, kOutput.cols, panel), out + 1, kOutput.rows,
                               kOutput.cols, panel);
                 },
                 {.transposed = place.transposed});
      const double wanted = nan ? std::nan("") : greatest;
      Matrix d{DType::f32, kOutput, std::vector<double>(at({kOutput.rows, 0}, kOutput.cols)), true};
      check_equal(result_of(std::move(k), {x, d}, {DType::f32, {1, 2}, {}}), {wanted, nan ? wanted : 77},
                  fmt::format("{} x {}{}", place.tile.rows, place.tile.cols, nan ? " with a NaN" : ""));
    }
}

TEST_CASE("pairs of columns become one, in a tile that extends beyond the output") {
  for_types<f32, bf16, e4m3>([]<class T>() {
    const TileExtent tile = {64, 96}, output = {50, 32};
    Matrix x = random_matrix(DType::f32, tile, -4, 4), bias = random_matrix(DType::f32, {1, 96}, -2, 2);
    Kernel k("pairs");
    auto [from, pbias, D] = k.params<gptr<f32>, gptr<f32>, TensorMap>("from", "bias", "D");
    const GlobalTensor columns(pbias, {96});
    store<T>(D, load(from, wgmma_layout(tile.rows, tile.cols)), 0, 0,
             [&](const RegisterTile<f32>& sums, const PanelPlace& at) {
               const RegisterTile<f32> y = add_bias(sums, columns, at);
               return silu(even_columns(y)) * odd_columns(y);
             },
             {.pairs = true});
    std::vector<double> expected;
    for (int i = 0; i < output.rows; ++i)
      for (int j = 0; j < output.cols; ++j) {
        auto y = [&](int col) { return x.values[at({i, col}, tile.cols)] + bias.values[at({0, col}, 0)]; };
        const double gate = y(2 * j);
        expected.push_back(gate * sigmoid_of(gate) * y(2 * j + 1));
      }
    const double precision = T::dtype == DType::f32 ? 1e-5 : T::dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 15;
    check_equal(result_of(std::move(k), {x, bias}, {T::dtype, output, {}, true}), expected,
                fmt::format("pairs of {}", name(T::dtype)), precision, precision);
  });
}

// Copies of a tile's panels may complete in any order. Therefore, each of two panels that share columns must
// have the right elements.
TEST_CASE("in a deferred store that repeats columns, each panel has its own") {
  const TileExtent tile = {64, 88};
  const Matrix x = random_matrix(DType::bf16, tile, -4, 4);
  for (int panel : {0, 1}) {
    Kernel k("repeats");
    auto [from, D] = k.params<gptr<bf16>, TensorMap>("from", "D");
    DeferredStore out(DType::bf16, D, tile, {.repeats = true});
    CHECK(out.steps() == 2);
    out.take(load(from, wgmma_layout(tile.rows, tile.cols)), 0, 0);
    out.step(panel);
    const int first = panel == 0 ? 0 : 24;                  // first of the panel's 64 columns
    std::vector<double> expected(x.count(), std::nan(""));  // elements that are not stored keep their poison
    for (int i = 0; i < tile.rows; ++i)
      for (int j = first; j < first + 64; ++j)
        expected[at({i, j}, tile.cols)] = x.values[at({i, j}, tile.cols)];
    const Matrix zeros{DType::bf16, tile, std::vector<double>(expected.size()), true};
    check_equal(result_of(std::move(k), {x}, zeros), expected, fmt::format("panel {}", panel));
  }
}

TEST_CASE("a deferred store continues with the buffers of its panels") {
  const TileExtent tile = {64, 128}, half = {64, 64};
  const Matrix x = random_matrix(DType::bf16, tile, -4, 4);
  Kernel k("meanwhile");
  auto [from, D] = k.params<gptr<bf16>, TensorMap>("from", "D");
  const PanelStore panels(DType::bf16, D, tile, {.columns = half.cols});
  DeferredStore out(panels);
  panels.store_panel(0, RegisterTile<bf16>(0, wgmma_layout(half.rows, half.cols)), tile.rows,
                     0);  // the row is outside of D
  out.skip();
  out.take(load(from, wgmma_layout(tile.rows, tile.cols)), 0, 0);
  out.finish();
  const Matrix zeros{DType::bf16, tile, std::vector<double>(x.count()), true};
  check_equal(result_of(std::move(k), {x}, zeros), x.values, "the last stored column");
}

TEST_CASE("refused pairs of columns") {
  Kernel k("pairs");
  auto [D] = k.params<TensorMap>("D");
  const RegisterTile<f32> x(0, wgmma_layout(64, 64));
  auto halved = [](const RegisterTile<f32>& y, const PanelPlace&) { return even_columns(y); };
  auto error = [&](const Epilogue& epilogue, StoreOptions options, const RegisterTile<f32>& y) {
    return error_of([&, D = D] { store<bf16>(D, y, 0, 0, epilogue, options); });
  };
  CHECK(error(halved, {.pairs = true}, x) == "");
  CHECK(contains(error(halved, {.transposed = true, .pairs = true}, x),
                 "pairs were requested for a tile of 64 columns, transposed"));
  CHECK(contains(error(nullptr, {.pairs = true}, x), "pairs of columns need an epilogue"));
  CHECK(contains(error(halved, {}, x), "the epilogue made a tile of wgmma_32bit"));
  CHECK(contains(error([](const RegisterTile<f32>& y, const PanelPlace&) { return y; }, {.pairs = true}, x),
                 ", but must make wgmma_32bit"));
  CHECK(contains(
      error(halved, {.columns = 24}, x),
      "store: a panel has 24 columns, but the number must be a multiple of 8 that divides the tile's 64"));
  CHECK(contains(error_of([&] { even_columns(RegisterTile<f32>(0, wgmma_layout(64, 24))); }),
                 "but must be wgmma_layout(64, n) with n a multiple of 16"));
}

TEST_CASE("a tensor of batches needs a batch") {
  Kernel k("batches");
  auto [pc, D] = k.params<gptr<f32>, TensorMap>("c", "D");
  GlobalTensor c(pc, {2, 64, 64});
  const std::string error = error_of([&, D = D] {
    store<f32>(D, RegisterTile<f32>(0, wgmma_layout(64, 64)), 0, 0,
               [&](const RegisterTile<f32>& x, const PanelPlace& at) { return add_residual(x, c, at); });
  });
  CHECK(contains(error, "epilogue: a tensor of batches, but the store has no batch"));
}

}  // namespace ptxbuilder::test::epilogue_test
