// The proofs of tile/proof.h: every kernel and every kind of product, and mutants that each have one
// counterexample.
#include "ptxbuilder/tile/proof.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernels/command/family.h"
#include "mma_types.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/mma.h"

using namespace ptxbuilder;
using test::all_types;
using test::Types;
using At = Counterexample::Element;

namespace {

std::string text_of(const Proof& proof) { return proof ? "" : proof.counterexample->text(); }

using Values = std::vector<std::pair<const char*, int64_t>>;

KernelRecord record_of(const char* kernel, const Values& values = {}) {
  const command::Family& family = command::family(kernel);
  command::Fields fields(family.fields);
  for (const auto& [name, value] : values) fields.set(name, value);
  return family.build(fields).record();
}

// The rows and columns of an operand as it lies in memory.
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

// One product of two tiles that TMA brings, in two stages.
KernelRecord record_of(const Product& c) {
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
  mma(acc, c.a_transposed ? a[1].transposed() : a[1], c.b_transposed ? b[1].transposed() : b[1]);
  return k.record();
}

// 64 rows of A that TMA brings and ldmatrix takes to registers.
KernelRecord fragment_of(DType type, Swizzle swizzle, bool transposed) {
  Kernel k("fragment");
  auto [A] = k.params<TensorMap>("A");
  SharedTile a(k.builder(), type, shape(64, 128 / size_of(type), transposed, type, swizzle), swizzle, 2, "",
               Where::here());
  Barriers loaded(k, {1});
  tma_load(a[1].on(loaded[0]), A, 0, 0);
  load_fragment(transposed ? a[1].transposed() : a[1]);
  return k.record();
}

uint64_t elements_of(const Proof& proof, std::string_view link) {
  uint64_t sum = 0;
  for (const Proof::Link& l : proof.links)
    if (l.text.starts_with(link)) sum += l.elements;
  return sum;
}

}  // namespace

TEST_CASE("every kernel as it is registered is proved") {
  CHECK(command::families().size() >= 6);
  int whole = 0;  // kernels with products, of which every operand is proved
  for (const command::Family& family : command::families()) {
    Kernel kernel = family.build(command::Fields(family.fields));
    Proof proof = prove(kernel.record());
    CAPTURE(family.name);
    CHECK_MESSAGE(proof, text_of(proof));
    CHECK((proof.elements() > 0) == !kernel.record().copies.empty());
    bool multiplies = !kernel.record().mmas.empty();
    if (proof.unproved.empty()) CHECK((elements_of(proof, "mma: ") > 0) == multiplies);
    whole += multiplies && proof.unproved.empty();
    for (const std::string& text : proof.unproved) MESSAGE(family.name << ": not tried: " << text);
  }
  CHECK(whole >= 4);
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
  // Every width that a tile of the persistent kernel can have.
  for (int bn = 8; bn <= 256; bn += 8) {
    Proof proof = prove(record_of("gemm_persistent", {{"bn", bn}}));
    CAPTURE(bn);
    CHECK_MESSAGE(proof, text_of(proof));
  }
}

// Types, majors, exchanged operands, widths and clusters of the kernel that has them all. What it refuses to
// build is not there to be proved.
TEST_CASE("gemm is proved in all that it takes") {
  int built = 0, refused = 0;
  auto check = [&](const Values& values) {
    KernelRecord record;
    try {
      record = record_of("gemm", values);
    } catch (const Error&) {
      ++refused;
      return;
    }
    Proof proof = prove(record);
    CHECK_MESSAGE(proof, record.kernel << ": " << text_of(proof));
    CHECK(proof.unproved.empty());
    CHECK(elements_of(proof, "mma: ") > 0);
    ++built;
  };
  constexpr int outputs[] = {0, 1, 2, 0, 0, 3, 3};  // bf16, f16, tf32, e4m3, e5m2, s8 and u8 into these
  for (int type = 0; type < 7; ++type)
    for (int majors = 0; majors < 4; ++majors)
      for (int swapped : {0, 1})
        for (int bn : {8, 40, 64, 96, 128, 192, 200, 256})
          check({{"a", type},
                 {"d", outputs[type]},
                 {"a_major", majors & 1},
                 {"b_major", majors >> 1},
                 {"swapped", swapped},
                 {"bn", bn},
                 {"stages", 2}});
  for (int majors = 0; majors < 4; ++majors)
    for (auto [x, y] : {std::pair{2, 1}, {1, 2}, {2, 2}, {4, 1}})
      check({{"a_major", majors & 1},
             {"b_major", majors >> 1},
             {"bn", 128},
             {"cluster_m", x},
             {"cluster_n", y},
             {"stages", 2}});
  for (const Values& values : {Values{{"pingpong", 1}, {"bn", 128}},
                               {{"split_k", 4}, {"bn", 128}},
                               {{"consumers", 1}, {"bm", 64}},
                               {{"consumers", 3}, {"bm", 192}, {"bn", 192}},
                               {{"bk", 32}},
                               {{"bk", 128}, {"stages", 2}},
                               {{"batches", 3}},
                               {{"bm", 256}, {"bn", 128}},
                               {{"bm", 256}, {"bn", 128}, {"a_major", 1}}})
    check(values);
  MESSAGE(built << " kernels proved, " << refused << " refused");
  CHECK(built > 150);
}

TEST_CASE("as many elements are tried as there are") {
  Proof proof =
      prove(record_of("gemm_warp_specialized", {{"bm", 128}, {"bn", 256}, {"bk", 64}, {"stages", 4}}));
  REQUIRE_MESSAGE(proof, text_of(proof));
  CHECK(elements_of(proof, "tma_load: A") == 4 * 128 * 64);
  CHECK(elements_of(proof, "tma_load: B") == 4 * 256 * 64);
  CHECK(elements_of(proof, "mma: A") == 4 * 9 * 64 * 64);  // of 128 rows, 64 begin at 0, 8, ..., 64
  CHECK(elements_of(proof, "mma: B") == 4 * 256 * 64);
  proof = prove(record_of("gemm_persistent", {{"cluster_m", 2}, {"bn", 128}, {"stages", 3}}));
  CHECK(elements_of(proof, "tma_load: B") == 3 * 2 * 128 * 64);  // both CTAs have all of it
}

TEST_CASE("products of all types, majors, swizzles and widths are proved") {
  int products = 0;
  for (Types t : all_types())
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (int m : {64, 128, 192})
            for (int n : {8, 16, 24, 32, 64, 72, 120, 128, 192, 248, 256}) {
              if ((a_transposed || b_transposed) && size_of(t.a) != 2) continue;
              Product c{t.a, t.b, t.d, m, n, 128 / size_of(t.a), swizzle, a_transposed, b_transposed};
              int span = swizzle == Swizzle::none ? 16 : span_bytes(swizzle);
              if (b_transposed && n * size_of(t.b) % span != 0) continue;  // no such tile
              if (t.d == DType::s32 && n > 24 && n % 16 != 0) continue;    // no such instruction
              Proof proof = prove(record_of(c));
              CAPTURE(m);
              CAPTURE(n);
              CHECK_MESSAGE(proof, text_of(proof));
              const auto bytes = static_cast<uint64_t>(c.k);
              CHECK(proof.elements() == 2 * 2 * bytes * static_cast<uint64_t>(m + n));
              ++products;
            }
  CHECK(products > 2000);
}

TEST_CASE("fragments of all types and swizzles are proved") {
  for (DType type : {DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::s8, DType::u8})
    for (Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128})
      for (bool transposed : {false, true}) {
        if (transposed && size_of(type) != 2) continue;
        Proof proof = prove(fragment_of(type, swizzle, transposed));
        CHECK_MESSAGE(proof, text_of(proof));
        CHECK(elements_of(proof, "load_fragment: ") == static_cast<uint64_t>(2 * 64 * 128 / size_of(type)));
        CHECK(proof.links.back().bank_ways == 1);
      }
}

TEST_CASE("views of some rows are proved, and tiles that no copy fills are named") {
  Kernel k("views");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  auto a = k.shared<bf16>({192, 128}, Swizzle128B), b = k.shared<bf16>({64, 64}, Swizzle64B, 1);
  auto other = k.shared<bf16>({64, 128}, Swizzle128B);
  Barriers loaded(k, {1});
  u32 row = tid_x() / 128 * 64;
  tma_load(a[0].rows(row, 64).on(loaded[0]), A, 0, row);
  tma_load(b[0].on(loaded[0]), B, 0, 0);
  Accumulator acc(64, 64);
  mma(acc, a[0].rows(128, 64).rows(0, 64), other[0].rows(0, 64));
  mma(acc, b[0].rows(0, 32).transposed(), b[0].rows(32, 32).transposed());
  Proof proof = prove(k.record());
  CHECK_MESSAGE(proof, text_of(proof));
  REQUIRE(proof.unproved.size() == 1);
  CHECK(proof.unproved[0] == "mma: B from a bf16 64x128 tile, 128 B swizzle: no tensor copy fills it");
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
  const char* words;  // in the text
};

KernelRecord pipelined() { return record_of("gemm_warp_specialized"); }  // 128 x 64 and 256 x 64, K-major
KernelRecord tile() { return record_of("gemm_tile"); }                   // A K-major 128 x 64, B 64 x 128
KernelRecord plain() {
  return record_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::none});
}
KernelRecord narrow() {
  return record_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::b32});
}
KernelRecord along_m() {
  return record_of(Product{DType::bf16, DType::bf16, DType::f32, 64, 64, 64, Swizzle::none, true, true});
}
KernelRecord bytes() {
  return record_of(Product{DType::e4m3, DType::e4m3, DType::f32, 64, 64, 128, Swizzle::b128});
}
KernelRecord registers() { return fragment_of(DType::bf16, Swizzle::b128, false); }
KernelRecord registers_along_m() { return fragment_of(DType::f16, Swizzle::b128, true); }
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
OperandRecord& a_of(KernelRecord& r) { return *r.mmas.at(0).a; }
OperandRecord& b_of(KernelRecord& r) { return r.mmas.at(0).b; }

const std::vector<Mutant>& mutants() {
  constexpr auto no = std::nullopt;
  static const std::vector<Mutant> all = {
      // Descriptors. In 128 B swizzle chunk c of line l lies at chunk c ^ l % 8.
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
      // Advances.
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
       8192, "wgmma reads beside the stage of 8192 B"},
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
       At{0, 64}, no, 128 + 16, "the box brings it, but the view has 128 x 64 elements"},
      {"a box too low", pipelined, [](KernelRecord& r) { load_of(r, "B").recipe.box[1] = 128; }, At{128, 0},
       no, no, "no box brings it"},
      {"a box too high", pipelined, [](KernelRecord& r) { load_of(r, "A").recipe.box[1] = 136; }, At{128, 0},
       no, 16384, "the box brings it, but the view has 128 x 64 elements"},
      {"boxes over each other", tile, [](KernelRecord& r) { load_of(r, "B").boxes[1].bytes = 4096; },
       At{0, 64}, At{32, 0}, 4096, "two elements at one address"},
      {"boxes exchanged", tile,
       [](KernelRecord& r) { std::swap(load_of(r, "B").boxes[0].cols, load_of(r, "B").boxes[1].cols); },
       At{0, 0}, At{0, 64}, 0, "step 0: n 0, k 0"},
      {"a box twice", tile, [](KernelRecord& r) { load_of(r, "B").boxes[1] = load_of(r, "B").boxes[0]; },
       At{0, 0}, At{0, 0}, 0, "it is brought twice"},
      {"a box is missing", tile, [](KernelRecord& r) { load_of(r, "B").boxes.pop_back(); }, At{0, 64}, no, no,
       "no box brings it"},
      {"a box beside the stage", tile, [](KernelRecord& r) { load_of(r, "B").boxes[1].bytes = 16384; },
       At{0, 64}, no, 16384, "a stage has 16384 B"},
      {"a tile between lines", pipelined, [](KernelRecord& r) { r.tiles[1].offset += 64; }, no, no, 0,
       "no multiple of 128 B"},
      {"a copy of other rows", pipelined, [](KernelRecord& r) { load_of(r, "A").slices[0].first_row = 8; },
       At{120, 0}, no, 16384, "a stage has 16384 B"},
      {"a store's box", tile, [](KernelRecord& r) { load_of(r, "D").recipe.box[1] /= 2; }, At{32, 0}, no, no,
       "tma_store of 'D'"},
      // ldmatrix.
      {"a step of ldmatrix", registers, [](KernelRecord& r) { r.fragments[0].along_k[1] = 16; }, At{0, 16},
       At{0, 8}, 16, "load_fragment: step 1, thread 0, register 0"},
      {"the row that lane 5 names", registers, [](KernelRecord& r) { r.fragments[0].by_thread[5] -= 128; },
       At{5, 0}, At{4, 0}, 512 + 64, "load_fragment: step 0, thread 20, register 0"},
      {"no swizzle for ldmatrix", registers, [](KernelRecord& r) { r.fragments[0].swizzle = Swizzle::none; },
       At{1, 0}, At{1, 8}, 128, "ldmatrix reads another element"},
      {"ldmatrix without .trans", registers_along_m, [](KernelRecord& r) { r.fragments[0].trans = false; },
       At{1, 0}, At{0, 1}, 2, "thread 0, register 0"},
      // Multicast.
      {"a slice that one CTA does not get", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").masks[1] = 2; }, At{128, 0}, no, no, "no box brings it"},
      {"a slice that goes to the other slice's place", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").slices[1].first_row = 0; }, At{128, 0}, At{0, 0}, 0,
       "two elements at one address"},
      {"both CTAs fetch the same rows", shared_by_two,
       [](KernelRecord& r) { load_of(r, "B").slices[1].coordinate = 0; }, At{0, 0}, no, 16384,
       "it is brought twice"},
      {"a mask of the other axis", shared_by_four, [](KernelRecord& r) { load_of(r, "A").masks[0] = 0b0011; },
       no, no, no, "the CTA of rank 0 sends to the one of rank 1, which is not beside it along y"},
  };
  return all;
}

}  // namespace

TEST_CASE("each mutant has its counterexample") {
  CHECK(mutants().size() >= 40);
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

// Right, but each row of a matrix lies in the same banks as the others.
TEST_CASE("bank conflicts are counted") {
  KernelRecord record = registers();
  record.copies.at(0).recipe.swizzle = record.fragments.at(0).swizzle = Swizzle::none;
  Proof proof = prove(record);
  CHECK_MESSAGE(proof, text_of(proof));
  CHECK(proof.links.back().bank_ways == 8);
  CHECK(proof.links.back().text.ends_with("8-way bank conflicts"));
  record.copies.at(0).recipe.swizzle = record.fragments.at(0).swizzle = Swizzle::b64;
  CHECK(prove(record).links.back().bank_ways == 2);
}

TEST_CASE("LBO of a swizzled K-major matrix is read by nobody") {
  KernelRecord record = pipelined();
  set_leading(*record.mmas.at(0).a, 0);
  CHECK(prove(record));
}
