// Tests products of one tile on the tensor cores. There is a kernel for each combination of types,
// transposes, m and n, swizzle, type of the result, and place of A (shared memory or registers). The data are
// small integers, whose sums are exact in every type, so that each result has only one right value.
//
//   mma_matrix_test [--device=emulator|cuda|auto] [--repeat=N]
//
// Kernels with A in registers run N times (by default, 100 times on a GPU), and must always produce the same
// bits. Otherwise, an instruction that overwrites registers before the wgmma has read them might pass by
// chance.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "mma_types.h"
#include "options.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::mma_matrix_test {

namespace {

const int& repeat = test::option("repeat", 0);  // 0 means 100 on a GPU, and once on the emulator

// The path of A to the tensor cores: through a descriptor, in registers from ldmatrix, or in registers from a
// product's accumulators.
enum class Source { shared, loaded, computed };

struct Case {
  DType a, b, d;
  int m, n;
  Swizzle swizzle;
  bool a_transposed, b_transposed;
  Source source = Source::shared;
  int columns = 0;  // columns of each wgmma, or 0 for the maximum

  int k() const { return 128 / size_of(a); }  // one span of the widest swizzle
  std::string text() const {
    constexpr const char* sources[] = {"shared", "loaded", "computed"};
    return fmt::format("{} += {} x {}, {}x{}x{}, swizzle {}{}{}, A {}", name(d), name(a), name(b), m, n, k(),
                       name(swizzle), a_transposed ? ", A transposed" : "",
                       b_transposed ? ", B transposed" : "", sources[static_cast<int>(source)]);
  }
};

// Returns the shape of an operand in memory.
TileShape shape(int mn, int k, bool transposed, DType type, Swizzle swizzle) {
  TileShape s = transposed ? TileShape{k, mn} : TileShape{mn, k};
  if (swizzle == Swizzle::none) s.panel_cols = 16 / size_of(type);
  return s;
}

SharedTile tile(Kernel& k, DType type, TileShape shape, Swizzle swizzle) {
  return SharedTile(k.builder(), type, shape, swizzle, 1, "", Where::here());
}

TileView oriented(const SharedTile& tile, bool transposed) {
  return transposed ? tile[0].transposed() : tile[0];
}

// Returns the result type of the product that computes A. That product multiplies A itself by a permutation.
DType first_result(const Case& c) {
  if (c.d == DType::s32) return DType::s32;
  return c.a == DType::f16 ? c.d : DType::f32;
}

template <class T>
Kernel product(const Case& c) {
  Kernel k("product");
  // Accumulators and fragments together may exceed the registers, which is correct but slow.
  for (const char* advisory : {"C7511", "spills", "stack"}) k.waive(advisory);
  auto [A, B, P, out] = k.params<TensorMap, TensorMap, TensorMap, gptr<T>>("A", "B", "P", "out");
  auto a = tile(k, c.a, shape(c.m, c.k(), c.a_transposed, c.a, c.swizzle), c.swizzle);
  auto b = tile(k, c.b, shape(c.n, c.k(), c.b_transposed, c.b, c.swizzle), c.swizzle);
  auto p = tile(k, c.a, {c.k(), c.k()}, Swizzle128B);  // the permutation that computes A
  Barriers loaded(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(loaded[0], a.stage_bytes() + b.stage_bytes() + p.stage_bytes());
    tma_load(a[0].on(loaded[0]), A, 0, 0);
    if (c.n > 256)  // no box is longer than 256
      for (int half : {0, 1})
        tma_load(b[0].rows(half * c.n / 2, c.n / 2).on(loaded[0]), B, 0, half * c.n / 2);
    else
      tma_load(b[0].on(loaded[0]), B, 0, 0);
    tma_load(p[0].on(loaded[0]), P, 0, 0);
  });
  barrier_wait(loaded[0], 0);

  Accumulator acc(c.m, c.n, c.d);
  if (c.columns > 0) acc.set_wgmma_columns(c.columns);
  TileView a_view = oriented(a, c.a_transposed), b_view = oriented(b, c.b_transposed);
  auto multiply = [&](const auto& left) {
    wgmma_group([&] { mma(acc, left, b_view); });
    wgmma_wait(0);
  };
  if (c.source == Source::shared) multiply(a_view);
  if (c.source == Source::loaded)
    test::visit_a_type(c.a, [&]<class A>() { multiply(load<A>(a_view, wgmma_a(c.a, 64, c.k()))); });
  if (c.source == Source::computed) {
    Accumulator first(64, c.k(), first_result(c));
    wgmma_group([&] { mma(first, a_view, p[0]); });
    wgmma_wait(0);
    auto multiply_by = [&]<class D>() {
      test::visit_a_type(
          c.a, [&]<class A>() { multiply(layout_cast(astype<A>(load<D>(first)), wgmma_a(c.a, 64, c.k()))); });
    };
    if (first.dtype() == DType::f32) multiply_by.template operator()<f32>();
    if (first.dtype() == DType::f16) multiply_by.template operator()<f16>();
    if (first.dtype() == DType::s32) multiply_by.template operator()<s32>();
  }
  store(out, load<T>(acc));
  return k;
}

Kernel build(const Case& c) {
  if (c.d == DType::f16) return product<f16>(c);
  if (c.d == DType::s32) return product<s32>(c);
  return product<f32>(c);
}

// A rows x columns matrix, as numbers on the host and as elements on the device.
struct Matrix {
  int rows, cols;
  std::vector<double> values;

  Matrix(int rows, int cols) : rows(rows), cols(cols), values(static_cast<size_t>(rows * cols)) {}
  double& at(int i, int j) { return values[static_cast<size_t>(i * cols + j)]; }
  double at(int i, int j) const { return values[static_cast<size_t>(i * cols + j)]; }
  Matrix transposed() const {
    Matrix t(cols, rows);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j) t.at(j, i) = at(i, j);
    return t;
  }
  std::vector<std::byte> encoded(DType type) const {
    size_t size = static_cast<size_t>(size_of(type));
    std::vector<std::byte> bytes(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) write_element(&bytes[i * size], type, values[i]);
    return bytes;
  }
};

Matrix random_matrix(int rows, int cols, DType type, uint32_t seed) {
  Matrix matrix(rows, cols);
  std::mt19937 engine(seed);
  int least = type == DType::u8 ? 0 : -4;
  for (double& v : matrix.values) v = static_cast<double>(engine() % 9) + least;
  return matrix;
}

// Column j of A P is column (5 j + 3) mod k of A.
Matrix permutation(int k) {
  Matrix p(k, k);  // n x k, with the layout of B
  for (int j = 0; j < k; ++j) p.at(j, (5 * j + 3) % k) = 1;
  return p;
}

Matrix expected(const Case& c, const Matrix& a, const Matrix& b) {
  Matrix d(c.m, c.n);
  for (int i = 0; i < c.m; ++i)
    for (int j = 0; j < c.n; ++j)
      for (int x = 0; x < c.k(); ++x)
        d.at(i, j) += a.at(i, c.source == Source::computed ? (5 * x + 3) % c.k() : x) * b.at(j, x);
  return d;
}

runtime::Argument tensor(const runtime::Buffer& buffer, DType type, const Matrix& m) {
  return runtime::tensor(buffer, type, {static_cast<uint64_t>(m.cols), static_cast<uint64_t>(m.rows)});
}

// Returns the number of times that a case runs.
int rounds_of(const Case& c, const runtime::Device& device) {
  if (c.source == Source::shared) return 1;
  if (repeat > 0) return repeat;
  return device.wants_ptx() ? 1 : 100;
}

// Runs a case several times on poisoned output. Counts wrong elements, and bits that differ from those of the
// first run.
int wrong_elements(runtime::Device& device, const Case& c, const Compiled& compiled, uint32_t seed) {
  runtime::LoadedKernel kernel(device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                               compiled.signature);
  Matrix a = random_matrix(c.m, c.k(), c.a, seed), b = random_matrix(c.n, c.k(), c.b, seed + 1),
         p = permutation(c.k());
  Matrix a_lies = c.a_transposed ? a.transposed() : a, b_lies = c.b_transposed ? b.transposed() : b;
  runtime::Buffer da = runtime::Buffer::of(device, a_lies.encoded(c.a)),
                  db = runtime::Buffer::of(device, b_lies.encoded(c.b)),
                  dp = runtime::Buffer::of(device, p.encoded(c.a));
  std::vector<std::byte> right = expected(c, a, b).encoded(c.d);
  runtime::Buffer out(device, right.size());
  size_t size = static_cast<size_t>(size_of(c.d));
  int wrong = 0;
  std::vector<std::byte> first;
  for (int round = 0; round < rounds_of(c, device); ++round) {
    out.fill(0xff);
    kernel.launch({.grid = {1}}, {tensor(da, c.a, a_lies), tensor(db, c.b, b_lies), tensor(dp, c.a, p),
                                  runtime::pointer(out, c.d)});
    std::vector<std::byte> got = out.copy_out<std::byte>();
    for (size_t i = 0; i < got.size(); i += size) {
      // 0 and -0 count as equal.
      bool equal = read_element(&got[i], c.d) == read_element(&right[i], c.d);
      wrong += !equal;
    }
    if (round == 0) first = got;
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != first[i];
  }
  return wrong;
}

// Returns a compiler that produces cubins for a GPU if there is a ptxas. Otherwise it produces PTX, which the
// driver compiles.
Compiler compiler_for(const runtime::Device& device) {
  CompilerOptions options;
  options.cache = false;
  options.assemble = !device.wants_ptx();
  options.else_ptx = true;
  return Compiler(options);
}

void check_all(const std::vector<Case>& cases) {
  std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  Compiler compiler = compiler_for(*device);
  std::vector<std::function<Kernel()>> builders;
  for (const Case& c : cases) builders.push_back([&c] { return build(c); });
  std::vector<Compiled> compiled = compiler.compile_all(builders);
  for (size_t i = 0; i < cases.size(); ++i) {
    int wrong = -1;
    std::string problem;
    try {
      wrong = wrong_elements(*device, cases[i], compiled[i], static_cast<uint32_t>(i));
    } catch (const Error& e) {
      problem = e.what();
    }
    CHECK_MESSAGE(wrong == 0, cases[i].text() << ": " << wrong << " wrong elements " << problem);
  }
  MESSAGE(cases.size() << " kernels on " << device->properties().name);
}

constexpr std::array kSwizzles = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

}  // namespace

TEST_CASE("products with A and B in shared memory") {
  // A GPU runs all combinations of m and n. The emulator runs a third of them. Types, swizzle and
  // transposition determine which third, so that each m and each n occurs with all of them.
  bool all = device_name == "cuda";
  std::vector<Case> cases;
  int types = 0;
  for (Types t : all_types()) {
    ++types;
    for (int m : {64, 128, 192})
      for (int n : {64, 128, 192})
        for (Swizzle swizzle : kSwizzles)
          for (bool a_transposed : {false, true})
            for (bool b_transposed : {false, true}) {
              bool chosen = all || ((m + n) / 64 + types + static_cast<int>(swizzle) +
                                    (a_transposed ? 1 : 0) + (b_transposed ? 1 : 0)) %
                                           3 ==
                                       0;
              if (chosen && (size_of(t.a) == 2 || !(a_transposed || b_transposed)))
                cases.push_back({t.a, t.b, t.d, m, n, swizzle, a_transposed, b_transposed});
            }
  }
  CHECK(cases.size() == (3 * 4 + 13) * 4 * (all ? 9 : 3));
  check_all(cases);
}

TEST_CASE("products of several wgmmas side by side") {
  std::vector<Case> cases;
  for (Types t : all_types())
    for (Source source : {Source::shared, Source::loaded}) {
      cases.push_back({t.a, t.b, t.d, 64, 288, Swizzle::b128, false, false, source});
      cases.push_back({t.a, t.b, t.d, 64, 96, Swizzle::b128, false, false, source, 48});
      if (size_of(t.b) == 2)
        cases.push_back({t.a, t.b, t.d, 64, 192, Swizzle::b128, false, true, source, 64});
    }
  CHECK(cases.size() > 60);
  check_all(cases);
}

TEST_CASE("products with A in registers") {
  // The emulator runs one of the three n for each swizzle; types and transposition determine which.
  const bool all = device_name == "cuda";
  std::vector<Case> cases;
  int types = 0;
  for (Types t : all_types()) {
    ++types;
    for (int n : {64, 128, 192})
      for (Swizzle swizzle : kSwizzles)
        for (bool a_transposed : {false, true})
          for (Source source : {Source::loaded, Source::computed}) {
            if (a_transposed && size_of(t.a) != 2) continue;
            if (source == Source::computed && (t.a == DType::tf32 || swizzle != Swizzle::b128)) continue;
            if (!all && source == Source::loaded &&
                (n / 64 + types + static_cast<int>(swizzle) + (a_transposed ? 1 : 0)) % 3 != 0)
              continue;
            bool b_transposed = size_of(t.b) == 2 && n == 128;
            cases.push_back({t.a, t.b, t.d, 64, n, swizzle, a_transposed, b_transposed, source});
          }
  }
  CHECK(cases.size() > (all ? 200 : 100));
  check_all(cases);
}

}  // namespace ptxbuilder::test::mma_matrix_test
