// Tests tensors in global memory: elements, slices and tiles at every place, with shapes and strides that are
// known on the host or only on the device. Elements beyond the tensor are not written, and are read as the
// fill.
//
//   global_tensor_test [--device=emulator|cuda|auto]
#include "library_kit.h"
#include "ptxbuilder/dtype.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::global_tensor_test {
namespace {

// Numbers that the kernel contains as constants, or loads from memory.
class Numbers {
 public:
  explicit Numbers(gptr<u32> from) : from_(from) {}
  u32 hidden(int value) {
    values_.push_back(value);
    return from_[static_cast<uint32_t>(values_.size() - 1)];
  }
  Index any(int value, bool known) { return known ? Index(value) : Index(hidden(value)); }
  Matrix matrix() const {
    Matrix m{DType::u32, {1, static_cast<int>(values_.size()) + 1}, values_};
    m.values.push_back(0);
    return m;
  }

 private:
  gptr<u32> from_;
  std::vector<double> values_;
};

std::mt19937& engine() {
  static std::mt19937 e = [] {
    const auto seed = std::random_device()();
    MESSAGE("seed of shapes " << seed);
    return std::mt19937(seed);
  }();
  return e;
}

int draw(int least, int greatest) { return std::uniform_int_distribution(least, greatest)(engine()); }

}  // namespace

TEST_CASE("elements are read, written and changed at their coordinates") {
  for (bool known_shape : {true, false})
    for (bool known_stride : {true, false}) {
      const int rows = draw(1, 9), cols = draw(1, 14), pitch = cols + draw(0, 5);
      Matrix in = random_matrix(DType::f32, {rows, cols}, -8, 8);
      Kernel k("elements");
      auto [from, numbers, out] = k.params<gptr<f32>, gptr<u32>, gptr<f32>>("from", "numbers", "out");
      Numbers n(numbers);
      GlobalTensor x(from, {n.any(rows, known_shape), n.any(cols, known_shape)});
      const u32 hidden_pitch = n.hidden(pitch);
      GlobalTensor y(out, {rows, cols}, {known_stride ? Stride(pitch) : Stride(hidden_pitch), 1});
      GlobalTensor z(out, {cols, rows}, {1, known_stride ? Stride(pitch) : Stride(hidden_pitch)});
      u32 t = tid_x();
      if_(t < rows * cols, [&] {
        u32 i = t / cols, j = t % cols;
        y(i, j) = x(i, j);
        z(j, i) += 1;  // the same element as above
        y(i, j) *= x(0, j);
      });
      std::vector<double> expected(static_cast<size_t>(rows * pitch), std::nan(""));
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j) {
          const double v = in.values[static_cast<size_t>(i * cols + j)],
                       first = in.values[static_cast<size_t>(j)];
          expected[static_cast<size_t>(i * pitch + j)] =
              rounded(DType::f32, rounded(DType::f32, v + 1) * first);
        }
      check_equal(result_of(std::move(k), {in, n.matrix()}, {DType::f32, {rows, pitch}, {}}), expected,
                  fmt::format("{} x {}, pitch {}", rows, cols, pitch));
    }
}

TEST_CASE("every element at its own coordinates, of tensors with up to four dimensions") {
  for (int turn = 0; turn < 8; ++turn) {
    const int a = draw(1, 3), b = draw(1, 4), c = draw(1, 5), d = draw(1, 6), count = a * b * c * d;
    const bool known = turn % 2 == 0;
    if (count > 128) continue;
    Kernel k("dimensions");
    auto [numbers, out] = k.params<gptr<u32>, gptr<u32>>("numbers", "out");
    Numbers n(numbers);
    auto any = [&](int value) { return n.any(value, known || draw(0, 1) == 0); };
    GlobalTensor x(out, {any(a), any(b), any(c), any(d)});
    GlobalTensor y(out + count, {any(a), any(b)}, {Stride(n.hidden(b)), 1});
    GlobalTensor backwards(out + (count + a * b + d - 1), {d}, {-1});
    u32 t = tid_x();
    if_(t < count, [&] {
      u32 i = t / (b * c * d), j = t / (c * d) % b, l = t / d % c, m = t % d;
      auto matrix = x(i, _, l, _);  // b x d
      static_assert(decltype(matrix)::rank == 2);
      if_(t % 3 == 0, [&] { x(i, j, l, m) = t; });
      if_(t % 3 == 1, [&] { matrix(j, m) = t; });
      if_(t % 3 == 2, [&] { x(_, j, _, m)(i, _)(l) = t; });
      if_(l == 0 && m == 0, [&] { y(i, _)(j) = i * 100 + j; });
    });
    if_(t < d, [&] { backwards(t) = t; });
    std::vector<double> expected;
    for (int t = 0; t < count; ++t) expected.push_back(t);
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j) expected.push_back(i * 100 + j);
    for (int i = d; i-- > 0;) expected.push_back(i);
    const int size = static_cast<int>(expected.size());
    check_equal(result_of(std::move(k), {n.matrix()}, {DType::u32, {1, size}, {}}), expected,
                fmt::format("{} x {} x {} x {}", a, b, c, d));
  }
}

TEST_CASE("offsets have 64 bits") {
  Kernel k("far", {.line_info = false});
  auto [p, n, far] = k.params<gptr<f16>, u32, u64>("p", "n", "far");
  GlobalTensor x(p, {n, n}), y(p, {n, n}, {far, 1});
  x(tid_x(), 0) = f16(1);
  y(tid_x(), 0) = f16(2);
  GlobalTensor z(p, {4u, 1u << 31}, {1u << 31, 1});
  z(3, 5) = f16(3);
  const std::string ptx = squeezed(ptx_of(k));
  CHECK(contains(ptx, "mul.wide.u32"));
  CHECK(contains(ptx, "mul.lo.s64"));
  CHECK(contains(ptx, std::to_string(2 * (3 * (int64_t{1} << 31) + 5))));
}

namespace {

enum class Order { rows, cols, gaps };  // which stride is 1

// Loads a tile from (row, col) of a matrix of rows x cols, and stores it at another place of another matrix.
template <class T>
void check_tile(const RegisterLayout& layout, int rows, int cols, int row, int col, bool known, Order order,
                int promise, int fill) {
  const int across = order == Order::cols   ? rows
                     : order == Order::gaps ? 2
                                            : 1,
            pitch = order == Order::cols   ? 1
                    : order == Order::gaps ? 2 * cols + 3
                                           : cols;
  const int elements = (rows - 1) * std::max(pitch, 1) + (cols - 1) * across + 1;
  Matrix in = random_matrix(T::dtype, {1, elements}, is_integer(T::dtype) ? 0 : -8, 8);
  auto place = [&](int i, int j) { return static_cast<size_t>(i * pitch + j * across); };
  Kernel k("tile");
  auto [from, numbers, out] = k.params<gptr<T>, gptr<u32>, gptr<T>>("from", "numbers", "out");
  Numbers n(numbers);
  auto stride = [&](int value) { return known || value == 1 ? Stride(value) : Stride(n.hidden(value)); };
  GlobalTensor x(from, {n.any(rows, known), n.any(cols, known)}, {stride(pitch), stride(across)});
  GlobalTensor y(out, {n.any(rows, known), n.any(cols, known)}, {stride(pitch), stride(across)});
  const u32 hidden_row = n.hidden(row), hidden_col = n.hidden(col);
  TensorCoordinate i = known ? TensorCoordinate(row) : TensorCoordinate(hidden_row),
                   j = known ? TensorCoordinate(col) : TensorCoordinate(hidden_col);
  auto source = x.multiples_of(promise), target = y.multiples_of(promise);
  RegisterTile<T> t = [&] {
    if constexpr (NumberElement<T>)
      if (fill != 0) return load(source.tile(i, j), layout, T(fill));
    return load(source.tile(i, j), layout);
  }();
  store(target.tile(i, j), t);
  // The whole tile is beyond the matrix, so the result is only the fill.
  store(out + (elements + 127) / 128 * 128, t);
  const int whole = (elements + 127) / 128 * 128;
  std::vector<double> expected(static_cast<size_t>(whole + layout.elements()), 0);
  std::vector<bool> written(expected.size(), false);
  for (int a = 0; a < layout.rows(); ++a)
    for (int b = 0; b < layout.cols(); ++b) {
      const bool inside = row + a < rows && col + b < cols;
      const double v = inside ? in.values[place(row + a, col + b)] : fill;
      if (inside) {
        expected[place(row + a, col + b)] = v;
        written[place(row + a, col + b)] = true;
      }
      expected[static_cast<size_t>(whole + a * layout.cols() + b)] = v;
      written[static_cast<size_t>(whole + a * layout.cols() + b)] = true;
    }
  std::byte poison[8];
  std::fill_n(poison, 8, std::byte{0xff});
  for (size_t e = 0; e < expected.size(); ++e)
    if (!written[e]) expected[e] = read_element(poison, T::dtype);
  check_equal(
      result_of(std::move(k), {in, n.matrix()}, {T::dtype, {1, static_cast<int>(expected.size())}, {}}),
      expected,
      fmt::format("{} {} of {} x {} from ({}, {}), {}, stride {} {}, multiples of {}", name(T::dtype),
                  layout.describe(), rows, cols, row, col, known ? "known" : "not known", pitch, across,
                  promise));
}

}  // namespace

TEST_CASE("tiles: outside elements are not written, and are read as the fill") {
  for_types<f32, f16, bf16, e4m3, u8, s32>([]<class T>() {
    const std::vector<RegisterLayout> layouts = {
        wgmma_layout(64, 32), wgmma_8bit(32), strided({64, 32}, 4), wgmma_transposed(64, 32),
        strided({64, 24}, 4), wgmma_row(64),  wgmma_col(16)};
    for (const RegisterLayout& layout : layouts) {
      const bool known = draw(0, 1) == 0;
      const Order order = static_cast<Order>(draw(0, 2));
      const int fill = NumberElement<T> && draw(0, 1) == 0 ? 3 : 0;
      // Shapes are random. Tiles extend beyond the matrix by part of a row, by part of a column, or
      // completely.
      check_tile<T>(layout, draw(1, 90), draw(1, 50), draw(0, 20), draw(0, 20), known, order, 1, fill);
      check_tile<T>(layout, layout.rows(), layout.cols(), 0, 0, known, order, 1, 0);
      check_tile<T>(layout, 5, 7, 5, 0, known, order, 1, fill);
      check_tile<T>(layout, 5, 7, 0, 9, !known, order, 1, fill);
      // Wide accesses are used because the author allows them.
      const int m = 8 * draw(1, 9), n = 8 * draw(1, 5);
      check_tile<T>(layout, m, n, 8 * draw(0, 3), 8 * draw(0, 3), !known,
                    draw(0, 1) ? Order::rows : Order::cols, 8, fill);
    }
  });
}

TEST_CASE("the widths of accesses of tiles") {
  auto text = [](bool bounded, bool promised, bool known, const char* what) {
    Kernel k("wide", {.line_info = false});
    auto [from, out, m, n] = k.params<gptr<f16>, gptr<f16>, u32, u32>("from", "out", "m", "n");
    GlobalTensor x =
        known ? GlobalTensor(from, {128, 256}) : GlobalTensor(from, {m, n}).multiples_of(promised ? 8 : 1);
    u32 row = ctaid_y() * 64, col = ctaid_x() * 64;
    const auto tile = bounded ? x.tile(row, col) : x.inner_tile(row, col);
    store(out, load(tile, strided({64, 64}, 8)));
    return count(ptx_of(k), what);
  };
  // 128 threads access 4096 elements. Each makes 4 accesses of 8 elements, or 32 of 1 element. If the tile is
  // bounded, each access has a predicate.
  for (bool bounded : {true, false}) {
    CHECK(text(bounded, true, false, "ld.global.v4.b32") == 4);
    CHECK(text(bounded, false, true, "ld.global.v4.b32") == 4);
    CHECK(text(bounded, false, false, "ld.global.b16") == 32);
  }
  CHECK(text(true, true, false, "bra") == 0);  // predicates instead of branches
  // A tensor that is known to contain the tile needs no bounds.
  Kernel k("whole", {.line_info = false});
  auto [from, out] = k.params<gptr<f16>, gptr<f16>>("from", "out");
  store(GlobalTensor(out, {128, 128}).tile(64, 0),
        load(GlobalTensor(from, {128, 128}).tile(64, 0), strided({64, 128}, 8)));
  CHECK_FALSE(contains(ptx_of(k), "setp"));
}

TEST_CASE("addresses of rows that only the device knows are computed once per row") {
  Kernel k("rows", {.line_info = false});
  auto [from, out, m, n] = k.params<gptr<f32>, gptr<f32>, u32, u32>("from", "out", "m", "n");
  GlobalTensor x = GlobalTensor(from, {m, n}).multiples_of(4);
  store(out, load(x.inner_tile(0, 0), wgmma_layout(64, 64)));
  const std::string ptx = ptx_of(k);
  CHECK(count(ptx, "ld.global.v2.b32") == 16);
  CHECK(count(ptx, "mul.wide.u32") + count(ptx, "mul.lo") <= 3);  // the thread's row, and 8 rows
}

}  // namespace ptxbuilder::test::global_tensor_test
