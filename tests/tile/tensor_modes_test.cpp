// Tests tensors with nested modes. Elements, slices, register tiles and TMA copies of random layouts are
// compared with the layout algebra on the host.
//
//   tensor_modes_test [--device=emulator|cuda|auto]
#include "ptxbuilder/ir/tensor_modes.h"

#include "misuse_kit.h"
#include "proof_kit.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/tma_modes.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::tensor_modes_test {
namespace {

// The shape ((a,b),c), with rows that are `pitch` elements apart and parts that are `apart` elements apart.
struct Shape {
  int a, b, c, pitch, apart;
  bool known;  // whether these numbers are constants in the kernel

  Layout layout() const { return Layout({{a, b}, c}, {{pitch, apart}, 1}); }
  int rows() const { return a * b; }
  int elements() const { return static_cast<int>(cosize(layout())); }
  std::string text() const { return to_string(layout()) + (known ? "" : ", not known"); }
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

// Returns a random shape. If the shape folds, parts follow each other without a gap, so that rows are one
// dimension; otherwise there are gaps.
Shape random_shape(bool folds, bool known) {
  const int a = draw(2, 9), b = draw(2, 5), c = draw(3, 20), pitch = c + draw(0, 4);
  return {a, b, c, pitch, folds ? a * pitch : a * pitch + draw(1, 30), known};
}

// Returns the layout in the kernel. Its numbers are parameters if they are not known.
DeviceLayout in_kernel(const Shape& s, gptr<u32> numbers) {
  if (s.known) return to_device(s.layout());
  return DeviceLayout({{u32(numbers[0]), u32(numbers[1])}, u32(numbers[2])},
                      {{u32(numbers[3]), u32(numbers[4])}, 1});
}
Matrix numbers_of(const Shape& s) {
  return {DType::u32, {1, 5}, {double(s.a), double(s.b), double(s.c), double(s.pitch), double(s.apart)}};
}

size_t at(const Shape& s, int row, int col) {
  return static_cast<size_t>(s.layout()({{row % s.a, row / s.a}, col}));
}

}  // namespace

TEST_CASE("elements at coordinates that are tuples, integers or both") {
  for (int turn = 0; turn < 8; ++turn) {
    const Shape s = random_shape(turn % 2 == 0, turn % 4 < 2);
    const Matrix in = random_matrix(DType::f32, {1, s.elements()}, -8, 8);
    Kernel k("elements");
    auto [from, numbers, out] = k.params<gptr<f32>, gptr<u32>, gptr<f32>>("from", "numbers", "out");
    const TensorView x(from, in_kernel(s, numbers));
    const GlobalTensor y(out, {4, s.rows(), s.c});
    for_(tid_x(), u32(s.rows() * s.c), u32(128), [&](u32 t) {
      const u32 row = t / s.c, col = t % s.c, i = row % s.a, j = row / s.a;
      y(0, row, col) = x({i, j}, col);
      y(1, row, col) = x(row, col);
      y(2, row, col) = x.slice({{_, j}, _})(i, col);
      y(3, row, col) = x.slice({row, _}).slice({_})(col);
    });
    std::vector<double> expected;
    for (int way = 0; way < 4; ++way)
      for (int row = 0; row < s.rows(); ++row)
        for (int col = 0; col < s.c; ++col) expected.push_back(in.values[at(s, row, col)]);
    check_equal(result_of(std::move(k), {in, numbers_of(s)}, {DType::f32, {4, s.rows() * s.c}, {}}), expected,
                s.text());
  }
}

TEST_CASE("tiles of rows that fold, and of parts that do not, with their ends") {
  for (int turn = 0; turn < 8; ++turn) {
    const bool folds = turn % 2 == 0;
    const Shape s = random_shape(folds, turn % 4 < 2);
    constexpr int kRows = 8, kCols = 16;
    const RegisterLayout layout = strided({kRows, kCols}, 1);
    const Matrix in = random_matrix(DType::f32, {1, s.elements()}, -8, 8);
    // If the parts fold and their sizes are known, the tiles of 8 rows cover all parts. Otherwise, the tiles
    // cover only the last part.
    const bool through = folds && s.known;
    const int rows = through ? s.rows() : s.a, tiles = (rows + kRows - 1) / kRows,
              across = (s.c + kCols - 1) / kCols;
    Kernel k("tiles");
    auto [from, numbers, out] = k.params<gptr<f32>, gptr<u32>, gptr<f32>>("from", "numbers", "out");
    const TensorView x(from, in_kernel(s, numbers));
    const TensorView whole = through ? x : x.slice({{_, s.b - 1}, _});
    for (int i = 0; i < tiles; ++i)
      for (int j = 0; j < across; ++j) {
        const u32 row = u32(tid_x()) * 0 + i;
        store(out + (i * across + j) * (kRows * kCols),
              load(whole.tile({kRows, kCols}, {row, j}).matrix(), layout, f32(-1)));
      }
    std::vector<double> expected;
    for (int i = 0; i < tiles; ++i)
      for (int j = 0; j < across; ++j)
        for (int r = i * kRows; r < (i + 1) * kRows; ++r)
          for (int c = j * kCols; c < (j + 1) * kCols; ++c)
            expected.push_back(r < rows && c < s.c ? in.values[at(s, through ? r : (s.b - 1) * s.a + r, c)]
                                                   : -1);
    check_equal(
        result_of(std::move(k), {in, numbers_of(s)}, {DType::f32, {tiles * across, kRows * kCols}, {}}),
        expected, s.text());
  }
}

TEST_CASE("a tile of each part, when the kernel does not know how many parts there are") {
  const Shape s = {8, 3, 20, 24, 8 * 24 + 12, true};
  const Matrix in = random_matrix(DType::f32, {1, s.elements()}, -8, 8);
  Kernel k("parts");
  auto [from, numbers, out] = k.params<gptr<f32>, gptr<u32>, gptr<f32>>("from", "numbers", "out");
  const u32 parts = numbers[1];
  const TensorView x(from, DeviceLayout({{s.a, parts}, s.c}, {{s.pitch, s.apart}, 1}));
  for_(0u, parts * 2, [&, out = out](u32 i) {
    store(out + i * 128, load(x.tile({8, 16}, {i / 2, i % 2}).matrix(), strided({8, 16}, 1), f32(-1)));
  });
  std::vector<double> expected;
  for (int i = 0; i < 2 * s.b; ++i)
    for (int row = 0; row < 8; ++row)
      for (int col = i % 2 * 16; col < i % 2 * 16 + 16; ++col)
        expected.push_back(col < s.c ? in.values[at(s, i / 2 * 8 + row, col)] : -1);
  check_equal(result_of(std::move(k), {in, numbers_of(s)}, {DType::f32, {2 * s.b, 128}, {}}), expected,
              s.text());
}

TEST_CASE("a tile of a slice of every a-th row is a matrix with its end") {
  const Shape s = {4, 5, 12, 12, 48, true};  // the 20 rows are one dimension
  const Matrix in = random_matrix(DType::f32, {1, s.elements()}, -8, 8);
  Kernel k("steps");
  auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
  const u32 third = tid_x() * 0 + 2;
  store(out,
        load(TensorView(from, to_device(s.layout())).slice({{third, _}, _}).tile({2, 16}, {1, 0}).matrix(),
             strided({8, 16}, 1), f32(7)));
  std::vector<double> expected;
  for (int j = 0; j < 8; ++j)
    for (int c = 0; c < 16; ++c)
      expected.push_back(j < s.b - 2 && c < s.c ? in.values[at(s, 4 * (j + 2) + 2, c)] : 7);
  check_equal(result_of(std::move(k), {in}, {DType::f32, {8, 16}, {}}), expected, s.text());
}

namespace {

constexpr int kInner = 4, kOuter = 2, kTileRows = kInner * kOuter, kTileCols = 16;

// A kernel that copies tiles through shared memory, one after the other. A tile has 16 columns, and (4,2)
// rows or 8 rows.
struct Copies {
  explicit Copies(const Shape& s, bool folds) {
    auto [from, to, numbers, parts, rows, cols] =
        kernel.params<TensorMap, TensorMap, gptr<u32>, u32, u32, u32>("from", "to", "numbers", "parts",
                                                                      "rows", "cols");
    modes.emplace(in_kernel(s, numbers));
    SharedTile tile = kernel.shared<bf16>({kTileRows, kTileCols});
    Barriers bar(kernel, {1});
    sync_threads();
    Phases phases(bar);
    const auto at = [&](u32 i, u32 j, u32 c) {
      return folds ? modes->tile({kTileRows, kTileCols}, {i, c})
                   : modes->tile({{kInner, kOuter}, kTileCols}, {{i, j}, c});
    };
    for_(0u, parts, [&, from = from, to = to, rows = rows, cols = cols](u32 j) {
      for_(0u, rows, [&](u32 i) {
        for_(0u, cols, [&](u32 c) {
          elect([&] { tma_load(tile[0].expecting(bar[0]), from, at(i, j, c)); });
          phases.wait(0);
          elect([&] {
            tma_store(to, tile[0], at(i, j, c));
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group(0);
          });
          sync_threads();
        });
      });
    });
  }

  Kernel kernel{"copies"};
  std::optional<TensorModes> modes;
};

runtime::Argument mapped(const runtime::Buffer& buffer, const TensorModes& modes, const Shape& s) {
  const TensorCopy::MappedTensor map = modes.map_tensor(s.layout(), DType::bf16);
  return runtime::tensor(buffer, DType::bf16, map.shape, map.strides);
}

}  // namespace

TEST_CASE("TMA copies tiles whose rows are parts of two modes, or one that folds") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  for (int turn = 0; turn < 6; ++turn) {
    const bool folds = turn % 3 == 0, known = turn % 3 != 2;
    const int c = 8 * draw(1, 6), pitch = c + 8 * draw(0, 2), a = draw(2, 11), b = draw(2, 5);
    const Shape s{a, b, c, pitch, a * pitch + (folds ? 0 : 8 * draw(1, 5)), known};
    CAPTURE(s.text());
    Copies made(s, folds);
    const TensorModes& modes = *made.modes;
    CHECK(modes.dimensions() == (folds ? 2 : 3));
    const Proof proof = prove(made.kernel.record());
    CHECK_MESSAGE(proof, text_of(proof));
    const Matrix in = random_matrix(DType::bf16, {1, s.elements()}, -8, 8);
    CompilerOptions options;
    options.cache = false, options.assemble = !device->wants_ptx(), options.else_ptx = true;
    const Compiled compiled = Compiler(options).compile(std::move(made.kernel));
    runtime::LoadedKernel kernel(*device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                                 compiled.signature);
    const auto source = runtime::Buffer::of(*device, in.bytes());
    const auto numbers = runtime::Buffer::of(*device, numbers_of(s).bytes());
    runtime::Buffer target(*device, in.bytes().size());
    target.fill(0xff);
    const auto tiles = [](int n, int of) {
      return runtime::scalar(static_cast<uint32_t>((n + of - 1) / of));
    };
    kernel.launch({.grid = {1}},
                  {mapped(source, modes, s), mapped(target, modes, s), runtime::pointer(numbers, DType::u32),
                   folds ? runtime::scalar(1U) : tiles(s.b, kOuter),
                   folds ? tiles(s.rows(), kTileRows) : tiles(s.a, kInner), tiles(s.c, kTileCols)});
    device->synchronize();
    std::vector<std::byte> expected(in.bytes().size(), std::byte{0xff});
    for (int row = 0; row < s.rows(); ++row)
      for (int col = 0; col < s.c; ++col)
        write_element(&expected[2 * at(s, row, col)], DType::bf16, in.values[at(s, row, col)]);
    CHECK(target.copy_out<std::byte>() == expected);
  }
}

TEST_CASE("misuse of tensors with modes") {
  const auto view = [](const Layout& layout, const auto& body) {
    Kernel k("k");
    auto [x] = k.params<gptr<f32>>("x");
    body(TensorView(x, to_device(layout)));
    done(k);
  };
  const auto load_tile = [](const Layout& layout, const DeviceTiler& tiler, const DeviceTuple& number,
                            TileShape shape) {
    Kernel k("k");
    auto [A] = k.params<TensorMap>("A");
    SharedTile tile = k.shared<f32>(shape);
    Barriers bar(k, {1});
    sync_threads();
    const TensorModes modes(to_device(layout));
    elect([&] { HERE tma_load(tile[0].expecting(bar[0]), A, modes.tile(tiler, number)); });
    done(k);
  };
  const Layout nested({{8, 4}, 16}, {{16, 200}, 1});
  check_cases({
      {"a tile over rows of two modes",
       {"matrix: in the view ((8,2),16):((1@1,1@2),1@0), the rows run along 2 dimensions, but a matrix must "
        "have one dimension for its rows"},
       [&](bool bad) {
         view(nested, [&](const TensorView<f32>& x) {
           const DeviceTiler tiler = bad ? DeviceTiler{16, 16} : DeviceTiler{8, 16};
           HERE load(x.tile(tiler, {0, 0}).matrix(), strided({8, 16}, 1));
         });
       }},
      {"a matrix of three modes",
       {"matrix: the view (8,4,16):(1@1,1@2,1@0) has 3 modes, but must have two"},
       [&](bool bad) {
         view(nested, [&](const TensorView<f32>& x) {
           const DeviceTiler at = bad ? DeviceTiler{{_, _}, _} : DeviceTiler{{_, 1}, _};
           HERE load(x.slice(at).matrix(), strided({8, 16}, 1));
         });
       }},
      {"rows and columns along one dimension",
       {"the columns run along the same dimension as the rows"},
       [&](bool bad) {
         view(Layout({{8, 8}, 16}, {{16, 128}, 1}), [&](const TensorView<f32>& x) {
           const DeviceTiler at = bad ? DeviceTiler{{_, _}, 3} : DeviceTiler{{_, 2}, _};
           HERE load(x.slice(at).matrix(), strided({8, 16}, 1));
         });
       }},
      {"a coordinate that does not fit",
       {"(1,2,3)"},
       [&](bool bad) {
         view(nested, [&](const TensorView<f32>& x) {
           const DeviceTuple row = bad ? DeviceTuple{1, 2, 3} : DeviceTuple{1, 2};
           HERE x(row, 3) = 1;
         });
       }},
      {"a tile of another shape",
       {"tma_load: the tile has 8 x 16 elements, ((4,2),16):((1@1,1@2),1@0), but the view of an f32 16x16 "
        "tile",
        "has 16 x 16"},
       [&](bool bad) {
         load_tile(nested, {{4, 2}, 16}, {{0, 0}, 0}, {bad ? 16 : 8, 16});
       }},
      {"columns along the rows",
       {"tma_load: the columns of the tile (16,8):(1@0,1@1) must run along dimension 0, and its rows along "
        "dimension 1"},
       [&](bool bad) {
         bad ? load_tile(Layout({16, 8}, {1, 16}), {16, 8}, {0, 0}, {16, 8})
             : load_tile(Layout({8, 16}, {16, 1}), {8, 16}, {0, 0}, {8, 16});
       }},
      {"six dimensions",
       {"tma_load: the tensor ((2,2,2,2,2),16):((16,40,100,220,460),1) has 6 dimensions, but a tensor map "
        "has at most 5"},
       [&](bool bad) {
         bad ? load_tile(Layout({{2, 2, 2, 2, 2}, 16}, {{16, 40, 100, 220, 460}, 1}), {{2, 2, 1, 1, 1}, 16},
                         {{0, 0, 0, 0, 0}, 0}, {4, 16})
             : load_tile(Layout({{2, 2, 2, 2, 2}, 16}, {{16, 40, 80, 220, 460}, 1}), {{2, 1, 1, 1, 1}, 16},
                         {{0, 0, 0, 0, 0}, 0}, {2, 16});
       }},
      {"no stride of 1",
       {"tma_load: the tensor (8,16):(32,2) has no stride of 1"},
       [&](bool bad) {
         load_tile(Layout({8, 16}, {32, bad ? 2 : 1}), {8, 16}, {0, 0}, {8, 16});
       }},
  });
  const TensorModes modes(to_device(nested));
  CHECK(contains(error_of([&] {
                   modes.map_tensor(Layout({{8, 5}, 16}, {{16, 200}, 1}), DType::f32);
                 }),
                 "map_tensor: the layout is ((8,5),16):((16,200),1), but the kernel was built for "
                 "((8,4),16):((16,200),1)"));
  CHECK(modes.map_tensor(nested, DType::f32).strides == std::vector<uint64_t>{64, 800});
}

}  // namespace ptxbuilder::test::tensor_modes_test
