// Tests tiled copies: laws and complete constants of the plans, and the copies themselves on a device, where
// every element must arrive in its place.
//
//   tiled_copy_test [--device=emulator|cuda|auto]
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "copy_kit.h"
#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/plan/mma_atom.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder::test::tiled_copy_test {
namespace {

constexpr std::array kSwizzles = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

// Returns the contents of a shared tile, memory[offset] = element, according to the layout's own function.
std::vector<int64_t> filled(const ComposedLayout& memory) {
  const int64_t rows = size(memory.shape()[0]), cols = size(memory.shape()[1]);
  std::vector<int64_t> lies(static_cast<size_t>(rows * cols), -1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) lies.at(static_cast<size_t>(memory({i, j}))) = i + rows * j;
  return lies;
}

// Returns element `e` of the register that lane `lane` receives from matrix `m` (PTX ISA, ldmatrix). Row
// addresses are elements of `memory`.
int64_t received(const std::vector<int64_t>& memory, const std::vector<int64_t>& row_starts, bool transposed,
                 int lane, int m, int e) {
  const int row = transposed ? 2 * (lane % 4) + e : lane / 4,
            col = transposed ? lane / 4 : 2 * (lane % 4) + e;
  return memory[static_cast<size_t>(row_starts[static_cast<size_t>(8 * m + row)] + col)];
}

Layout fragments(int k) {
  return repeated(MmaAtom::wgmma_a_in_registers(DType::f32, DType::bf16, DType::bf16, 8).layout_a(), {},
                  {{k / 16, 64 * 16}});
}

// Returns the place of each element (i, j) of a tensor copy in TMA's order: box after box, each row-major in
// the order of the map.
std::vector<int64_t> written_by_boxes(const TensorCopy& copy) {
  const int64_t rows = copy.extents()[0], cols = copy.extents()[1];
  std::vector<int64_t> memory(static_cast<size_t>(rows * cols), -1);
  TensorMapRecipe recipe = copy.recipe();
  const XorSwizzle swizzle = byte_swizzle(copy.swizzle());
  const int bytes = size_of(copy.dtype());
  for (int number = 0; number < copy.boxes().count(); ++number) {
    std::vector<uint32_t> index(recipe.box.size(), 0);  // innermost first
    const auto box = copy.boxes().box(int64_t{0}, number);
    int64_t offset = box.bytes;
    for (bool more = true; more; offset += bytes) {
      int64_t at[2] = {0, 0};
      for (size_t d = 0; d < index.size(); ++d) {
        const TensorMode& mode = copy.map_modes()[index.size() - 1 - d];
        at[mode.dimension] += (box.start[d] + index[d]) * mode.step;
      }
      memory.at(static_cast<size_t>(swizzle(offset) / bytes)) = at[0] + rows * at[1];
      size_t d = 0;
      while (d < index.size() && ++index[d] == recipe.box[d]) index[d++] = 0;
      more = d < index.size();
    }
  }
  return memory;
}

struct TensorCase {
  DType type;
  int64_t rows, cols;
  std::vector<CopyTransform> transforms;
  std::optional<Swizzle> swizzle;
  int64_t row, col;  // the beginning of the slice, which is known only on the device
};

// Copies the slice at (row, col) of a tensor through shared memory to `out`, and back into the tensor `back`.
Kernel through(const TensorCopy& copy) {
  Kernel k("through");
  auto [A, back, out, row, col] =
      k.params<TensorMap, TensorMap, gptr<u32>, u32, u32>("A", "back", "out", "row", "col");
  const int64_t rows = copy.extents()[0], cols = copy.extents()[1];
  SharedTile place = k.shared<u32>({copy.bytes() / 128, 32}, SwizzleNone, 1, "tile");
  const uint32_t aligned = (1024 - place.offset() % 1024) % 1024;
  CHECK(aligned == 0);
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(copy.bytes()));
    tma_load(copy, place[0].address(), A, {ds(row, rows), ds(col, cols)}, bar[0]);
  });
  barrier_wait(bar[0], 0);
  write_out(gmem(out), place[0].address(), copy.dtype(), rows, cols, copy.shared_layout());
  elect([&] {
    tma_store(copy, back, {ds(row, rows), ds(col, cols)}, place[0].address());
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
  return k;
}

// The rows and columns of the tensors.
constexpr int64_t kRows = 256, kCols = 1024;

}  // namespace

TEST_CASE("matrix instructions: registers and addresses name every element once") {
  for (int matrices : {1, 2, 4})
    for (auto [type, transposed] :
         {std::pair{DType::u8, false}, {DType::bf16, false}, {DType::bf16, true}, {DType::f32, false}}) {
      CopyAtom atom = CopyAtom::ldmatrix(matrices, transposed);
      const int64_t count = matrices * 128 / size_of(type);
      std::vector<int> seen(static_cast<size_t>(count), 0), led(seen);
      Layout held = atom.held(type), addressed = atom.addressed(type);
      CHECK(size(held) == count);
      for (int64_t i = 0; i < count; ++i) ++seen[static_cast<size_t>(held(i))];
      for (int64_t i = 0; i < size(addressed); ++i) ++led[static_cast<size_t>(addressed(i))];
      CHECK(seen == std::vector<int>(seen.size(), 1));
      CHECK(led == std::vector<int>(led.size(), 4 / matrices));
    }
  CHECK(to_string(CopyAtom::ldmatrix(4).held(DType::bf16)) == "(32,(2,4)):(2,(1,64))");
  CHECK(to_string(CopyAtom::stmatrix(4, true).held(DType::f16)) == "((4,8),(2,4)):((16,1),(8,64))");
  CHECK(CopyAtom::stmatrix(2, true).describe() == "stmatrix.x2.trans");
}

TEST_CASE("ldmatrix through a tiled copy gives each thread its elements, under every swizzle") {
  for (Swizzle swizzle : kSwizzles)
    for (bool transposed : {false, true})
      for (int matrices : {1, 2, 4}) {
        CAPTURE(matrices);
        // The tile is a plain 64 x 64 tile of m x k, or of k x m with the same fragments.
        Layout held = fragments(64);
        if (transposed) held = composition(make_layout({64, 64}, {64, 1}), held);
        ComposedLayout memory = panel_layout(DType::bf16, 64, 64, swizzle);
        TiledCopy copy(CopyAtom::ldmatrix(matrices, transposed), DType::bf16, held, memory);
        std::vector<int64_t> lies = filled(memory);
        for (int thread = 0; thread < 128; ++thread)
          for (int access = 0; access < copy.accesses(); ++access) {
            std::vector<int64_t> starts;
            for (int lane = 0; lane < 8 * matrices; ++lane)
              starts.push_back(copy.address(thread / 32 * 32 + lane, access) / 2);
            for (int m = 0; m < matrices; ++m)
              for (int e = 0; e < 2; ++e)
                REQUIRE(received(lies, starts, transposed, thread % 32, m, e) ==
                        held({thread, (access * matrices + m) * 2 + e}));
          }
      }
}

TEST_CASE("vectors and cp.async: the elements at an address are the thread's, under every swizzle") {
  for (DType type : {DType::u8, DType::bf16, DType::f32})
    for (Swizzle swizzle : kSwizzles)
      for (int bytes = 16; bytes >= size_of(type); bytes /= 2) {
        const int64_t elements = bytes / size_of(type), cols = 256 / size_of(type);
        Layout held = threads_along_rows(32, cols, 64, elements);
        ComposedLayout memory = panel_layout(type, 32, cols, swizzle);
        TiledCopy copy(bytes >= 4 ? CopyAtom::cp_async(bytes) : CopyAtom::vector(bytes), type, held, memory);
        CHECK(copy.accesses() * elements * 64 == 32 * cols);
        std::vector<int64_t> lies = filled(memory);
        for (int thread = 0; thread < 64; ++thread)
          for (int access = 0; access < copy.accesses(); ++access)
            for (int64_t e = 0; e < elements; ++e)
              REQUIRE(lies[static_cast<size_t>(copy.address(thread, access) / size_of(type) + e)] ==
                      held({thread, access * elements + e}));
      }
}

TEST_CASE("neighbouring threads lie side by side along a row") {
  CHECK(to_string(threads_along_rows(128, 64, 128, 8)) == "((8,16),(8,8)):((1024,1),(128,16))");
  CHECK(to_string(threads_along_rows(2, 512, 32, 8)) == "(32,(8,2,2)):(16,(2,512,1))");
  for (auto [rows, cols, threads, elements] :
       {std::array{128, 64, 128, 8}, {2, 512, 32, 8}, {16, 8, 128, 1}}) {
    Layout held = threads_along_rows(rows, cols, threads, elements);
    std::vector<int> seen(static_cast<size_t>(rows * cols), 0);
    for (int64_t i = 0; i < size(held); ++i) ++seen[static_cast<size_t>(held(i))];
    CHECK(seen == std::vector<int>(seen.size(), 1));
  }
}

TEST_CASE("a tensor copy as TMA performs it: swizzle, boxes, bytes and the layout after it") {
  // The tile has 128 elements along m and 64 along k, in two boxes, one for each span of 64 elements.
  TensorCopy mn_major(DType::f16, {64, 128});
  CHECK(mn_major.swizzle() == Swizzle::b128);
  CHECK(mn_major.boxes().count() == 2);
  CHECK(mn_major.recipe().box == std::vector<uint32_t>{64, 64});
  CHECK(mn_major.box_bytes() == 8192);
  CHECK(mn_major.bytes() == 16384);
  CHECK(to_string(select(mn_major.shared_layout().layout(), {1, 0})) == "((64,2),64):((1,4096),64)");
  CHECK(mn_major.boxes().box(int64_t{0}, 1).start == std::vector<int64_t>{64, 0});

  struct Golden {
    DType type;
    std::vector<int64_t> extents;
    std::vector<CopyTransform> transforms;
    const char *swizzle, *boxes, *layout;
  };
  const TileTransform by64{{64, 64}};
  const std::vector<Golden> goldens = {
      {DType::f16, {128, 64}, {}, "128", "1 box of 128x64", "Sw<3,3,3> o 0 o (128,64):(64,1)"},
      {DType::f16, {64, 32}, {}, "64", "1 box of 64x32", "Sw<2,3,3> o 0 o (64,32):(32,1)"},
      {DType::f16, {64, 16}, {}, "32", "1 box of 64x16", "Sw<1,3,3> o 0 o (64,16):(16,1)"},
      {DType::f16, {64, 8}, {}, "none", "1 box of 64x8", "Sw<0,3,3> o 0 o (64,8):(8,1)"},
      {DType::e4m3,
       {128, 256},
       {},
       "128",
       "2 boxes of 128x128",
       "Sw<3,4,3> o 0 o (128,(128,2)):(128,(1,16384))"},
      {DType::f32, {64, 96}, {}, "128", "3 boxes of 64x32", "Sw<3,2,3> o 0 o (64,(32,3)):(32,(1,2048))"},
      {DType::bf16, {512, 64}, {}, "128", "2 boxes of 256x64", "Sw<3,3,3> o 0 o (512,64):(64,1)"},
      {DType::f16,
       {64, 128},
       {by64},
       "128",
       "1 box of 1x2x64x64",
       "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))"},
      {DType::f16,
       {128, 128},
       {by64},
       "128",
       "1 box of 2x2x64x64",
       "Sw<3,3,3> o 0 o ((64,2),(64,2)):((64,8192),(1,4096))"},
      {DType::f16,
       {128, 128},
       {by64, TransposeTransform{{1, 0, 2, 3}}},
       "128",
       "1 box of 2x2x64x64",
       "Sw<3,3,3> o 0 o ((64,2),(64,2)):((64,4096),(1,8192))"},
      {DType::f16,
       {2, 64, 128},
       {by64},
       "128",
       "1 box of 2x1x2x64x64",
       "Sw<3,3,3> o 0 o (2,64,(64,2)):(8192,64,(1,4096))"},
  };
  for (const Golden& g : goldens) {
    TensorCopy copy(g.type, g.extents, g.transforms);
    CAPTURE(copy.describe());
    CHECK(name(copy.swizzle()) == g.swizzle);
    CHECK(copy.describe().ends_with(g.boxes));
    CHECK(to_string(copy.shared_layout()) == g.layout);
    CHECK(copy.boxes().count() * copy.box_bytes() == copy.bytes());
  }
}

TEST_CASE("transforms compose, and map tensors of any stride") {
  auto extents = [](const std::vector<TensorMode>& modes) {
    std::vector<int64_t> e;
    for (const TensorMode& m : modes) e.push_back(m.extent);
    return e;
  };
  using Extents = std::vector<int64_t>;
  CHECK(extents(transform({5, 128, 128}, {TileTransform{{64, 32}}})) == Extents{5, 2, 4, 64, 32});
  CHECK(extents(transform({64, 128}, {TileTransform{{64, 64}}})) == Extents{1, 2, 64, 64});
  CHECK(extents(transform({40, 128}, {TileTransform{{64, 64}}})) == Extents{1, 2, 40, 64});
  CHECK(extents(transform({100, 200}, {TileTransform{{64, 64}, Rounding::down}})) == Extents{1, 3, 64, 64});
  CHECK(extents(transform({100, 200}, {TileTransform{{64, 64}, Rounding::up}})) == Extents{2, 4, 64, 64});
  CHECK(extents(transform({5, 128, 96}, {TransposeTransform{{2, 0, 1}}})) == Extents{96, 5, 128});
  // Two nested tilings multiply their steps.
  CHECK(transform({256, 256}, {TileTransform{{64, 64}}, TileTransform{{8, 64}}}) ==
        std::vector<TensorMode>{{4, 0, 64}, {4, 1, 64}, {8, 0, 8}, {1, 1, 64}, {8, 0, 1}, {64, 1, 1}});
  // Two transpositions cancel, so that each index leads to its own element again.
  CHECK(transform({4, 6}, {TransposeTransform{{1, 0}}, TransposeTransform{{1, 0}}}) ==
        std::vector<TensorMode>{{4, 0, 1}, {6, 1, 1}});

  TensorCopy copy(DType::f16, {64, 64}, {TileTransform{{64, 64}}});
  TensorCopy::MappedTensor mapped = copy.map_tensor({256, 512}, {520, 1});
  CHECK(mapped.shape == std::vector<uint64_t>{64, 64, 8, 4});
  CHECK(mapped.strides == std::vector<uint64_t>{1040, 128, 64 * 1040});
}

TEST_CASE("boxes write exactly the layout, element by element") {
  int count = 0;
  for (DType type : {DType::e4m3, DType::f16, DType::f32})
    for (int64_t rows : {8, 64, 512})
      for (int64_t spans : {1, 2, 3})
        for (Swizzle swizzle : kSwizzles) {
          const int64_t span =
              swizzle == Swizzle::none ? 64 / size_of(type) : span_bytes(swizzle) / size_of(type);
          std::vector<TensorCopy> copies = {TensorCopy(type, {rows, spans * span}, {}, swizzle)};
          for (int64_t tile : {8, 64}) {
            if (tile > rows) continue;
            copies.emplace_back(type, std::vector{rows, spans * span},
                                std::vector<CopyTransform>{TileTransform{{tile, span}}}, swizzle);
            copies.emplace_back(
                type, std::vector{rows, spans * span},
                std::vector<CopyTransform>{TileTransform{{tile, span}}, TransposeTransform{{1, 0, 2, 3}}},
                swizzle);
          }
          for (const TensorCopy& copy : copies) {
            CAPTURE(copy.describe());
            CHECK(written_by_boxes(copy) == filled(copy.shared_layout()));
            ++count;
          }
        }
  CHECK(count == 3 * 3 * 4 * (3 + 5 + 5));
}

TEST_CASE("tiles of a tensor on the device: each transform, from starts that only the device knows") {
  Running running;
  std::vector<TensorCase> cases;
  for (DType type : {DType::e4m3, DType::bf16, DType::f32})
    for (Swizzle swizzle : kSwizzles) {
      const int64_t span =
          swizzle == Swizzle::none ? 64 / size_of(type) : span_bytes(swizzle) / size_of(type);
      const int64_t cols = std::max<int64_t>(2 * span, 2048 / size_of(type) / 16);
      cases.push_back({type, 64, cols, {}, swizzle, 40, cols / 2 * 3 / 16 * 16});
      cases.push_back({type, 64, 2 * span, {TileTransform{{32, span}}}, swizzle, 64, 3 * span});
      cases.push_back({type,
                       64,
                       2 * span,
                       {TileTransform{{8, span}}, TransposeTransform{{1, 0, 2, 3}}},
                       swizzle,
                       72,
                       span});
    }
  for (const TensorCase& c : cases) {
    TensorCopy copy(c.type, {c.rows, c.cols}, c.transforms, c.swizzle);
    CAPTURE(copy.describe());
    const int bytes = size_of(c.type);
    std::vector<std::byte> matrix = numbered(c.type, kRows * kCols);
    runtime::Buffer a = runtime::Buffer::of(*running.device, matrix),
                    out(*running.device, static_cast<size_t>(copy.bytes())),
                    back(*running.device, matrix.size());
    out.fill(0xff);
    back.fill(0);
    TensorCopy::MappedTensor map = copy.map_tensor({kRows, kCols}, {kCols, 1});
    Compiled compiled = running.compile(through(copy));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    kernel.launch(
        {.grid = {1}},
        {runtime::tensor(a, c.type, map.shape, map.strides),
         runtime::tensor(back, c.type, map.shape, map.strides), runtime::pointer(out, DType::u32),
         runtime::scalar(static_cast<uint32_t>(c.row)), runtime::scalar(static_cast<uint32_t>(c.col))});
    running.device->synchronize();
    std::vector<std::byte> wanted = rows_of(matrix, kCols, c.row, c.col, c.rows, c.cols, bytes);
    CHECK(out.copy_out<std::byte>() == wanted);
    std::vector<std::byte> stored = back.copy_out<std::byte>(),
                           others(static_cast<size_t>(copy.bytes()), std::byte{0});
    CHECK(rows_of(stored, kCols, c.row, c.col, c.rows, c.cols, bytes) == wanted);
    CHECK(rows_of(stored, kCols, 0, 0, 8, kCols, bytes) ==
          std::vector<std::byte>(static_cast<size_t>(8 * kCols * bytes),
                                 std::byte{0}));  // nothing else is written
  }
}

TEST_CASE("cp.async of 4, 8 and 16 bytes, with zeros beyond the edges") {
  Running running;
  constexpr int64_t rows = 48, cols = 64;
  constexpr uint32_t inside_rows = 37, inside_cols = 40;
  for (DType type : {DType::bf16, DType::f32})
    for (int bytes : {4, 8, 16})
      for (Swizzle swizzle : {Swizzle::none, Swizzle::b128})
        for (bool bounded : {false, true}) {
          CAPTURE(bytes);
          Kernel k("copy");
          auto [in, out] = k.params<gptr<u32>, gptr<u32>>("in", "out");
          SharedTile tile(k.builder(), type, {rows, cols}, swizzle, 1, "tile", Where::here());
          TiledCopy copy(CopyAtom::cp_async(bytes), type,
                         threads_along_rows(rows, cols, 128, bytes / size_of(type)), tile[0].layout());
          GlobalTile from{gmem(in), cols};
          if (bounded) from = {gmem(in), cols, 1, s32(inside_rows), s32(inside_cols)};
          load_async(copy, tile[0].address(), from, tid_x());
          cp_async_commit_group();
          cp_async_wait_group(0);
          sync_threads();
          write_out(gmem(out), tile[0].address(), type, rows, cols, tile[0].layout());

          std::vector<std::byte> matrix = numbered(type, rows * cols), wanted = matrix;
          if (bounded)
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t b = 0; b < cols * size_of(type); ++b)
                if (i >= inside_rows || b >= inside_cols * size_of(type))
                  wanted[static_cast<size_t>(i * cols * size_of(type) + b)] = std::byte{0};
          runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), b(*running.device, matrix.size());
          b.fill(0xff);
          Compiled compiled = running.compile(std::move(k));
          runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
          kernel.launch({.grid = {1}}, {runtime::pointer(a, DType::u32), runtime::pointer(b, DType::u32)});
          running.device->synchronize();
          CHECK(b.copy_out<std::byte>() == wanted);
        }
}

TEST_CASE("registers to shared memory and back by every instruction") {
  Running running;
  struct Way {
    CopyAtom store, load;
    bool transposed;
  };
  std::vector<Way> ways;
  for (int matrices : {1, 2, 4})
    for (bool transposed : {false, true}) {
      CopyAtom st = CopyAtom::stmatrix(matrices, transposed), ld = CopyAtom::ldmatrix(matrices, transposed);
      ways.push_back({st, ld, transposed});
      if (!transposed) {
        ways.push_back({st, CopyAtom::vector(4), false});
        ways.push_back({CopyAtom::vector(4), ld, false});
      }
      ways.push_back({st, CopyAtom::vector(2), transposed});
    }
  for (const Way& way : ways)
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b128}) {
      CAPTURE(way.store.describe());
      CAPTURE(way.load.describe());
      Layout held = fragments(64);
      if (way.transposed) held = composition(make_layout({64, 64}, {64, 1}), held);
      Kernel k("round");
      auto [out] = k.params<gptr<u32>>("out");
      SharedTile tile = k.shared<bf16>({64, 64}, swizzle);
      TiledCopy put(way.store, DType::bf16, held, tile[0].layout()),
          take(way.load, DType::bf16, held, tile[0].layout());
      // Element (i, j) is the number i + 64 j. From it, the layout determines what a thread holds.
      std::vector<u32> numbers;
      DeviceLayout elements = to_device(held);
      for (int v = 0; v < 32; ++v) numbers.push_back(elements({Index(tid_x()), v}).value());
      auto packed = [&](const CopyAtom& atom) {
        if (atom.register_bytes() == 2) return numbers;
        std::vector<u32> pairs;
        for (size_t v = 0; v < 32; v += 2) pairs.push_back(numbers[v] | numbers[v + 1] << 16);
        return pairs;
      };
      store(put, tile[0].address(), tid_x(), packed(way.store));
      sync_threads();
      std::vector<u32> taken = load(take, tile[0].address(), tid_x()), wanted = packed(way.load);
      REQUIRE(taken.size() == wanted.size());
      Var<u32> wrong(0u);
      for (size_t i = 0; i < taken.size(); ++i) wrong += select(taken[i] == wanted[i], u32(0), 1u);
      out[tid_x()] = wrong;
      runtime::Buffer b(*running.device, 128 * 4);
      b.fill(0xff);
      Compiled compiled = running.compile(std::move(k));
      runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
      kernel.launch({.grid = {1}}, {runtime::pointer(b, DType::u32)});
      running.device->synchronize();
      CHECK(b.copy_out<uint32_t>() == std::vector<uint32_t>(128, 0));
    }
}

TEST_CASE("bulk copies, and bytes one by one") {
  Running running;
  Kernel k("bulk");
  auto [in, out, start] = k.params<gptr<u8>, gptr<u8>, u32>("in", "out", "start");
  SharedTile tile = k.shared<u8>({16, 64});
  Barriers bar(k, {1});
  sync_threads();
  elect([&] { bulk_load(tile[0].expecting(bar[0]), in, start); });
  barrier_wait(bar[0], 0);
  TiledCopy bytes(CopyAtom::vector(1), DType::u8, threads_along_rows(16, 64, 128, 1), tile[0].layout());
  std::vector<u32> own = load(bytes, tile[0].address(), tid_x());
  for (u32& b : own) b = b ^ 0xff;
  sync_threads();
  store(bytes, tile[0].address(), tid_x(), own);
  fence_proxy_async<Space::shared>();
  sync_threads();
  elect([&] {
    bulk_store(out, start, tile[0]);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
  std::vector<std::byte> data = numbered(DType::u8, 4096), wanted(4096, std::byte{0});
  for (size_t i = 1600; i < 2624; ++i) wanted[i] = ~data[i];
  runtime::Buffer a = runtime::Buffer::of(*running.device, data), b(*running.device, data.size());
  b.fill(0);
  Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  kernel.launch({.grid = {1}},
                {runtime::pointer(a, DType::u8), runtime::pointer(b, DType::u8), runtime::scalar(1600u)});
  running.device->synchronize();
  CHECK(b.copy_out<std::byte>() == wanted);
}

TEST_CASE("slices of a tile in shared memory, from starts that only the device knows") {
  Running running;
  for (auto [rows, cols, row, col] :
       {std::array{8, 64, 24, 64}, {32, 128, 32, 0}, {64, 64, 0, 64}, {16, 128, 48, 0}}) {
    CAPTURE(rows);
    Kernel k("slice");
    auto [A, out, from_row, from_col] = k.params<TensorMap, gptr<u32>, u32, u32>("A", "out", "row", "col");
    TensorCopy copy(DType::bf16, {64, 128});
    SharedTile tile = k.shared<bf16>({64, 128}, Swizzle128B);
    Barriers bar(k, {1});
    sync_threads();
    elect([&] {
      mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(copy.bytes()));
      tma_load(copy, tile[0].address(), A, {ds(0, 64), ds(0, 128)}, bar[0]);
    });
    barrier_wait(bar[0], 0);
    SharedSlice slice = shared_slice(DType::bf16, tile[0].layout(), tile[0].address(), ds(from_row, rows),
                                     ds(from_col, cols));
    const int elements = rows * cols / 128 >= 8 ? 8 : 4;
    TiledCopy part(CopyAtom::vector(2 * elements), DType::bf16, threads_along_rows(rows, cols, 128, elements),
                   slice.memory);
    store(part, GlobalTile{gmem(out), static_cast<uint32_t>(cols)}, tid_x(),
          load(part, slice.address, tid_x()));
    std::vector<std::byte> matrix = numbered(DType::bf16, 64 * 128);
    runtime::Buffer a = runtime::Buffer::of(*running.device, matrix),
                    b(*running.device, static_cast<size_t>(rows * cols * 2));
    b.fill(0xff);
    Compiled compiled = running.compile(std::move(k));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    kernel.launch({.grid = {1}},
                  {runtime::tensor(a, DType::bf16, {128, 64}), runtime::pointer(b, DType::u32),
                   runtime::scalar(static_cast<uint32_t>(row)), runtime::scalar(static_cast<uint32_t>(col))});
    running.device->synchronize();
    CHECK(b.copy_out<std::byte>() == rows_of(matrix, 128, row, col, rows, cols, 2));
  }
}

// Two alternatives of one place are used one after the other, with and without the necessary barrier between
// them.
TEST_CASE("a shared place used again: right after a barrier, a race without one") {
  for (bool barrier : {true, false}) {
    if (!barrier && device_name != "emulator") continue;  // only the emulator detects races
    Running running;
    Kernel k("again");
    auto [out] = k.params<gptr<f32>>("out");
    auto [first, second] = k.shared_union(
        [&] {
          return k.shared<f32>({1, 128}, SwizzleNone, 1, "first");
        },
        [&] {
          return k.shared<f32>({2, 128}, SwizzleNone, 1, "second");
        });
    CHECK(k.signature().dynamic_shared_bytes == 1024);
    sptr<f32> a(first[0].address()), b(second[0].address());
    a[tid_x()] = f32(tid_x());
    sync_threads();
    f32 mirrored = a[127 - tid_x()];
    if (barrier) sync_threads();
    b[tid_x()] = mirrored * 2;
    sync_threads();
    out[tid_x()] = b[(tid_x() + 1) % 128];
    runtime::Buffer result(*running.device, 128 * 4);
    Compiled compiled = running.compile(std::move(k));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    std::string problem;
    try {
      kernel.launch({.grid = {1}}, {runtime::pointer(result, f32::dtype)});
      running.device->synchronize();
    } catch (const Error& e) {
      problem = e.what();
    }
    CAPTURE(problem);
    if (!barrier) {
      CHECK(problem.find(" or second+") != std::string::npos);
      continue;
    }
    CHECK(problem.empty());
    std::vector<float> got = result.copy_out<float>();
    for (int i = 0; i < 128; ++i)
      CHECK(got[static_cast<size_t>(i)] == 2.0f * static_cast<float>(127 - (i + 1) % 128));
  }
}

}  // namespace ptxbuilder::test::tiled_copy_test
