// Tests products with a sparse A. There is a kernel for each combination of types, swizzles, transposes, m
// and n. Results are compared with sums of small integers, which are exact in every type. Also tests their
// proofs, and refused products.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "misuse_kit.h"
#include "mma_types.h"
#include "options.h"
#include "proof_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/plan/sparse_matrix.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::sparse_mma_test {
namespace {

struct Product {
  DType a, b, d;
  int m, n;
  Swizzle of_a = Swizzle::b64, of_b = Swizzle::b128;
  bool b_transposed = false;
  int columns = 0;  // columns of each wgmma, or 0 for the maximum

  int k() const { return 256 / size_of(a); }  // A has rows of 128 bytes, and B rows of two spans
  std::string text() const {
    return fmt::format("{} += sparse {} x {}, {}x{}x{}, swizzles {} and {}{}", name(d), name(a), name(b), m,
                       n, k(), name(of_a), name(of_b), b_transposed ? ", B transposed" : "");
  }
};

SharedTile tile(Kernel& k, DType type, TileShape shape, Swizzle swizzle) {
  if (swizzle == Swizzle::none && shape.panel_cols == 0) shape.panel_cols = 16 / size_of(type);
  return SharedTile(k.builder(), type, shape, swizzle, 1, "", Where::here());
}

TileShape metadata_tile(int m, int k) { return {k / 64, m / 64 * 128, 128}; }

template <class T>
Kernel kernel_of(const Product& p) {
  Kernel k("sparse");
  auto [A, E, B, out] = k.params<TensorMap, TensorMap, TensorMap, gptr<T>>("A", "E", "B", "out");
  auto a = tile(k, p.a, {p.m, p.k() / 2}, p.of_a),
       e = tile(k, DType::s32, metadata_tile(p.m, p.k()), SwizzleNone),
       b = tile(k, p.b, p.b_transposed ? TileShape{p.k(), p.n} : TileShape{p.n, p.k()}, p.of_b);
  Barriers loaded(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(loaded[0], a.stage_bytes() + e.stage_bytes() + b.stage_bytes());
    tma_load(a[0].on(loaded[0]), A, 0, 0);
    tma_load(e[0].on(loaded[0]), E, 0, 0);
    tma_load(b[0].on(loaded[0]), B, 0, 0);
  });
  barrier_wait(loaded[0], 0);
  Accumulator acc(p.m, p.n, p.d);
  if (p.columns > 0) acc.set_wgmma_columns(p.columns);
  wgmma_group([&] { mma(acc, SparseTile{a[0], e[0]}, p.b_transposed ? b[0].transposed() : b[0]); });
  wgmma_wait(0);
  store(out, load<T>(acc));
  return k;
}

Kernel build(const Product& p) {
  if (p.d == DType::f16) return kernel_of<f16>(p);
  if (p.d == DType::s32) return kernel_of<s32>(p);
  return kernel_of<f32>(p);
}

std::vector<double> numbers(int count, DType type, std::mt19937& random) {
  std::vector<double> all(static_cast<size_t>(count));
  const int least = type == DType::u8 ? 0 : -3;
  for (double& v : all) v = static_cast<double>(random() % 7) + least;
  return all;
}

std::vector<std::byte> encoded(const std::vector<double>& values, DType type) {
  const auto size = static_cast<size_t>(size_of(type));
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) write_element(&bytes[i * size], type, values[i]);
  return bytes;
}

runtime::Argument tensor(const runtime::Buffer& buffer, DType type, int64_t cols, int64_t rows) {
  return runtime::tensor(buffer, type, {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)});
}

// Launches the kernel with random operands on poisoned output, and returns the number of wrong elements.
int wrong_elements(runtime::Device& device, const Product& p, const Compiled& compiled, uint32_t seed) {
  runtime::LoadedKernel kernel(device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                               compiled.signature);
  std::mt19937 random(seed);
  const int m = p.m, n = p.n, k = p.k();
  std::vector<double> a = numbers(m * k, p.a, random), b = numbers(k * n, p.b, random);
  for (size_t group = 0; group < a.size();
       group += 4)  // two of every four elements are zero, sometimes three
    for (uint32_t first = random() % 4, i = 0; i < 2; ++i)
      a[group + (first + i * (1 + random() % 3)) % 4] = 0, a[group + (first + 1) % 4] *= i;
  for (size_t group = 0; group < a.size(); group += 4)
    for (size_t i = 0, kept = 0; i < 4; ++i)
      if (a[group + i] != 0 && ++kept > 2) a[group + i] = 0;
  const SparseMatrix sparse = compress_2_4(p.a, encoded(a, p.a).data(), m, k);
  const MetadataShape shape = metadata_shape(m, k);
  const auto da = runtime::Buffer::of(device, sparse.values),
             de = runtime::Buffer::of(device, sparse.metadata),
             db = runtime::Buffer::of(device, encoded(b, p.b));
  const auto of_b = [&](int x, int j) {
    return b[static_cast<size_t>(p.b_transposed ? x * n + j : j * k + x)];
  };
  std::vector<double> right(static_cast<size_t>(m * n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int x = 0; x < k; ++x)
        right[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + x)] * of_b(x, j);
  runtime::Buffer out(device, right.size() * static_cast<size_t>(size_of(p.d)));
  out.fill(0xff);
  kernel.launch({.grid = {1}},
                {tensor(da, p.a, k / 2, m), tensor(de, DType::s32, shape.words, shape.lines),
                 p.b_transposed ? tensor(db, p.b, n, k) : tensor(db, p.b, k, n), runtime::pointer(out, p.d)});
  const std::vector<std::byte> got = out.copy_out<std::byte>();
  int wrong = 0;
  for (size_t i = 0; i < right.size(); ++i)
    wrong += read_element(&got[i * static_cast<size_t>(size_of(p.d))], p.d) != right[i];
  return wrong;
}

std::vector<Product> products() {
  std::vector<Product> all;
  int turn = 0;
  for (Types t : all_types()) {
    if (t.a == DType::tf32) continue;
    for (Swizzle of_a : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (Swizzle of_b : {Swizzle::none, Swizzle::b64, Swizzle::b128}) {
        const int m = 64 * (1 + turn % 2), n = std::array{64, 128, 192}[static_cast<size_t>(turn++ % 3)];
        const bool transposed = size_of(t.b) == 2 && turn % 2 == 0 && of_b != Swizzle::none;
        all.push_back({t.a, t.b, t.d, m, n, of_a, of_b, transposed});
      }
  }
  all.push_back({DType::bf16, DType::bf16, DType::f32, 64, 256});
  all.push_back({DType::f16, DType::f16, DType::f16, 64, 8, Swizzle::b128});
  all.push_back({DType::bf16, DType::bf16, DType::f32, 64, 32, Swizzle::b64, Swizzle::b32, true});
  all.push_back({DType::bf16, DType::bf16, DType::f32, 64, 96, Swizzle::b64, Swizzle::b128, false, 48});
  all.push_back({DType::e4m3, DType::e5m2, DType::f32, 192, 64, Swizzle::b64, Swizzle::b128, false, 32});
  return all;
}

}  // namespace

TEST_CASE("sparse products of all types, swizzles and widths are right") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  CompilerOptions options;
  options.cache = false, options.assemble = !device->wants_ptx(), options.else_ptx = true;
  const std::vector<Product> all = products();
  std::vector<std::function<Kernel()>> builders;
  for (const Product& p : all) builders.push_back([&p] { return build(p); });
  const std::vector<Compiled> compiled = Compiler(options).compile_all(builders);
  for (size_t i = 0; i < all.size(); ++i)
    CHECK_MESSAGE(wrong_elements(*device, all[i], compiled[i], static_cast<uint32_t>(i)) == 0, all[i].text());
}

TEST_CASE("sparse products are proved") {
  for (const Product& p : products()) {
    const Proof proof = prove(build(p).record());
    CHECK_MESSAGE(proof, p.text() << ": " << text_of(proof));
    CHECK(proof.unproved.empty());
    const auto m = static_cast<uint64_t>(p.m), k = static_cast<uint64_t>(p.k());
    CHECK(elements_of(proof, "mma: A from") == m * k / 2);
    CHECK(elements_of(proof, "mma: B from") == static_cast<uint64_t>(p.n) * k);
    CHECK(elements_of(proof, "mma: metadata") == m * k / 4);
    CHECK(elements_of(proof, "tma_load: E") == m * k / 32);
  }
}

namespace {

struct Mutant {
  const char* what;
  DType type;
  void (*change)(KernelRecord&);
  const char* words;  // words of the counterexample
};

MmaRecord& product_in(KernelRecord& r) { return r.mmas.at(0); }

}  // namespace

TEST_CASE("the proof finds metadata from another place") {
  const std::vector<Mutant> mutants = {
      {"the next block's word", DType::bf16,
       [](KernelRecord& r) { std::swap(product_in(r).metadata[0].word, product_in(r).metadata[4].word); },
       "metadata, block 0, step 1, selector 1: m 0, k 32"},
      {"the next line's word", DType::bf16,
       [](KernelRecord& r) { std::swap(product_in(r).metadata[1].word, product_in(r).metadata[2].word); },
       "metadata, block 0, step 1, selector 1: m 0, k 32"},
      {"the wrong selector", DType::bf16, [](KernelRecord& r) { product_in(r).metadata[0].selector = 1; },
       "metadata, block 0, step 0, selector 1: m 0, k 0"},
      {"the next line's word of 8 bits", DType::e4m3,
       [](KernelRecord& r) { product_in(r).metadata[1].word = product_in(r).metadata[0].word; },
       "metadata, block 0, step 1, selector 0: m 0, k 64"},
      {"a thread's neighbour's word", DType::bf16,
       [](KernelRecord& r) {
         for (ThreadCopyRecord& copy : r.thread_copies) std::swap(copy.addresses[0], copy.addresses[1]);
       },
       "threads read another element"},
      {"the next tile's metadata", DType::bf16,
       [](KernelRecord& r) {
         for (CopyRecord& copy : r.copies)
           if (copy.map == "E") copy.boxes.digits.at(0).step = 0;
       },
       "tma_load of 'E': element (0, 0)"},
      {"B as if A were dense", DType::bf16,
       [](KernelRecord& r) { product_in(r).b.along_k = {0, 32, 64, 96, 16384, 16416, 16448, 16480}; },
       "do not cover"},
  };
  for (const Mutant& mutant : mutants) {
    CAPTURE(mutant.what);
    KernelRecord record = build({mutant.type, mutant.type, DType::f32, 128, 64}).record();
    REQUIRE(prove(record));
    mutant.change(record);
    const Proof proof = prove(record);
    CHECK_FALSE(proof);
    CHECK_MESSAGE(text_of(proof).find(mutant.words) != std::string::npos, text_of(proof));
  }
}

TEST_CASE("misuse of sparse products") {
  // Each case is correct except for one thing.
  struct Wrong {
    DType a = DType::bf16, b = DType::bf16, e = DType::s32;
    Swizzle of_b = Swizzle::b128;
    int stored = 64, k = 128, lines = 2, words = 128, panel = 128;
    bool a_transposed = false;
  };
  const auto multiply = [](const Wrong& w) {
    Kernel k("k");
    SharedTile a = tile(k, w.a, w.a_transposed ? TileShape{w.stored, 64} : TileShape{64, w.stored},
                        SwizzleNone),
               b = tile(k, w.b, {64, w.k}, w.of_b),
               e = tile(k, w.e, {w.lines, w.words, w.panel}, SwizzleNone);
    Accumulator acc(64, 64);
    const SparseTile of_a = {w.a_transposed ? a[0].transposed() : a[0], e[0]};
    wgmma_group([&] { HERE mma(acc, of_a, b[0]); });
    wgmma_wait(0);
    done(k);
  };
  const auto in_kernel = [](const auto& body) {
    Kernel k("k");
    SharedTile a = tile(k, DType::bf16, {64, 64}, SwizzleNone),
               b = tile(k, DType::bf16, {64, 128}, Swizzle::b128),
               e = tile(k, DType::s32, metadata_tile(64, 128), SwizzleNone);
    Accumulator acc(64, 64);
    body(acc, SparseTile{a[0], e[0]}, b[0]);
    wgmma_wait(0);
    done(k);
  };
  const auto misuse = [&](const char* what, const char* phrase, const Wrong& wrong) {
    return Case{what, {phrase}, [=](bool bad) { multiply(bad ? wrong : Wrong{}); }};
  };
  check_cases({
      misuse("tf32",
             "mma: the sparse A is a tf32 64x64 tile in panels of 4, no swizzle, but must be stored along k, "
             "in f16",
             {.a = DType::tf32, .b = DType::tf32}),
      misuse("A stored along m",
             "the sparse A is a bf16 64x64 tile in panels of 8, no swizzle, transposed, but must be stored "
             "along k",
             {.a_transposed = true}),
      misuse("a B of as many k as are stored", "the shapes do not match in D 64x64 += A 64x128 B 64x64",
             {.k = 64}),
      misuse(
          "half a word's k",
          "mma: a sparse A has 96 elements along k and stores half of them, but k must be a multiple of 64",
          {.of_b = Swizzle::b64, .stored = 48, .k = 96, .lines = 1}),
      misuse("a B whose swizzle spans less than an instruction reads",
             "an instruction with a sparse A reads 64 B along k, more than the swizzle spans",
             {.of_b = Swizzle::b32}),
      misuse("metadata of half of k", "mma: the metadata of A is 1 rows of an s32 1x128 tile", {.lines = 1}),
      misuse("metadata of more rows",
             "for 64 x 128 elements it must be 2 rows of an s32 2x128 tile, no swizzle, in panels of 128",
             {.words = 256}),
      misuse("metadata in narrower panels",
             "in panels of 64, but for 64 x 128 elements it must be 2 rows of an s32 2x128 tile",
             {.panel = 64}),
      {"metadata that the next round of a loop loads while the product reads it",
       {"mma: the metadata of a sparse A is written while the products of the group of sparse_mma_test.cpp:",
        " from the previous iteration of the loop may still read it; call wgmma_wait(0) first"},
       [&](bool bad) {
         in_kernel([&](Accumulator& acc, const SparseTile& a, const TileView& b) {
           for_(0u, u32(4), [&](u32) {
             wgmma_group([&] { HERE mma(acc, a, b); });
             if (!bad) wgmma_wait(0);
           });
         });
       }},
      {"a sparse product after another of its group",
       {"mma: the metadata of a sparse A is computed after the first product of the group of "
        "sparse_mma_test.cpp:",
        "commit a group and wait for it"},
       [&](bool bad) {
         in_kernel([&](Accumulator& acc, const SparseTile& a, const TileView& b) {
           wgmma_group([&] {
             if (bad) mma(acc, b.cols(0, 64), b.cols(0, 64));
             HERE mma(acc, a, b);
           });
         });
       }},
      misuse("metadata of floats", "mma: the metadata of A is 2 rows of an f32 2x128 tile",
             {.e = DType::f32}),
  });
}

}  // namespace ptxbuilder::test::sparse_mma_test
