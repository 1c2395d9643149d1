// Tests the proofs of proof/proof.h with every kind of copy and product, and with mutants, each of which has
// one counterexample.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "mma_types.h"
#include "proof_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder::test::proof_test {
using At = Counterexample::Element;

namespace {

// Returns the shape of an operand in memory.
TileShape shape(int mn, int k, bool transposed, DType type, Swizzle swizzle) {
  TileShape s = transposed ? TileShape{k, mn} : TileShape{mn, k};
  if (swizzle == Swizzle::none) s.panel_cols = 16 / size_of(type);
  return s;
}

struct Product {
  DType a, b, d;
  int m, n, k;
  Swizzle swizzle;
  bool a_transposed = false, b_transposed = false;
};

// A kernel with one product of two tiles, which TMA loads into two stages.
KernelRecord product_of(const Product& c) {
  Kernel k("product");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  auto tile = [&](DType type, int mn, bool transposed) {
    return SharedTile(k.builder(), type, shape(mn, c.k, transposed, type, c.swizzle), c.swizzle, 2, "",
                      Where::here());
  };
  SharedTile a = tile(c.a, c.m, c.a_transposed), b = tile(c.b, c.n, c.b_transposed);
  Barriers loaded(k, {1});
  tma_load(a[1].on(loaded[0]), A, 0, 0);
  tma_load(b[1].on(loaded[0]), B, 0, 0);
  Accumulator acc(c.m, c.n, c.d);
  wgmma_group([&] {
    mma(acc, c.a_transposed ? a[1].transposed() : a[1], c.b_transposed ? b[1].transposed() : b[1]);
  });
  return k.record();
}

// A kernel with a product whose A is loaded by TMA and moved to registers by ldmatrix.
KernelRecord registers_of(DType type, Swizzle swizzle, bool transposed) {
  Kernel k("registers");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  SharedTile a(k.builder(), type, shape(64, 128 / size_of(type), transposed, type, swizzle), swizzle, 2, "",
               Where::here());
  Barriers loaded(k, {1});
  tma_load(a[1].on(loaded[0]), A, 0, 0);
  SharedTile b = k.shared(type, {64, 128 / size_of(type)}, Swizzle128B, 1, "b");
  tma_load(b[0].on(loaded[0]), B, 0, 0);
  Accumulator acc(64, 64, type == DType::s8 || type == DType::u8 ? DType::s32 : DType::f32);
  test::visit_a_type(type, [&]<class T>() {
    auto x = load<T>(transposed ? a[1].transposed() : a[1], wgmma_a(type, 64, 128 / size_of(type)));
    wgmma_group([&] { mma(acc, x, b[0]); });
  });
  return k.record();
}

}  // namespace

// A proof follows each element from global memory to the matrix instruction and back.
TEST_CASE("all paths through shared memory are proved") {
  Proof proof = prove(record_of("gemm_cp_async_wgmma"));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load_async by 128 threads x 8 times cp.async of 16 B") ==
        3 * 2 * 3 * 128 * 64);  // in three places
  CHECK(elements_of(proof, "mma: A") == 3 * 128 * 64);
  CHECK(elements_of(proof, "store: accumulators") == 128 * 128);

  proof = prove(record_of("gemm_tma_mma_sync"));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load by 128 threads") ==
        4 * 2 * 2 * 64 * 64);  // two warps each read the same elements
  CHECK(elements_of(proof, "mma.sync of 16 x 8 bf16") == 128 * 4 * 2 * 4 * (8 + 4));
  for (const Proof::Link& link : proof.links)
    if (link.text.starts_with("load by")) CHECK(link.bank_ways == 1);

  proof = prove(record_of("gemm_tma_register_a"));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load by 128 threads x 4 times ldmatrix.x4") == 4 * 9 * 64 * 64);
  CHECK(elements_of(proof, "mma: A in registers") == 64 * 64);
  CHECK(elements_of(proof, "store: accumulators") == 2 * 64 * 128);  // either warpgroup may get here

  proof = prove(record_of("add_tma_swizzled"));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load by 128 threads x 16 times ldmatrix.x4") == 2 * 128 * 128);
  CHECK(elements_of(proof, "store by 128 threads x 16 times stmatrix.x4") == 128 * 128);
  CHECK(elements_of(proof, "tma_store") == 128 * 128);
  for (const Proof::Link& link : proof.links)
    if (link.text.find("matrix.x4") != std::string::npos) CHECK(link.bank_ways == 1);

  proof = prove(record_of("add_multicast"));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load strided(128 x 128, 8)") == 2 * 128 * 128);
  CHECK(elements_of(proof, "store strided(128 x 128, 8)") == 128 * 128);
}

namespace {

// A kernel with a tile that a tensor copy loads, that CTAs along some axes share, and that wgmma reads.
KernelRecord tensor_copy_of(const std::vector<CopyTransform>& transforms, ClusterAxes axes = {}) {
  Kernel k("tensor_copy");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  if (!axes.empty()) k.cluster(2, 2, 2);
  auto a = k.shared<bf16>({128, 128}, Swizzle128B, 2), b = k.shared<bf16>({64, 128}, Swizzle128B);
  Barriers loaded(k, {1});
  TensorCopy copy(DType::bf16, {128, 128}, transforms, Swizzle128B), plain(DType::bf16, {1, 64, 128});
  LoadView to = a[1].on(loaded[0]);
  tma_load(copy, to.multicast(axes), A, {ds(0, 128), ds(0, 128)});
  tma_load(plain, b[0].on(loaded[0]), B, {ds(0, 1), ds(0, 64), ds(0, 128)});
  Accumulator acc(128, 64);
  wgmma_group([&] { mma(acc, a[1], b[0]); });
  return k.record();
}

const std::vector<CopyTransform> kPanels = {TileTransform{{64, 64}}, TransposeTransform{{1, 0, 2, 3}}};

}  // namespace

TEST_CASE("tensor copies are proved, with transforms and with multicast") {
  for (const auto& transforms : {std::vector<CopyTransform>{}, kPanels})
    for (ClusterAxes axes :
         {ClusterAxes(), ClusterAxes(ClusterAxis::x), ClusterAxes(ClusterAxis::y),
          ClusterAxes(ClusterAxis::z), ClusterAxis::x | ClusterAxis::y, ClusterAxis::z | ClusterAxis::x,
          ClusterAxis::x | ClusterAxis::y | ClusterAxis::z}) {
      Proof proof = prove(tensor_copy_of(transforms, axes));
      CHECK_MESSAGE(proof, text_of(proof));
      CHECK(proof.unproved.empty());
      CHECK(elements_of(proof, "tma_load: A") == 2 * 128 * 128 * (axes.empty() ? 1 : 8));
      CHECK(elements_of(proof, "mma: A") == 2 * 128 * 128);
    }
  // Tiles that are stored row by row are not panels.
  Proof proof = prove(tensor_copy_of({kPanels[0]}));
  REQUIRE_FALSE(proof);
  CHECK(proof.counterexample->wanted == At{0, 64});
  CHECK(proof.counterexample->found == At{64, 0});
}

TEST_CASE("slices of tiles are proved, also at offsets that only the device knows") {
  Kernel k("slices");
  auto [A] = k.params<TensorMap>("A");
  auto a = k.shared<bf16>({64, 128}, Swizzle128B);
  Barriers loaded(k, {1});
  tma_load(a[0].on(loaded[0]), A, 0, 0);
  for (bool known : {true, false}) {
    u32 row = known ? u32(32) : ctaid_x() * 32;
    SharedSlice slice = shared_slice(a[0], ds(row, 32), ds(64, 64));
    load(TiledCopy(CopyAtom::vector(16), DType::bf16, threads_along_rows(32, 64, 128, 8), slice.memory),
         slice.place(), tid_x());
  }
  Proof proof = prove(k.record());
  CHECK_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "load by 128 threads") == 32 * 64 * (1 + 2));
}

namespace {

// Returns the largest number of words that threads write to one bank at a time. They write 8 rows of a matrix
// at a time, or 128 bytes in as many lanes as that takes.
int most_words(const ThreadCopyRecord& write, int access) {
  const size_t bytes = static_cast<size_t>(write.bytes), together = std::min<size_t>(128 / bytes, 32),
               used = write.matrices > 0 ? 8 * static_cast<size_t>(write.matrices) : 32;
  int most = 0;
  for (size_t first = 0; first < 128; first += together) {
    if (first % 32 >= used) continue;
    std::map<int, std::set<int>> words;
    for (size_t lane = first; lane < first + together; ++lane)
      for (size_t byte = 0; byte < bytes; byte += 4) {
        const int word =
            (write.addresses[write.index(access, static_cast<int>(lane))] + static_cast<int>(byte)) / 4;
        words[word % 32].insert(word);
      }
    for (const auto& [bank, all] : words) most = std::max(most, static_cast<int>(all.size()));
  }
  return most;
}

}  // namespace

// Tests each type, width and direction of the epilogue, and its cost.
TEST_CASE("accumulators are proved to reach their elements") {
  // Each type combines its widths alternately with transpositions and heights, starting at a different point.
  // Therefore, every width occurs with every type, every transposition and every height.
  int built = 0, first = 0;
  for (DType type : {DType::bf16, DType::f16, DType::f32, DType::s32}) {
    int turn = first++;
    for (int n = 8; n <= 256; n += 8) {
      if (type == DType::s32 && n > 24 && n % 16 != 0) continue;
      const bool transposed = turn % 2 != 0;
      const int m = turn / 2 % 2 != 0 ? 128 : 64;
      ++turn;
      Kernel k("store");
      auto [D] = k.params<TensorMap>("D");
      k.warpgroups(1, 0, [](u32) {});
      k.warpgroups(2, 0, [&, d = D](u32 group) {
        if (type == DType::s32)
          store(d, RegisterTile<s32>(0, wgmma_layout(m, n)), group * m, 0, {.transposed = transposed});
        else
          store(type, d, RegisterTile<f32>(0, wgmma_layout(m, n)), group * m, 0, {.transposed = transposed});
      });
      Proof proof = prove(k.record());
      CAPTURE(n);
      CHECK_MESSAGE(proof, text_of(proof));
      CHECK(elements_of(proof, "store: accumulators") == static_cast<uint64_t>(2 * m * n));
      int ways = 0, most = 0;
      for (const Proof::Link& link : proof.links)
        if (link.text.starts_with("store: accumulators")) ways = std::max(ways, link.bank_ways);
      for (const StoreRecord& record : k.record().stores)
        for (int access = 0; access < record.written.accesses(); ++access)
          most = std::max(most, most_words(record.written, access));
      CHECK(ways == most);
      CHECK(ways == 1);  // for pairs of 32-bit elements, because some threads exchange their order
      ++built;
    }
  }
  CHECK(built == 3 * 32 + 18);
}

TEST_CASE("parameter sets of the kernels are proved") {
  struct Set {
    const char* kernel;
    Values values;
  };
  const std::vector<Set> sets = {
      {"gemm_warp_specialized", {{"bm", 64}, {"bn", 64}, {"bk", 64}}},
      {"gemm_warp_specialized", {{"bm", 64}, {"bn", 128}, {"stages", 3}}},
      {"gemm_warp_specialized", {{"bm", 128}, {"bn", 192}, {"bk", 128}, {"stages", 2}}},
      {"gemm_warp_specialized", {{"bm", 192}, {"bn", 128}, {"bk", 64}, {"stages", 4}}},
      {"gemm_warp_specialized", {{"b_major", 1}, {"a", 1}, {"d", 2}}},
      {"gemm_multistage", {{"stages", 1}}},
      {"gemm_multistage", {{"b_major", 0}, {"d", 0}}},
      {"gemm_pingpong", {{"b_major", 1}, {"bm", 64}}},
      {"gemm_persistent", {{"cluster_m", 2}, {"b_major", 1}}},
      {"gemm_persistent", {{"cluster_m", 2}}},
      {"gemm_persistent", {{"cluster_n", 2}}},
      {"gemm_persistent", {{"cluster_m", 2}, {"cluster_n", 2}, {"bn", 128}}},
      {"gemm_persistent", {{"cluster_m", 4}, {"bn", 64}}},
      {"saxpy_tma", {{"n", 256}}},
  };
  for (const Set& set : sets) {
    Proof proof = prove(record_of(set.kernel, set.values));
    CAPTURE(set.kernel);
    CHECK_MESSAGE(proof, text_of(proof));
    CHECK(proof.elements() > 0);
  }
  // Tests every width that a tile of the persistent kernel can have.
  for (int bn = 8; bn <= 256; bn += 8) {
    Proof proof = prove(record_of("gemm_persistent", {{"bn", bn}}));
    CAPTURE(bn);
    CHECK_MESSAGE(proof, text_of(proof));
  }
}

TEST_CASE("all elements are tried") {
  Proof proof =
      prove(record_of("gemm_warp_specialized", {{"bm", 128}, {"bn", 256}, {"bk", 64}, {"stages", 4}}));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "tma_load: A") == 4 * 128 * 64);
  CHECK(elements_of(proof, "tma_load: B") == 4 * 256 * 64);
  CHECK(elements_of(proof, "mma: A") == 4 * 9 * 64 * 64);  // of the 128 rows, 64 start at 0, 8, ..., 64
  CHECK(elements_of(proof, "mma: B") == 4 * 256 * 64);
  proof = prove(record_of("gemm_persistent", {{"cluster_m", 2}, {"bn", 128}, {"stages", 3}}));
  CHECK(elements_of(proof, "tma_load: B") == 3 * 2 * 128 * 64);  // both CTAs have all of B
}

TEST_CASE("products of all types, majors, swizzles and widths are proved") {
  // Heights alternate, so that each occurs with every width, swizzle and type.
  int products = 0, turn = 0;
  for (Types t : all_types())
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (int n : {8, 16, 24, 32, 64, 72, 120, 128, 192, 248, 256}) {
            const int m = 64 * (1 + turn++ % 3);
            if ((a_transposed || b_transposed) && size_of(t.a) != 2) continue;
            Product c{t.a, t.b, t.d, m, n, 128 / size_of(t.a), swizzle, a_transposed, b_transposed};
            int span = swizzle == Swizzle::none ? 16 : span_bytes(swizzle);
            if (b_transposed && n * size_of(t.b) % span != 0) continue;  // there is no such tile
            if (t.d == DType::s32 && n > 24 && n % 16 != 0) continue;    // there is no such instruction
            Proof proof = prove(product_of(c));
            CAPTURE(m);
            CAPTURE(n);
            CHECK_MESSAGE(proof, text_of(proof));
            const auto bytes = static_cast<uint64_t>(c.k);
            CHECK(proof.elements() == 2 * 2 * bytes * static_cast<uint64_t>(m + n));
            ++products;
          }
  CHECK(products > 700);
}

TEST_CASE("A in registers of all types and swizzles is proved") {
  for (DType type : {DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::s8, DType::u8})
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (bool transposed : {false, true}) {
        if (transposed && size_of(type) != 2) continue;
        Proof proof = prove(registers_of(type, swizzle, transposed));
        CHECK_MESSAGE(proof, text_of(proof));
        CHECK(elements_of(proof, "load by 128 threads") ==
              static_cast<uint64_t>(2 * 64 * 128 / size_of(type)));
        CHECK(elements_of(proof, "mma: A in registers") == static_cast<uint64_t>(64 * 128 / size_of(type)));
        CHECK(proof.unproved.empty());
        for (const Proof::Link& link : proof.links)
          if (link.text.starts_with("load by")) CHECK(link.bank_ways == 1);
      }
}

TEST_CASE("views of some rows are proved, and tiles that no copy fills are reported") {
  Kernel k("views");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  auto a = k.shared<bf16>({192, 128}, Swizzle128B), b = k.shared<bf16>({64, 64}, Swizzle64B, 1);
  auto other = k.shared<bf16>({64, 128}, Swizzle128B);
  Barriers loaded(k, {1});
  u32 row = tid_x() / 128 * 64;
  tma_load(a[0].rows(row, 64).on(loaded[0]), A, 0, row);
  tma_load(b[0].on(loaded[0]), B, 0, 0);
  Accumulator acc(64, 64);
  wgmma_group([&] {
    mma(acc, a[0].rows(128, 64).rows(0, 64), other[0].rows(0, 64));
    mma(acc, b[0].rows(0, 32).transposed(), b[0].rows(32, 32).transposed());
  });
  Proof proof = prove(k.record());
  CHECK_MESSAGE(proof, text_of(proof));
  REQUIRE(proof.unproved.size() == 1);
  CHECK(proof.unproved[0] == "mma: B from a bf16 64x128 tile, 128 B swizzle: no copy fills it");
  CHECK(k.record().mmas[0].a->view.first_row == 128);
  CHECK_FALSE(k.record().copies[0].view.first_row);
}

namespace {

struct Mutant {
  const char* what;
  KernelRecord (*record)();
  void (*change)(KernelRecord&);
  std::optional<At> wanted, found;
  std::optional<int64_t> address;
  const char* words;  // part of the expected text
};

KernelRecord pipelined() { return record_of("gemm_warp_specialized"); }  // 128 x 64 and 256 x 64, K-major
KernelRecord tile() { return record_of("gemm_tile"); }  // A is K-major, 128 x 64; B is 64 x 128
KernelRecord plain() {
  return product_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::none});
}
KernelRecord narrow() {
  return product_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::b32});
}
KernelRecord along_m() {
  return product_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::none, true, true});
}
KernelRecord bytes() {
  return product_of(Product{DType::e4m3, DType::e4m3, DType::f32, 64, 64, 128, Swizzle::b128});
}
KernelRecord registers() { return registers_of(DType::bf16, Swizzle::b128, false); }
KernelRecord computed() { return record_of("attention"); }
KernelRecord registers_along_m() { return registers_of(DType::f16, Swizzle::b128, true); }
KernelRecord by_cp_async() { return record_of("gemm_cp_async_wgmma"); }
KernelRecord by_warps() { return record_of("gemm_tma_mma_sync"); }
KernelRecord in_registers() { return record_of("add_tma_swizzled"); }
KernelRecord by_vectors() { return record_of("add_multicast"); }
KernelRecord as_panels() { return tensor_copy_of(kPanels); }
KernelRecord shared_panels() { return tensor_copy_of(kPanels, ClusterAxis::z); }
KernelRecord out(DType type, bool transposed, bool epilogue = false) {
  Kernel k("out");
  auto [D] = k.params<TensorMap>("D");
  Epilogue doubled = [](const RegisterTile<f32>& x, const PanelPlace&) { return x * 2; };
  store(type, D, RegisterTile<f32>(0, wgmma_layout(64, 64)), 0, 0, epilogue ? doubled : nullptr,
        {.transposed = transposed});
  return k.record();
}
KernelRecord out_by_matrices() { return out(DType::bf16, false); }
KernelRecord out_transposed() { return out(DType::bf16, true); }
KernelRecord doubled_by_matrices() { return out(DType::bf16, false, true); }
KernelRecord doubled_by_pairs() { return out(DType::f32, false, true); }
KernelRecord out_by_pairs() { return out(DType::f32, false); }
KernelRecord out_by_elements() { return out(DType::f32, true); }
KernelRecord shared_by_two() { return record_of("gemm_persistent", {{"cluster_m", 2}}); }
KernelRecord shared_by_four() {
  return record_of("gemm_persistent", {{"cluster_m", 2}, {"cluster_n", 2}, {"bn", 128}});
}

void set_leading(OperandRecord& o, uint64_t bytes) {
  o.descriptor = (o.descriptor & ~(uint64_t{0x3fff} << 16)) | bytes / 16 << 16;
}
void set_stride(OperandRecord& o, uint64_t bytes) {
  o.descriptor = (o.descriptor & ~(uint64_t{0x3fff} << 32)) | bytes / 16 << 32;
}
void set_swizzle(OperandRecord& o, uint64_t type) {
  o.descriptor = (o.descriptor & ~(uint64_t{3} << 62)) | type << 62;
}
CopyRecord& load_of(KernelRecord& r, std::string_view map) {
  for (CopyRecord& copy : r.copies)
    if (copy.map == map) return copy;
  throw Error("no such load");
}
ThreadCopyRecord& out_of(KernelRecord& r) { return r.stores.at(0).written; }
OperandRecord& a_of(KernelRecord& r) { return *r.mmas.at(0).a; }
OperandRecord& b_of(KernelRecord& r) { return r.mmas.at(0).b; }

const std::vector<Mutant>& mutants() {
  constexpr auto no = std::nullopt;
  static const std::vector<Mutant> all = {
      // Descriptors: with a 128-byte swizzle, chunk c of line l is at chunk c ^ (l % 8).
      {"SBO of a K-major matrix", pipelined, [](KernelRecord& r) { set_stride(a_of(r), 512); }, At{8, 0},
       At{4, 0}, 512 + 64, "block 0, step 0: m 8, k 0"},
      {"SBO twice as large", pipelined, [](KernelRecord& r) { set_stride(b_of(r), 2048); }, At{8, 0},
       At{16, 0}, 2048, "mma: B, step 0: n 8, k 0"},
      {"swizzle of the descriptor 64 B", pipelined, [](KernelRecord& r) { set_swizzle(a_of(r), 2); },
       At{1, 0}, At{0, 32}, 64, "wgmma reads another element"},
      {"swizzle of the descriptor none", pipelined, [](KernelRecord& r) { set_swizzle(b_of(r), 0); },
       At{1, 0}, At{0, 8}, 16, "n 1, k 0"},
      {"base offset 1", pipelined, [](KernelRecord& r) { a_of(r).descriptor |= uint64_t{1} << 49; }, At{0, 0},
       At{0, 56}, 112, "m 0, k 0"},
      {"LBO of an MN-major matrix of two atoms", tile, [](KernelRecord& r) { set_leading(b_of(r), 4096); },
       At{0, 64}, At{32, 0}, 4096, "step 0: n 64, k 0"},
      {"SBO of an MN-major matrix", tile, [](KernelRecord& r) { set_stride(b_of(r), 2048); }, At{8, 0},
       At{16, 0}, 2048, "step 0: n 0, k 8"},
      {"LBO without swizzle", plain, [](KernelRecord& r) { set_leading(a_of(r), 2048); }, At{0, 8}, At{0, 16},
       2048, "m 0, k 8"},
      {"LBO and SBO exchanged without swizzle", plain,
       [](KernelRecord& r) { set_leading(a_of(r), 128), set_stride(a_of(r), 1024); }, At{0, 8}, At{8, 0}, 128,
       "m 0, k 8"},
      {"LBO and SBO exchanged in an MN-major matrix without swizzle", along_m,
       [](KernelRecord& r) { set_leading(a_of(r), 1024), set_stride(a_of(r), 128); }, At{8, 0}, At{0, 8},
       1024, "m 0, k 8"},
      {"the trans operand", tile, [](KernelRecord& r) { b_of(r).mn_major = false; }, At{1, 0}, At{0, 1}, 2,
       "step 0: n 0, k 1"},
      // Advances of descriptors.
      {"advance along k half", pipelined, [](KernelRecord& r) { a_of(r).along_k[1] = 16; }, At{0, 16},
       At{0, 8}, 16, "step 1: m 0, k 16"},
      {"advance along k across an atom", narrow, [](KernelRecord& r) { b_of(r).along_k[1] = 32; }, At{0, 16},
       At{1, 0}, 32, "step 1: n 0, k 16"},
      {"advance along k between chunks", pipelined, [](KernelRecord& r) { a_of(r).along_k[2] = 88; },
       At{0, 32}, At{0, 40}, 80, "step 2: m 0, k 32"},
      {"advance along k in bytes for elements", bytes, [](KernelRecord& r) { a_of(r).along_k[1] = 64; },
       At{0, 32}, At{0, 64}, 64, "step 1: m 0, k 32"},
      {"advance along m", tile, [](KernelRecord& r) { a_of(r).along_mn[1] = 4096; }, At{64, 0}, At{32, 0},
       4096, "block 1, step 0: m 64, k 0"},
      {"advance out of the stage", plain, [](KernelRecord& r) { b_of(r).along_k[3] = 8192; }, At{0, 48}, no,
       8192, "wgmma reads outside of the stage of 8192 B"},
      {"a step too few", pipelined, [](KernelRecord& r) { b_of(r).along_k.pop_back(); }, no, no, no,
       "3 steps do not cover 256 x 64"},
      {"a view that begins at another row", pipelined, [](KernelRecord& r) { r.tiles[0].row_bytes = 64; },
       At{8, 0}, At{4, 0}, 512 + 64, "mma: A"},
      // Tensor maps and boxes.
      {"swizzle of the map 64 B", pipelined,
       [](KernelRecord& r) { load_of(r, "A").recipe.swizzle = Swizzle::b64; }, At{4, 0}, At{4, 32}, 512 + 64,
       "m 4, k 0"},
      {"swizzle of the map none", pipelined,
       [](KernelRecord& r) { load_of(r, "B").recipe.swizzle = Swizzle::none; }, At{1, 0}, At{1, 8}, 128 + 16,
       "n 1, k 0"},
      {"extents of the box exchanged", pipelined,
       [](KernelRecord& r) { std::swap(load_of(r, "A").recipe.box[0], load_of(r, "A").recipe.box[1]); },
       At{0, 64}, no, 128 + 16, "the box contains it, but the view has 128 x 64 elements"},
      {"a box too low", pipelined, [](KernelRecord& r) { load_of(r, "B").recipe.box[1] = 128; }, At{128, 0},
       no, no, "no box contains it"},
      {"a box too high", pipelined, [](KernelRecord& r) { load_of(r, "A").recipe.box[1] = 136; }, At{128, 0},
       no, 16384, "the box contains it, but the view has 128 x 64 elements"},
      {"boxes over each other", tile, [](KernelRecord& r) { load_of(r, "B").boxes.digits[0].bytes = 4096; },
       At{0, 64}, At{32, 0}, 4096, "two elements at one address"},
      {"boxes that begin too near to each other", tile,
       [](KernelRecord& r) { load_of(r, "B").boxes.digits[0].step = 32; }, At{0, 32}, no, 8192,
       "it is brought twice"},
      {"boxes that begin before the view", tile,
       [](KernelRecord& r) { load_of(r, "B").boxes.digits[0].step = -64; }, At{0, -64}, no, 8192,
       "the box contains it, but the view has 64 x 128 elements"},
      {"boxes along the other dimension", tile,
       [](KernelRecord& r) { load_of(r, "B").boxes.digits[0].dimension = 1; }, At{64, 0}, no, 8192,
       "the box contains it, but the view has 64 x 128 elements"},
      {"a box twice", tile,
       [](KernelRecord& r) {
         load_of(r, "B").boxes.digits[0].step = 0;
         load_of(r, "B").boxes.digits[0].bytes = 0;
       },
       At{0, 0}, At{0, 0}, 0, "it is brought twice"},
      {"a box is missing", tile, [](KernelRecord& r) { --load_of(r, "B").boxes.digits[0].count; }, At{0, 64},
       no, no, "no box contains it"},
      {"a box outside of the stage", tile, [](KernelRecord& r) { load_of(r, "B").boxes.digits[0].bytes = 16384; },
       At{0, 64}, no, 16384, "a stage has 16384 B"},
      {"a tile between lines", pipelined, [](KernelRecord& r) { r.tiles[1].offset += 64; }, no, no, 0,
       "must start at a multiple of 128 B"},
      {"a copy of other rows", pipelined, [](KernelRecord& r) { load_of(r, "A").view.first_row = 8; },
       At{128, 0}, no, 16384, "a stage has 16384 B"},
      {"a store's box", tile, [](KernelRecord& r) { load_of(r, "D").recipe.box[1] /= 2; }, At{32, 0}, no, no,
       "tma_store of 'D'"},
      // ldmatrix.
      {"a row that ldmatrix is given", registers,
       [](KernelRecord& r) { r.thread_copies[0].addresses[5] -= 128; }, At{5, 0}, At{4, 8}, 512 + 80,
       "threads read another element"},
      {"ldmatrix without .trans", registers_along_m, [](KernelRecord& r) { r.thread_copies[0].trans = false; },
       At{1, 0}, At{0, 1}, 2, "threads read another element"},
      {"two registers of A exchanged", registers,
       [](KernelRecord& r) { std::swap(r.mmas[0].a_words[1], r.mmas[0].a_words[2]); }, At{8, 0}, At{0, 8}, no,
       "mma: A in registers: block 0, step 0, thread 0, register 1"},
      {"two steps of A exchanged", registers,
       [](KernelRecord& r) {
         for (size_t i = 0; i < 4; ++i) std::swap(r.mmas[0].a_words[4 + i], r.mmas[0].a_words[8 + i]);
       },
       At{0, 16}, At{0, 32}, no, "step 1, thread 0, register 0"},
      {"A that is computed as other threads hold it", computed,
       [](KernelRecord& r) {
         const auto in_registers = [](const MmaRecord& m) { return !m.a; };
         std::find_if(r.mmas.begin(), r.mmas.end(), in_registers)->a_layout = wgmma_upcast_2x(64, 128);
       },
       At{0, 2}, At{0, 8}, no, "mma: A in registers: block 0, step 0, thread 1, register 0"},
      // Multicast.
      {"a slice that one CTA does not get", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").groups.first_mask = 1; }, At{0, 0}, no, no, "no box contains it"},
      {"a slice that goes to the other slice's place", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").boxes.digits[1].bytes = 0; }, At{128, 0}, At{0, 0}, 0,
       "two elements at one address"},
      {"both CTAs fetch the same rows", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").boxes.digits[1].step = 0; }, At{0, 0}, no, 16384,
       "it is brought twice"},
      {"a mask of the other axis", shared_by_four, [](KernelRecord& r) { load_of(r, "A").groups.first_mask = 0b0011; },
       no, no, no, "the CTA of rank 0 sends to the CTA of rank 1, which is not in line with it along y"},
      // Tensor copies through transforms.
      {"steps of a box exchanged", as_panels,
       [](KernelRecord& r) { std::swap(load_of(r, "A").steps[1], load_of(r, "A").steps[2]); }, At{128, 0}, no,
       no, "the view has 128 x 128 elements"},
      {"a box of other elements", as_panels, [](KernelRecord& r) { load_of(r, "A").steps[1].rows = 8; },
       At{128, 0}, no, no, "the view has 128 x 128 elements"},
      {"boxes of the CTAs in one place", shared_panels,
       [](KernelRecord& r) { load_of(r, "A").boxes.digits[0].bytes = 0; }, At{0, 64}, At{0, 0}, 0,
       "two elements at one address"},
      {"both CTAs fetch the same boxes", shared_panels,
       [](KernelRecord& r) { load_of(r, "A").boxes.digits[0] = {2, 0, 0, 0}; }, At{0, 0}, At{0, 0}, 0,
       "it is brought twice"},
      {"a mask along another axis", shared_panels,
       [](KernelRecord& r) { load_of(r, "A").groups.first_mask = 0b00000011; }, no, no, no,
       "the CTA of rank 0 sends to the CTA of rank 1, which is not in line with it along z"},
      // Copies by threads.
      {"cp.async to another chunk", by_cp_async,
       [](KernelRecord& r) {
         for (ThreadCopyRecord& copy : r.thread_copies) std::swap(copy.addresses[8], copy.addresses[9]);
       },
       At{1, 0}, At{1, 8}, 128 + 16, "wgmma reads another element"},
      {"cp.async of another row", by_cp_async,
       [](KernelRecord& r) {
         for (ThreadCopyRecord& copy : r.thread_copies) copy.elements[0].row = 8;
       },
       At{0, 0}, At{8, 0}, 0, "wgmma reads another element"},
      {"cp.async in one place otherwise than in another", by_cp_async,
       [](KernelRecord& r) { r.thread_copies[2].elements[0].row = 1; }, At{1, 0}, At{0, 0}, 0,
       "two elements at one address"},
      {"cp.async to a place that is taken", by_cp_async,
       [](KernelRecord& r) { r.thread_copies[0].addresses[1] = 0; }, At{0, 8}, At{0, 0}, 0,
       "two elements at one address"},
      {"cp.async between chunks", by_cp_async, [](KernelRecord& r) { r.thread_copies[0].addresses[1] += 8; },
       no, no, 24, "not a multiple of 16 B"},
      {"cp.async outside of the stage", by_cp_async,
       [](KernelRecord& r) { r.thread_copies[0].addresses[0] = 16384; }, At{0, 0}, no, 16384,
       "a stage has 16384 B"},
      {"a row of ldmatrix", by_warps, [](KernelRecord& r) { r.thread_copies[0].addresses[1] ^= 16; },
       At{1, 0}, At{1, 8}, 128, "threads read another element"},
      {"ldmatrix as if transposed", by_warps, [](KernelRecord& r) { r.thread_copies[0].trans = true; },
       At{0, 1}, At{1, 0}, 128 + 16, "threads read another element"},
      {"two registers of mma.sync exchanged", by_warps,
       [](KernelRecord& r) { std::swap(r.warp_mmas[0].a[0], r.warp_mmas[0].a[1]); }, no, no, no,
       "mma.sync: A, warp 0, lane 0, value"},
      {"mma.sync of another depth", by_warps, [](KernelRecord& r) { r.warp_mmas[0].b = r.warp_mmas[8].b; },
       no, no, no, "A begins at k 0, but B at k 16"},
      {"a register tile's load by ldmatrix", in_registers,
       [](KernelRecord& r) { std::swap(r.thread_copies[0].addresses[0], r.thread_copies[0].addresses[1]); },
       At{0, 0}, At{1, 0}, 128 + 16, "threads read another element"},
      {"a register tile's store by stmatrix", in_registers,
       [](KernelRecord& r) { std::swap(r.thread_copies[2].addresses[0], r.thread_copies[2].addresses[1]); },
       At{0, 0}, At{1, 0}, 0, "TMA stores another element"},
      {"a register tile's load by vectors", by_vectors,
       [](KernelRecord& r) { std::swap(r.thread_copies[0].addresses[0], r.thread_copies[0].addresses[1]); },
       At{0, 0}, At{0, 8}, 16, "threads read another element"},
      {"a register tile's store by vectors", by_vectors,
       [](KernelRecord& r) { std::swap(r.thread_copies[2].elements[0], r.thread_copies[2].elements[1]); },
       At{0, 0}, At{0, 1}, 0, "TMA stores another element"},
      // Accumulators on their way to global memory.
      {"stmatrix to the other half", out_by_matrices,
       [](KernelRecord& r) { std::swap(out_of(r).addresses[0], out_of(r).addresses[8]); },
       At{0, 0}, At{8, 0}, 0, "TMA stores another element"},
      {"stmatrix transposed", out_by_matrices, [](KernelRecord& r) { out_of(r).trans = true; },
       At{0, 1}, At{1, 0}, 2, "TMA stores another element"},
      {"pairs of registers exchanged that are not", out_by_pairs,
       [](KernelRecord& r) { out_of(r).exchange = Exchange{1, 1}; }, no, no, no, "TMA stores another element"},
      {"stmatrix over what is there", out_by_matrices,
       [](KernelRecord& r) {
         std::copy_n(out_of(r).addresses.begin(), 128, out_of(r).addresses.begin() + 128);
       },
       no, no, no, "two elements at one address"},
      {"stmatrix is missing", out_by_matrices,
       [](KernelRecord& r) { out_of(r).addresses.resize(out_of(r).addresses.size() - 128); }, no, no, no,
       "TMA stores an element that no thread has written"},
      {"swizzle of the map of stores", out_by_matrices,
       [](KernelRecord& r) { r.stores[0].pieces[0].copy.recipe.swizzle = Swizzle::b64; }, At{4, 0}, At{4, 32},
       512, "TMA stores another element"},
      {"a box of other columns", out_by_matrices, [](KernelRecord& r) { r.stores[0].pieces[0].first_col = 8; },
       At{0, 8}, At{0, 0}, 0, "TMA stores another element"},
      {"a box is not stored", out_by_pairs, [](KernelRecord& r) { --r.stores[0].pieces[0].copy.boxes.digits[0].count; }, no, no, no,
       ""},
      {"the tensor's rows are not the accumulator's columns", out_transposed,
       [](KernelRecord& r) { r.stores[0].transposed = false; }, At{0, 1}, At{1, 0}, 2,
       "TMA stores another element"},
      {"pairs to another chunk", out_by_pairs,
       [](KernelRecord& r) { std::swap(out_of(r).addresses[0], out_of(r).addresses[1]); },
       At{0, 0}, At{0, 2}, 0, "TMA stores another element"},
      {"the epilogue gets the position of another row", doubled_by_pairs,
       [](KernelRecord& r) { out_of(r).elements[out_of(r).index(1, 0) * 2].row = 0; }, At{8, 0}, At{0, 0}, no,
       "st.shared 1, thread 0"},
      {"the epilogue gets the position of another column", doubled_by_matrices,
       [](KernelRecord& r) { out_of(r).elements[9].col = 2; }, At{0, 3}, At{0, 2}, no,
       "stmatrix 0, thread 1"},
      {"an element over another", out_by_elements,
       [](KernelRecord& r) { out_of(r).addresses[1] = out_of(r).addresses[0]; },
       At{0, 2}, At{0, 0}, 0, "two elements at one address"},
  };
  return all;
}

}  // namespace

TEST_CASE("each mutant has its counterexample") {
  CHECK(mutants().size() >= 72);
  for (const Mutant& m : mutants()) {
    std::string what = m.what;
    CAPTURE(what);
    KernelRecord record = m.record();
    Proof before = prove(record);
    CHECK_MESSAGE(before, text_of(before));
    m.change(record);
    Proof proof = prove(record);
    REQUIRE_FALSE(proof);
    const Counterexample& wrong = *proof.counterexample;
    std::string text = wrong.text();
    CAPTURE(text);
    CHECK(text.find(m.words) != std::string::npos);
    if (m.wanted) CHECK(wrong.wanted == m.wanted);
    if (m.wanted) CHECK(wrong.found == m.found);
    if (m.address) CHECK(wrong.address == m.address);
    CHECK(wrong.where.line > 0);
    CHECK(text.ends_with(")"));
  }
}

// One bulk copy loads a line that is stored in panels, and another loads rows of a matrix. In a cluster, each
// CTA loads a part of both and multicasts it.
TEST_CASE("bulk copies are proved as contiguous bytes") {
  const auto recorded = [](bool shares) {
    Kernel k("bulk");
    auto [x] = k.params<gptr<f32>>("x");
    if (shares) k.cluster(2);
    auto line = k.shared<f32>({1, 128, 32}, SwizzleNone), rows = k.shared<f32>({16, 8}, SwizzleNone);
    Barriers loaded(k, {1});
    if (shares)
      sync_cluster();
    else
      sync_threads();
    const LoadView to_line = line[0].on(loaded[0]), to_rows = rows[0].on(loaded[0]);
    bulk_load(shares ? to_line.multicast(ClusterAxis::x) : to_line, x, 0);
    bulk_load(shares ? to_rows.multicast(ClusterAxis::x) : to_rows, x, 0);
    load<f32>(line[0], wgmma_col(128));
    load<f32>(rows[0]);
    bulk_store(x, 128, rows[0]);
    return k.record();
  };
  for (const bool shares : {false, true}) {
    const Proof proof = prove(recorded(shares));
    CHECK_MESSAGE(proof, text_of(proof));
    CHECK(proof.unproved.empty());
    CHECK(elements_of(proof, "bulk_load: contiguous memory -> f32 1x128 tile") == (shares ? 256 : 128));
    CHECK(elements_of(proof, "bulk_load: contiguous memory -> f32 16x8 tile") == (shares ? 256 : 128));
    CHECK(elements_of(proof, "bulk_store: f32 16x8 tile") == 128);
  }
  KernelRecord wrong = recorded(false);
  std::swap(wrong.copies.at(1).recipe.box[0], wrong.copies.at(1).recipe.box[1]);
  const Proof proof = prove(wrong);
  CHECK_FALSE(proof);
  CHECK(text_of(proof).find("bulk_load of 'contiguous memory'") != std::string::npos);
}

// This layout is correct, but rows of a matrix share banks with other rows.
TEST_CASE("bank conflicts are counted") {
  auto link_with = [](Swizzle swizzle, int mask) {
    KernelRecord record = registers();
    record.copies.at(0).recipe.swizzle = swizzle;
    for (int& address : record.thread_copies.at(0).addresses) {
      address ^= address >> 3 & 0x70;  // the place without the tile's 128-byte swizzle
      address ^= address >> 3 & mask;
    }
    Proof proof = prove(record);
    CHECK_MESSAGE(proof, text_of(proof));
    for (const Proof::Link& link : proof.links)
      if (link.text.starts_with("load by")) return link;
    throw Error("nothing is loaded");
  };
  CHECK(link_with(Swizzle::none, 0).bank_ways == 8);
  CHECK(link_with(Swizzle::none, 0).text.ends_with("8-way bank conflicts"));
  CHECK(link_with(Swizzle::b64, 0x30).bank_ways == 2);
}

TEST_CASE("LBO of a swizzled K-major matrix is read by nobody") {
  KernelRecord record = pipelined();
  set_leading(*record.mmas.at(0).a, 0);
  CHECK(prove(record));
}

}  // namespace ptxbuilder::test::proof_test
