// Tests moves of register tiles: between layouts, to and from shared and global memory, between lanes and
// warps, and to the operands of matrix products. Each element must arrive at its place, for every type,
// swizzle and layout.
//
//   register_move_test [--device=emulator|cuda|auto]
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "library_kit.h"
#include "ptxbuilder/plan/lane_exchange.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/proof/proof.h"
#include "ptxbuilder/tile/commit.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::register_move_test {
namespace {

double least_of(DType type) { return type == DType::u8 || type == DType::u32 ? 0 : -8; }

// Returns the layouts of a 64 x cols tile that the tests combine.
std::vector<RegisterLayout> layouts(int cols) {
  TileExtent extent{64, cols};
  std::vector<RegisterLayout> all = {
      wgmma_layout(64, cols),    wgmma_8bit(cols),          wgmma_32bit(cols),
      strided(extent, 1),        strided(extent, 4),        strided(extent, 8),
      wgmma_upcast_2x(64, cols), wgmma_upcast_4x(64, cols), wgmma_transposed(64, cols)};
  Layout columns = make_layout({{2, 32, 2}, 16}, {{32, 1, 1024}, 64});
  if (cols == 32) all.emplace_back(extent, columns, "columns");
  return all;
}

// The kernel moves `in` to shared memory with TMA, from there to registers, to registers of another layout,
// back to shared memory, and with TMA to `out`.
template <class T>
std::vector<double> through_shared(const Matrix& in, Swizzle swizzle, const RegisterLayout& first,
                                   const RegisterLayout& second) {
  Kernel k("through_shared");
  auto [In, Out] = k.params<TensorMap, TensorMap>("In", "Out");
  auto from = k.shared<T>({in.extent.rows, in.extent.cols}, swizzle);
  auto to = k.shared<T>({in.extent.rows, in.extent.cols}, swizzle);
  Barriers loaded(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(loaded[0], from.stage_bytes());
    tma_load(from[0].on(loaded[0]), In, 0, 0);
  });
  barrier_wait(loaded[0], 0);
  store(to[0], layout_cast(load<T>(from[0], first), second));
  store_out(Out, to[0], 0, 0);
  Matrix out = in;
  return result_of(std::move(k), {in}, out);
}

}  // namespace

TEST_CASE("shared memory in every swizzle, type and layout, and casts between layouts") {
  size_t offset = 0;
  for_types<f32, f16, bf16, tf32, e4m3, e5m2, s8, u8, s32, u32>([&]<class T>() {
    int cols = 256 / size_of(T::dtype);
    Matrix in = random_matrix(T::dtype, {64, cols}, least_of(T::dtype), 8);
    in.tensor = true;
    ++offset;
    std::vector<RegisterLayout> all = layouts(cols);
    REQUIRE(all.size() % 2 == 1);
    size_t turn = 0;
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (const RegisterLayout& first : all) {
        const RegisterLayout& second = all[++turn % all.size()];
        if (swizzle == Swizzle::none && cols > 256) continue;
        // Only every second layout is tested. The number of layouts is odd, so the next swizzle and the next
        // type test the others.
        if ((turn + offset) % 2 != 0) continue;
        check_equal(through_shared<T>(in, swizzle, first, second), in.values,
                    fmt::format("{}, swizzle {}, {} to {}", name(T::dtype), name(swizzle), first.describe(),
                                second.describe()));
      }
  });
}

namespace {

using Step = LaneExchange::Step;

// Returns the registers of each lane of a warp after an exchange. An element is one byte that holds the
// element's number, or 2 or 4 equal bytes.
std::vector<std::vector<uint32_t>> exchanged(const LaneExchange& exchange,
                                             const std::vector<std::vector<uint32_t>>& own) {
  std::vector<std::vector<uint32_t>> made(32, std::vector<uint32_t>(exchange.steps.size()));
  for (size_t i = 0; i < exchange.steps.size(); ++i)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const Step& s = exchange.steps[i];
      const size_t a = static_cast<size_t>(s.a), b = static_cast<size_t>(s.b);
      uint32_t& to = made[lane][i];
      if (s.kind == Step::Kind::word) to = own[lane][a];
      if (s.kind == Step::Kind::shuffle) to = made[s.lanes(lane)][a];
      if (s.kind == Step::Kind::choose) to = made[lane][(lane >> s.bit & 1) != 0 ? b : a];
      if (s.kind == Step::Kind::permute)
        for (int byte = 0; byte < 4; ++byte) {
          const uint32_t chosen = s.lanes(lane) >> (4 * byte) & 0xf;
          if (chosen > 7) return {};  // a prmt selector that replicates the sign
          to |= (made[lane][chosen < 4 ? a : b] >> (8 * (chosen % 4)) & 0xff) << (8 * byte);
        }
    }
  std::vector<std::vector<uint32_t>> words(32);
  for (size_t lane = 0; lane < 32; ++lane)
    for (int step : exchange.words) words[lane].push_back(made[lane][static_cast<size_t>(step)]);
  return words;
}

// Returns one byte of an element's value, which is the same for every element type in this test.
uint32_t byte_of(int element, int byte) {
  return static_cast<uint32_t>(element * 2654435761u >> (8 * byte)) & 0xff;
}

std::vector<uint32_t> words_of(const RegisterLayout& layout, int thread, int bytes) {
  std::vector<uint32_t> words(static_cast<size_t>((layout.values() * bytes + 3) / 4));
  for (int v = 0; v < layout.values(); ++v)
    for (int byte = 0; byte < bytes; ++byte)
      words[static_cast<size_t>(v * bytes / 4)] |= byte_of(layout.element(thread, v), byte)
                                                   << (8 * ((v * bytes + byte) % 4));
  return words;
}

// Returns whether an exchange puts every element in its place, in one of the four warps. Elements beyond the
// last are arbitrary.
bool puts_in_place(const LaneExchange& exchange, const RegisterLayout& from, const RegisterLayout& to,
                   int warp, int bytes) {
  std::vector<std::vector<uint32_t>> own;
  for (int lane = 0; lane < 32; ++lane) own.push_back(words_of(from, 32 * warp + lane, bytes));
  const std::vector<std::vector<uint32_t>> got = exchanged(exchange, own);
  if (got.size() != own.size()) return false;
  const int rest = to.values() * bytes % 4;
  for (int lane = 0; lane < 32; ++lane) {
    std::vector<uint32_t> words = got[static_cast<size_t>(lane)];
    if (rest != 0) words.back() &= (1u << (8 * rest)) - 1;
    if (words != words_of(to, 32 * warp + lane, bytes)) return false;
  }
  return true;
}

// Returns whether each warp of `from` holds every element that the same warp of `to` holds.
bool stays_in_warps(const RegisterLayout& from, const RegisterLayout& to) {
  for (int warp = 0; warp < 4; ++warp) {
    std::set<int> held;
    for (int lane = 0; lane < 32; ++lane)
      for (int v = 0; v < from.values(); ++v) held.insert(from.element(32 * warp + lane, v));
    for (int lane = 0; lane < 32; ++lane)
      for (int v = 0; v < to.values(); ++v)
        if (!held.contains(to.element(32 * warp + lane, v))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE(
    "an exchange between lanes is found for all layouts that differ within warps, and puts each element in "
    "its place") {
  std::map<int, int> found;
  for (int cols : {32, 96})
    for (int bytes : {1, 2, 4}) {
      std::vector<RegisterLayout> all = layouts(cols);
      all.push_back(RegisterLayout(
          {64, cols},
          make_layout({{8, 4, 4}, {2, 2, cols / 8}}, {{1, 2 * cols, 16 * cols}, {cols, 8 * cols, 8}}),
          "transposed by movmatrix"));
      for (const RegisterLayout& from : all)
        for (const RegisterLayout& to : all) {
          auto exchange = exchange_within_warps(from, to, bytes);
          CHECK_MESSAGE(bool(exchange) == stays_in_warps(from, to), from.describe()
                                                                        << " to " << to.describe());
          if (!exchange) continue;
          ++found[bytes];
          if (from == to) CHECK(exchange->instructions() == 0);
          for (int warp = 0; warp < 4; ++warp)
            CHECK_MESSAGE(puts_in_place(*exchange, from, to, warp, bytes), from.describe()
                                                                               << " to " << to.describe());
        }
    }
  for (int bytes : {1, 2, 4}) CHECK(found[bytes] > 60);
}

namespace {

// Returns a layout of 64 x 32 elements. Bit b of the thread's number adds 2^order[b]; the bits of the value's
// number follow those of the thread.
RegisterLayout of_bits(const std::vector<int>& order) {
  std::vector<Layout> bits;
  for (int bit : order) bits.push_back(make_layout(2, int64_t{1} << bit));
  const Layout threads = concatenate<int64_t>({bits.begin(), bits.begin() + 7}),
               values = concatenate<int64_t>({bits.begin() + 7, bits.end()});
  return RegisterLayout({64, 32}, concatenate<int64_t>({threads, values}), "bits");
}

}  // namespace

TEST_CASE("an exchange between lanes is found for any order of the bits of lanes and values") {
  std::mt19937 draw(std::random_device{}());
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<int> order(11), inner(9);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), draw);
    std::vector<int> other = order;
    for (size_t i = 0; i < inner.size(); ++i)
      inner[i] = order[i < 5 ? i : i + 2];  // leaves out the two bits of the warp
    std::shuffle(inner.begin(), inner.end(), draw);
    for (size_t i = 0; i < inner.size(); ++i) other[i < 5 ? i : i + 2] = inner[i];
    const RegisterLayout from = of_bits(order), to = of_bits(other);
    CAPTURE(from.describe());
    CAPTURE(to.describe());
    for (int bytes : {1, 2, 4}) {
      auto exchange = exchange_within_warps(from, to, bytes);
      REQUIRE(exchange);
      for (int warp = 0; warp < 4; ++warp) CHECK(puts_in_place(*exchange, from, to, warp, bytes));
    }
  }
}

TEST_CASE("an exchange between lanes of rows, and of elements that several lanes hold") {
  // Moves between a layout in which four lanes share each row and one in which each lane has four copies of
  // its rows.
  const RegisterLayout shared = wgmma_row(64),
                       apart({64, 1}, make_layout({{8, 4, 4}, 2}, {{1, 0, 16}, 8}), "another row");
  for (const auto& [from, to] : {std::pair(shared, apart), std::pair(apart, shared)})
    for (int bytes : {1, 2, 4}) {
      auto exchange = exchange_within_warps(from, to, bytes);
      REQUIRE(exchange);
      for (int warp = 0; warp < 4; ++warp) CHECK(puts_in_place(*exchange, from, to, warp, bytes));
    }
}

TEST_CASE("casts from each layout to each other, one after the other, of two warpgroups") {
  for_types<f32, f16, u8, s32>([]<class T>() {
    Matrix in = random_matrix(T::dtype, {128, 32}, least_of(T::dtype), 8);
    Kernel k("casts");
    auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
    k.warpgroups(2, 0, [&, from = from, out = out](u32 group) {
      RegisterTile<T> x = load(from + group * 2048, wgmma_layout(64, 32));
      for (const RegisterLayout& first : layouts(32))
        for (const RegisterLayout& second : layouts(32)) x = layout_cast(layout_cast(x, first), second);
      store(out + group * 2048, x);
    });
    check_equal(result_of(std::move(k), {in}, {T::dtype, {128, 32}, {}}), in.values,
                std::string(name(T::dtype)));
  });
}

TEST_CASE("casts within warps take shuffles, and neither shared memory nor a barrier") {
  auto ptx = [](DType type, const RegisterLayout& from, const RegisterLayout& to) {
    Kernel k("cast");
    auto [in, out] = k.params<gptr<u32>, gptr<u32>>("in", "out");
    const int words = from.values() * size_of(type) / 4;
    std::vector<u32> registers;
    for (int i = 0; i < words; ++i) registers.push_back(in[tid_x() + 128 * i]);
    std::vector<u32> cast;
    if (type == DType::f32)
      cast = layout_cast(RegisterTile<f32>::of_registers(from, registers), to).registers();
    if (type == DType::bf16)
      cast = layout_cast(RegisterTile<bf16>::of_registers(from, registers), to).registers();
    if (type == DType::e4m3)
      cast = layout_cast(RegisterTile<e4m3>::of_registers(from, registers), to).registers();
    for (int i = 0; i < words; ++i) out[tid_x() + 128 * i] = cast[static_cast<size_t>(i)];
    return ptx_of(k);
  };
  struct Expected {
    DType type;
    RegisterLayout from, to;
    size_t shuffles;
  };
  const RegisterLayout w64 = wgmma_layout(64, 64);
  for (const Expected& e :
       {Expected{DType::bf16, wgmma_upcast_2x(64, 64), w64, 16},
        Expected{DType::bf16, wgmma_transposed(64, 64), w64, 16},
        Expected{DType::f32, wgmma_transposed(64, 16), wgmma_layout(64, 16), 8},
        Expected{DType::f32, wgmma_layout(64, 8), wgmma_32bit(8), 8},
        Expected{DType::e4m3, w64, wgmma_8bit(64), 16}, Expected{DType::e4m3, wgmma_8bit(64), w64, 16}}) {
    const std::string text = ptx(e.type, e.from, e.to);
    CAPTURE(text);
    CHECK(count(text, "shfl.sync") == e.shuffles);
    CHECK(count(text, "bar.sync") + count(text, "st.shared") + count(text, "barrier.sync") == 0);
  }
  // These moves need too many registers, or cross warps.
  for (const std::string& text :
       {ptx(DType::bf16, wgmma_upcast_4x(64, 64), w64), ptx(DType::bf16, strided({64, 64}, 8), w64)}) {
    CAPTURE(text);
    CHECK(count(text, "shfl.sync") == 0);
    CHECK(count(text, "st.shared") > 0);
  }
}

TEST_CASE("layouts whose rows do not divide, and columns first") {
  // A tile of 24 columns makes a thread's elements cross from row to row.
  Matrix in = random_matrix(DType::f32, {64, 24}, -8, 8);
  in.tensor = true;
  RegisterLayout odd = strided({64, 24}, 4), ordered = wgmma_layout(64, 24);
  check_equal(through_shared<f32>(in, Swizzle::none, odd, ordered), in.values, "odd to ordered");
  check_equal(through_shared<f32>(in, Swizzle::none, ordered, odd), in.values, "ordered to odd");
  Matrix narrow = random_matrix(DType::f32, {64, 32}, -8, 8);
  narrow.tensor = true;
  for (Swizzle swizzle : {Swizzle::none, Swizzle::b128})
    check_equal(through_shared<f32>(narrow, swizzle, layouts(32).back(), strided({64, 32}, 2)), narrow.values,
                "columns to rows");
}

// Moves use stmatrix and ldmatrix if possible, and their .trans forms for a transposed view.
TEST_CASE("16-bit tiles in wgmma_layout move as matrices") {
  for (bool transposed : {false, true})
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (int n : {16, 64, 72, 128}) {
        const int rows = transposed ? n : 64, cols = transposed ? 64 : n;
        if (swizzle != Swizzle::none && cols * 2 % span_bytes(swizzle) != 0) continue;
        auto build = [&] {
          Kernel k("matrices");
          auto [from, out] = k.params<gptr<bf16>, gptr<bf16>>("from", "out");
          auto tile = k.shared<bf16>({rows, cols}, swizzle);
          TileView view = transposed ? tile[0].transposed() : tile[0];
          store(view, load(from, wgmma_layout(64, n)));
          sync_threads();
          store(out, load<bf16>(view, wgmma_layout(64, n)));
          return k;
        };
        Kernel k = build();
        std::string ptx = ptx_of(k);
        const std::string form =
            fmt::format("m8n8.x{}{}.shared", n % 16 == 0 ? 4 : 2, transposed ? ".trans" : "");
        const auto times = static_cast<size_t>(n % 16 == 0 ? n / 16 : n / 8);
        CHECK(count(ptx, "stmatrix.sync.aligned." + form) == times);
        CHECK(count(ptx, "ldmatrix.sync.aligned." + form) == times);
        CHECK(count(ptx, "st.shared") + count(ptx, "ld.shared") == 0);
        Proof proof = prove(k.record());
        CHECK(proof);
        CHECK(proof.elements() == static_cast<uint64_t>(2 * 64 * n));
        Matrix in = random_matrix(DType::bf16, {64, n}, -8, 8);
        check_equal(result_of(build(), {in}, in), in.values, form);
      }
}

TEST_CASE("a transposed view") {
  Matrix in = random_matrix(DType::f16, {64, 32}, -8, 8);
  Kernel k("transposed");
  auto [from, out] = k.params<gptr<f16>, gptr<f16>>("from", "out");
  auto tile = k.shared<f16>({64, 32}, Swizzle64B);
  store(tile[0], load(from, strided({64, 32}, 4)));
  sync_threads();
  store(out, load<f16>(tile[0].transposed(), strided({32, 64}, 4)));
  std::vector<double> expected;
  for (int j = 0; j < 32; ++j)
    for (int i = 0; i < 64; ++i) expected.push_back(in.values[static_cast<size_t>(i * 32 + j)]);
  check_equal(result_of(std::move(k), {in}, {DType::f16, {32, 64}, {}}), expected, "transposed");
}

TEST_CASE("a transposed view of 16-bit elements is loaded by ldmatrix.trans where no layout is named") {
  Matrix in = random_matrix(DType::f16, {32, 64}, -8, 8);
  auto build = [] {
    Kernel k("by_default");
    auto [from, out] = k.params<gptr<f16>, gptr<f16>>("from", "out");
    auto tile = k.shared<f16>({32, 64}, Swizzle128B);
    store(tile[0], load(from, strided({32, 64}, 4)));
    sync_threads();
    store(out, load<f16>(tile[0].transposed()));
    return k;
  };
  Kernel k = build();
  const std::string ptx = ptx_of(k);
  CHECK(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared") == 2);
  CHECK(count(ptx, "ld.shared") == 0);
  std::vector<double> expected;
  for (int j = 0; j < 64; ++j)
    for (int i = 0; i < 32; ++i) expected.push_back(in.values[static_cast<size_t>(i * 64 + j)]);
  check_equal(result_of(build(), {in}, {DType::f16, {64, 32}, {}}), expected, "by default");
}

TEST_CASE("global memory, with a pitch, and the index of each element") {
  for (bool known : {true, false})
    for (const RegisterLayout& layout : layouts(32)) {
      Matrix in = random_matrix(DType::f16, {64, 48}, -8, 8), pitch{DType::u32, {1, 1}, {48}};
      Kernel k("pitch");
      auto [from, p, out] = k.params<gptr<f16>, gptr<u32>, gptr<u32>>("from", "pitch", "out");
      u32 apart = known ? u32(48) : u32(p[0]);
      auto x = astype<u32>(load(from + 16, layout, apart) * 16 + 200);
      store(out, x * 65536 + row_index(layout) * 256 + col_index(layout), 32);
      std::vector<double> expected;
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 32; ++j) {
          double value = rounded(DType::f16, in.values[static_cast<size_t>(i * 48 + j + 16)] * 16);
          expected.push_back(std::trunc(rounded(DType::f16, value + 200)) * 65536 + i * 256 + j);
        }
      check_equal(result_of(std::move(k), {in, pitch}, {DType::u32, {64, 32}, {}}), expected,
                  layout.describe());
    }
}

namespace {

template <class T>
void check_reductions(const RegisterLayout& layout, Reduction operation, double start,
                      double (*combine)(double, double)) {
  bool floats = !is_integer(T::dtype);
  double least = operation == Reduction::prod && floats ? 0.9 : least_of(T::dtype);
  Matrix in = random_matrix(T::dtype, layout.extent(), least, operation == Reduction::prod ? 1.1 : 8);
  size_t rows = static_cast<size_t>(layout.rows()), cols = static_cast<size_t>(layout.cols());
  Kernel k("reduce");
  auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
  RegisterTile<T> x = load(from, layout);
  RegisterTile<T> of_rows = reduce_rows(operation, x), of_cols = reduce_cols(operation, x);
  store(out, of_rows);
  store(out + layout.rows(), of_cols);
  u32 rest = layout.rows() + layout.cols();
  store(out + rest, broadcast(of_rows, layout) - broadcast(of_cols, layout));
  store(out + (rest + layout.elements()), RegisterTile<T>(reduce_all(operation, x), splat({128, 1})));
  std::vector<double> row(rows, start), col(cols, start), expected;
  double whole = start;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) {
      double value = in.values[i * cols + j];
      row[i] = combine(row[i], value);
      col[j] = combine(col[j], value);
      whole = combine(whole, value);
    }
  expected = row;
  expected.insert(expected.end(), col.begin(), col.end());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) expected.push_back(rounded(T::dtype, row[i] - col[j]));
  expected.insert(expected.end(), 128, whole);
  bool exact = operation == Reduction::max || operation == Reduction::min || !floats;
  double unit = T::dtype == DType::f32 ? 0x1p-20 : T::dtype == DType::f16 ? 0x1p-9 : 0x1p-6;
  check_equal(result_of(std::move(k), {in}, {T::dtype, {static_cast<int>(expected.size()), 1}, {}}), expected,
              fmt::format("{} of {} in {}", static_cast<int>(operation), name(T::dtype), layout.describe()),
              exact ? 0 : unit, exact ? 0 : 300 * unit);
}

}  // namespace

TEST_CASE("reductions, and back to rows and columns") {
  for_types<f32, f16, bf16, s32>([]<class T>() {
    std::vector<RegisterLayout> all = layouts(32);
    all.push_back(wgmma_layout(128, 16));
    all.push_back(strided({4, 512}, 4));
    for (const RegisterLayout& layout : all) {
      check_reductions<T>(layout, Reduction::add, 0, [](double a, double b) { return a + b; });
      check_reductions<T>(layout, Reduction::max, -1e9, [](double a, double b) { return std::max(a, b); });
      check_reductions<T>(layout, Reduction::min, 1e9, [](double a, double b) { return std::min(a, b); });
      if (!std::same_as<T, s32>)
        check_reductions<T>(layout, Reduction::prod, 1, [](double a, double b) { return a * b; });
    }
  });
}

TEST_CASE("the layouts of reductions") {
  CHECK(wgmma_layout(128, 64).reduced_rows() == wgmma_row(128));
  CHECK(wgmma_layout(128, 64).reduced_cols() == wgmma_col(64));
  CHECK_FALSE(wgmma_layout(64, 64) == wgmma_layout(64, 32));
  CHECK_FALSE(wgmma_layout(64, 32) == strided({64, 32}, 2));
  CHECK(wgmma_layout(64, 32) ==
        RegisterLayout({64, 32}, wgmma_layout(64, 32).thread_value(), "another name"));
  // Checks each element against the manual's numbering of an accumulator.
  RegisterLayout layout = wgmma_layout(128, 32);
  for (int t = 0; t < 128; ++t)
    for (int v = 0; v < layout.values(); ++v) {
      int block = v / 16, i = v % 16;
      CHECK(layout.row(t, v) == 64 * block + 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2));
      CHECK(layout.col(t, v) == 8 * (i / 4) + 2 * (t % 4) + i % 2);
    }
}

TEST_CASE("a tile in a loop") {
  Matrix in = random_matrix(DType::f16, {64, 32}, -2, 2);
  Kernel k("loop");
  auto [from, out] = k.params<gptr<f16>, gptr<f16>>("from", "out");
  auto x = load(from, wgmma_layout(64, 32));
  Var<RegisterTile<f16>> sum(RegisterTile<f16>(f16(0), x.layout()));
  for_(0u, u32(5), [&](u32) { sum = sum.value() + x; });
  store(out, sum.value());
  std::vector<double> expected;
  for (double v : in.values) {
    double total = 0;
    for (int i = 0; i < 5; ++i) total = rounded(DType::f16, total + v);
    expected.push_back(total);
  }
  check_equal(result_of(std::move(k), {in}, {DType::f16, {64, 32}, {}}), expected, "loop");
}

TEST_CASE("tiles of two warpgroups, each with its own scratch") {
  Matrix in = random_matrix(DType::f32, {128, 32}, -8, 8);
  Kernel k("two");
  auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
  k.warpgroups(2, 0, [&, from = from, out = out](u32 group) {
    auto x = layout_cast(load(from + group * 2048, strided({64, 32}, 4)), wgmma_layout(64, 32));
    store(out + group * 2048, x - broadcast(reduce_cols(Reduction::max, x), x.layout()));
  });
  std::vector<double> expected;
  for (int i = 0; i < 128; ++i)
    for (int j = 0; j < 32; ++j) {
      double most = -1e9;
      for (int r = 0; r < 64; ++r)
        most = std::max(most, in.values[static_cast<size_t>((i / 64 * 64 + r) * 32 + j)]);
      expected.push_back(rounded(DType::f32, in.values[static_cast<size_t>(i * 32 + j)] - most));
    }
  check_equal(result_of(std::move(k), {in}, {DType::f32, {128, 32}, {}}), expected, "two warpgroups");
}

namespace {

// Computes D = A B^T twice, with A in registers in its own type. The second product adds to 1 + the first.
template <class T, class D>
void check_product() {
  int depth = 128 / size_of(T::dtype), n = 64;
  Matrix a = random_matrix(T::dtype, {64, depth}, least_of(T::dtype) / 2, 4),
         b = random_matrix(T::dtype, {n, depth}, least_of(T::dtype) / 2, 4);
  for (Matrix* m : {&a, &b})
    for (double& v : m->values) v = std::floor(v);
  Kernel k("product");
  auto [from, right, out] = k.params<gptr<T>, gptr<T>, gptr<D>>("a", "b", "out");
  auto sB = k.shared<T>({n, depth}, Swizzle128B);
  store(sB[0], load(right, strided({n, depth}, 4)));
  fence_proxy_async<Space::shared>();
  sync_threads();
  RegisterTile<T> x = load(from, wgmma_layout(64, depth));
  auto in_registers = layout_cast(x, wgmma_a(T::dtype, 64, depth));
  Accumulator acc(64, n, D::dtype);
  auto multiply = [&] {
    wgmma_group([&] { mma(acc, in_registers, sB[0]); });
    wgmma_wait(0);
  };
  multiply();
  store(acc, load<D>(acc) + 1);
  multiply();
  store(out, load<D>(acc));
  std::vector<double> expected;
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 1;
      for (int s = 0; s < depth; ++s)
        sum +=
            2 * a.values[static_cast<size_t>(i * depth + s)] * b.values[static_cast<size_t>(j * depth + s)];
      expected.push_back(sum);
    }
  check_equal(result_of(std::move(k), {a, b}, {D::dtype, {64, n}, {}}), expected,
              std::string(name(T::dtype)));
}

}  // namespace

TEST_CASE("A in registers, and accumulators, of products") {
  check_product<f16, f32>();
  check_product<bf16, f32>();
  check_product<tf32, f32>();
  check_product<e4m3, f32>();
  check_product<e5m2, f32>();
  check_product<s8, s32>();
  check_product<u8, s32>();
  check_product<f16, f16>();
}

TEST_CASE("the code: nothing local, packed conversions, two shuffles a row") {
  Kernel k("softmax");
  auto sA = k.shared<bf16>({64, 64}, Swizzle128B), sB = k.shared<bf16>({64, 64}, Swizzle128B);
  Accumulator acc(64, 64), next(64, 64);
  wgmma_group([&] { mma(acc, sA[0], sB[0]); });
  wgmma_wait(0);
  auto s = load<f32>(acc);
  auto m = reduce_rows(Reduction::max, s);
  auto p = exp2(fma(s, 0.5f, m * -0.5f), Approx::yes);
  wgmma_group([&] { mma(next, astype<bf16>(p), sB[0]); });
  wgmma_wait(0);
  std::string ptx = ptx_of(k);
  CHECK_FALSE(contains(ptx, ".local"));
  CHECK_FALSE(contains(ptx, "st.shared"));
  CHECK(count(ptx, "shfl.sync.bfly") == 2 * 2);
  CHECK(count(ptx, "ex2.approx.ftz.f32") == 32);
  CHECK(count(ptx, "fma.rn.f32") == 32);
  CHECK(count(ptx, "max.f32") == 2 * (15 + 2));
  CHECK(count(ptx, "cvt.rn.bf16x2.f32") == 16);
}

TEST_CASE("the code: halves two at a time, and swizzled stores with addresses folded") {
  Kernel k("packed");
  auto [from] = k.params<gptr<f16>>("from");
  auto tile = k.shared<f16>({64, 64}, Swizzle128B);
  auto x = load(from, strided({64, 64}, 8)), y = x * x + 1;
  store(tile[0], layout_cast(max(-y, abs(x)), wgmma_layout(64, 64)));
  std::string ptx = ptx_of(k);
  CHECK(count(ptx, "ld.global.v4.b32") == 4);
  CHECK(count(ptx, "mul.rn.f16x2") == 16);
  CHECK(count(ptx, "add.rn.f16x2") == 16);
  CHECK(count(ptx, "max.f16x2") == 16);
  CHECK(count(ptx, "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16") == 4);
  CHECK(count(ptx, "st.shared.b32") == 0);
  CHECK(count(ptx, "xor.b32") == 4);  // one for each pair of chunks

  Kernel wide("wide");
  auto [numbers] = wide.params<gptr<f32>>("from");
  auto to = wide.shared<f32>({64, 64}, Swizzle128B);
  store(to[0], load(numbers, wgmma_layout(64, 64)) * 2);
  ptx = ptx_of(wide);
  CHECK(count(ptx, "st.shared.v2.b32") == 16);
  CHECK(count(ptx, "xor.b32") == 4);  // shared by both panels and both halves of the rows
}

TEST_CASE("a packed conversion takes a number that is known from a register") {
  auto build = [] {
    Kernel k("known");
    auto [out] = k.params<gptr<u32>>("out");
    out[0] = cvt_f16x2_from<DType::e4m3>(u16(0x3830));  // 1 and 0.5
    return k;
  };
  Kernel k = build();
  CHECK(contains(squeezed(ptx_of(k)), "cvt.rn.f16x2.e4m3x2 %r1, %rs1;"));
  check_equal(result_of(build(), {}, {DType::u32, {1, 1}, {}}), {0x3c003800}, "1 and 0.5");
}

}  // namespace ptxbuilder::test::register_move_test
