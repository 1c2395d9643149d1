// Tests the places of elements in shared tiles, and the addresses that threads compute for them. A tile's
// layout is compared with an independent formula, on the host and on a device, over random tiles and views.
//
//   tile_layout_test [--device=emulator|cuda|auto]
#include "library_kit.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/proof/proof.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/thread_address.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::tile_layout_test {
namespace {

constexpr int kThreads = 128;

std::mt19937_64& random_engine() {
  static std::mt19937_64 engine = [] {
    uint64_t seed = std::random_device()();
    MESSAGE("seed " << seed);
    return std::mt19937_64(seed);
  }();
  return engine;
}
int from_to(int least, int greatest) {
  return std::uniform_int_distribution<int>(least, greatest)(random_engine());
}
template <class T>
T one_of(const std::vector<T>& all) {
  return all[static_cast<size_t>(from_to(0, static_cast<int>(all.size()) - 1))];
}

// A tile with the arguments of k.shared().
struct Plan {
  DType type;
  int rows, cols, panel_cols;  // panel_cols is the width of one panel, even if there is only one
  Swizzle swizzle;

  int size() const { return size_of(type); }
  // Returns the byte of an element in TMA's order of boxes, which exchanges chunks of 16 bytes (PTX ISA,
  // "Tensor Swizzling Modes"). In each line of 128 bytes, the chunk's number is exclusive-ored with the
  // line's number modulo 2, 4 or 8.
  int lies(int row, int col) const {
    const int panel = col / panel_cols,
              byte = ((panel * rows + row) * panel_cols + col % panel_cols) * size();
    const int parts = swizzle == Swizzle::none ? 1 : span_bytes(swizzle) / 16;
    return (byte / 16 ^ byte / 128 % parts) * 16 + byte % 16;
  }
  SharedTile make(Kernel& k) const {
    TileShape shape{rows, cols};
    if (swizzle == Swizzle::none) shape.panel_cols = panel_cols;
    return k.shared(type, shape, swizzle);
  }
  std::string text() const {
    return fmt::format("{} {}x{} in panels of {}, swizzle {}", name(type), rows, cols, panel_cols,
                       name(swizzle));
  }
};

Plan random_plan(bool rows_of_eight) {
  Plan p{one_of<DType>({DType::u8, DType::bf16, DType::f32}), 0, 0, 0,
         one_of<Swizzle>({Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})};
  p.rows = rows_of_eight ? 8 * from_to(1, 12) : from_to(1, 40);
  p.panel_cols = (p.swizzle == Swizzle::none ? 16 * from_to(1, 6) : span_bytes(p.swizzle)) / p.size();
  p.cols = p.panel_cols * from_to(1, 3);
  return p;
}

// A part of a tile. Its first element is either known when the kernel is built, or read by the device.
struct Part {
  int row, rows, col, cols;
  bool transposed, known;

  TileView of(const TileView& whole, const std::function<u32(int)>& hidden) const {
    auto first = [&](int value) { return known ? u32(static_cast<uint32_t>(value)) : hidden(value); };
    TileView view = whole;
    if (rows < whole.row_count()) view = view.rows(first(row), rows);
    if (cols < whole.tile().cols()) view = view.cols(first(col), cols);
    return transposed ? view.transposed() : view;
  }
};

Part random_part(const Plan& p) {
  Part part{0, p.rows, 0, p.cols, from_to(0, 1) == 1, from_to(0, 1) == 1};
  if (p.rows % 8 == 0 && from_to(0, 1)) {
    part.rows = 8 * from_to(1, p.rows / 8);
    part.row = 8 * from_to(0, (p.rows - part.rows) / 8);
  }
  if (from_to(0, 1)) {
    part.cols = p.panel_cols * from_to(1, p.cols / p.panel_cols);
    part.col = p.panel_cols * from_to(0, (p.cols - part.cols) / p.panel_cols);
  }
  return part;
}

// A kernel of `threads` threads that store numbers, and the expected numbers.
class Numbers {
 public:
  explicit Numbers(int threads) : kernel_("numbers", {.line_info = false}), threads_(threads) {
    auto [hidden, out] = kernel_.params<gptr<u32>, gptr<u32>>("hidden", "out");
    hidden_.emplace(hidden);
    out_.emplace(out);
    kernel_.threads(threads);
    thread_.emplace(tid_x());
  }
  Kernel& kernel() { return kernel_; }
  u32 thread() const { return *thread_; }
  // Returns a number that is known only on the device.
  u32 hidden(int value) {
    input_.push_back(value);
    return (*hidden_)[static_cast<uint32_t>(input_.size() - 1)];
  }
  void expect(u32 value, const std::function<int64_t(int)>& of_thread) {
    (*out_)[thread() + static_cast<uint32_t>(expected_.size())] = value;
    for (int t = 0; t < threads_; ++t) expected_.push_back(static_cast<double>(of_thread(t)));
  }
  void run(const std::string& what) {
    input_.push_back(0);
    Matrix in{DType::u32, {static_cast<int>(input_.size()), 1}, input_},
        out{DType::u32, {static_cast<int>(expected_.size()), 1}, {}};
    check_equal(result_of(std::move(kernel_), {in}, out), expected_, what);
  }

 private:
  Kernel kernel_;
  int threads_;
  std::optional<gptr<u32>> hidden_, out_;
  std::optional<u32> thread_;
  std::vector<double> input_, expected_;
};

}  // namespace

TEST_CASE("a tile's layout follows the figure of the manual, whole and in parts") {
  for (int i = 0; i < 300; ++i) {
    const Plan p = random_plan(from_to(0, 1) == 1);
    const Part part = random_part(p);
    Numbers numbers(32);
    const SharedTile tile = p.make(numbers.kernel());
    const TileView view = part.of(tile[0], [&](int value) { return numbers.hidden(value); });
    const int start = (part.col * p.rows + part.row * p.panel_cols) * p.size();
    CAPTURE(p.text());
    // A view that begins within the swizzle's pattern has no layout of its own.
    const int pattern = std::max(1, 8 * span_bytes(p.swizzle));
    const bool known = part.known || part.cols == p.cols;
    if (p.rows * p.panel_cols * p.size() % pattern != 0 && (!known || start % pattern != 0)) {
      const std::string refusal = error_of([&] { view.layout(); });
      CHECK(refusal.find("begin within the swizzle's pattern") != std::string::npos);
      continue;
    }
    const ComposedLayout layout = view.layout();
    CAPTURE(to_string(layout));
    REQUIRE(size(layout.layout()) == part.rows * part.cols);
    int wrong = 0;
    for (int64_t row = 0; row < part.rows; ++row)
      for (int64_t col = 0; col < part.cols; ++col) {
        const int64_t at = part.transposed ? layout({col, row}) : layout({row, col});
        wrong += start + at * p.size() !=
                 p.lies(part.row + static_cast<int>(row), part.col + static_cast<int>(col));
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a view begins on the device at the layout's first element") {
  for (int batch = 0; batch < 4; ++batch) {
    Numbers numbers(32);
    for (int i = 0; i < 12; ++i) {
      Plan p = random_plan(true);
      p.rows = std::min(p.rows, 32);
      const Part part = random_part(p);
      const SharedTile tile = p.make(numbers.kernel());
      const TileView view = part.of(tile[0], [&](int value) { return numbers.hidden(value); });
      numbers.expect(u32(view.address()) - u32(tile[0].address()),
                     [&](int) { return tile.linear_offset(part.row, part.col); });
      CHECK(tile.linear_offset(part.row, part.col) ==
            (part.col * p.rows + part.row * p.panel_cols) * p.size());
    }
    numbers.run("views");
  }
}

namespace {

// Returns a layout of threads that hold a part of a view in registers. Its rows may or may not divide evenly.
RegisterLayout random_layout(int rows, int cols) {
  std::vector<RegisterLayout> all;
  for (int vector : {1, 2, 4})
    if (rows * cols % (kThreads * vector) == 0) all.push_back(strided({rows, cols}, vector));
  if (rows % 64 == 0) {
    all.push_back(wgmma_layout(rows, cols));
    if (cols % 16 == 0) all.push_back(wgmma_transposed(rows, cols));
    if (rows == 64 && cols % 32 == 0) all.push_back(wgmma_8bit(cols));
  }
  return one_of(all);
}

}  // namespace

TEST_CASE("threads compute the addresses of the layout, one by one and together") {
  for (int batch = 0; batch < 6; ++batch) {
    Numbers numbers(kThreads);
    int split = 0, exchanged = 0;
    for (int i = 0; i < 8; ++i) {
      Plan p = random_plan(true);
      p.rows = one_of<int>({16, 24, 64});
      if (p.cols * p.rows * p.size() > 16384) p.cols = p.panel_cols;
      if (p.rows * p.cols % kThreads != 0 || (p.rows == 64 && p.cols % 8 != 0)) continue;
      const SharedTile tile = p.make(numbers.kernel());
      const RegisterLayout held = random_layout(p.rows, p.cols);
      CAPTURE(p.text());
      CAPTURE(held.describe());
      const ComposedLayout memory = tile[0].layout();
      std::vector<int64_t> elements;
      for (int v = 0; v < std::min(held.values(), 16); ++v) elements.push_back(held.of_value(v));
      ThreadAccess access(memory.with(select(memory.layout(), {1, 0})), p.size(), held.thread_value()[0],
                          elements);
      split += access.split().has_value();
      // Every exchange must lead to the same addresses in a different order.
      std::vector<ThreadAccess> ways = {access};
      for (int bit = 1; bit < access.accesses(); bit *= 2)
        if (auto other = access.exchanged({1 << from_to(0, 6), bit})) ways.push_back(*other);
      exchanged += ways.size() > 1;
      for (const ThreadAccess& way : ways) {
        detail::ThreadAddresses<smem, Index> on_device(tile[0].address(), way, Index(numbers.thread()));
        for (int a = 0; a < way.accesses(); ++a) {
          auto expected = [&](int t) {
            const int made = way.exchange() ? way.exchange()->made(t, a) : a;
            return p.lies(held.row(t, made), held.col(t, made));
          };
          int wrong = 0;
          for (int t = 0; t < kThreads; ++t) {
            detail::ThreadAddresses<int64_t, int64_t> on_host(0, way, t);
            wrong += way.address(t, a) != expected(t);
            wrong += on_host[a] != expected(t);
          }
          CHECK(wrong == 0);
          numbers.expect(u32(on_device[a]) - u32(tile[0].address()), expected);
        }
      }
    }
    CHECK(split > 0);
    CHECK(exchanged > 0);
    numbers.run("addresses");
  }
}

// Tests copies by threads whose number is not a power of two, of rows that begin within a pattern. Therefore,
// the offsets that threads and accesses add have bits in common.
TEST_CASE("any number of threads, and a layout that does not begin at 0") {
  Numbers numbers(96);
  for (Swizzle swizzle : {Swizzle::none, Swizzle::b64, Swizzle::b128}) {
    const Plan p{DType::bf16, 24, 64, swizzle == Swizzle::none ? 64 : span_bytes(swizzle) / 2, swizzle};
    const SharedTile tile = p.make(numbers.kernel());
    for (int first : {0, 4, 8}) {
      ComposedLayout memory = tile.layout();
      const ComposedLayout part(memory.swizzle(), memory.layout()({int64_t{first}, 0}),
                                make_layout({12, memory.layout().shape()[1]}, memory.layout().stride()));
      TiledCopy copy(CopyAtom::vector(16), DType::bf16, threads_along_rows(12, 64, 96, 8), part);
      detail::ThreadAddresses<smem, Index> addresses(tile[0].address(), copy.access(),
                                                     Index(numbers.thread()));
      for (int a = 0; a < copy.accesses(); ++a) {
        auto expected = [&](int t) { return p.lies(first + t / 8, t % 8 * 8); };
        for (int t = 0; t < 96; ++t) CHECK(copy.address(t, a) == expected(t));
        numbers.expect(u32(addresses[a]) - u32(tile[0].address()), expected);
      }
    }
  }
  numbers.run("96 threads");
}

// There are no conflicts at any width of wgmma, because some rows make their accesses in a different order.
TEST_CASE("f32 tiles in wgmma_layout have no bank conflicts, plain and transposed") {
  for (bool transposed : {false, true})
    for (int n = 8; n <= 256; n += 8) {
      CAPTURE(transposed);
      CAPTURE(n);
      const int rows = transposed ? n : 64, cols = transposed ? 64 : n;
      Swizzle swizzle = Swizzle::none;
      for (Swizzle s : {Swizzle::b32, Swizzle::b64, Swizzle::b128})
        if (cols * 4 % span_bytes(s) == 0) swizzle = s;
      auto build = [&] {
        Kernel k("f32");
        auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
        auto tile = k.shared<f32>({rows, cols}, swizzle);
        TileView view = transposed ? tile[0].transposed() : tile[0];
        store(view, load(from, wgmma_layout(64, n)));
        sync_threads();
        store(out, load<f32>(view, wgmma_layout(64, n)));
        return k;
      };
      Kernel k = build();
      Proof proof = prove(k.record());
      CHECK(proof);
      REQUIRE(proof.links.size() == 2);
      for (const Proof::Link& link : proof.links) CHECK(link.bank_ways == 1);
      if (n % 64 != 8 && n != 48 && n != 256) continue;  // only some widths are run
      Matrix in = random_matrix(DType::f32, {64, n}, -8, 8);
      check_equal(result_of(build(), {in}, in), in.values, "f32");
    }
}

}  // namespace ptxbuilder::test::tile_layout_test
