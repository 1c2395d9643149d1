// Tests that typed calls of each family compute on a device what the PTX ISA specifies.
//
//   family_call_test [--device=emulator|cuda|auto]
#include <bit>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/plan/descriptor.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::family_call_test {

namespace somebody {

PTXBUILDER_ROW(cvta_shared, "cvta.shared.u64 {d:=generic}, {a:u64};", pure, 63, sm_75)
PTXBUILDER_ROW(ld_u32, "ld.u32 {d:=u32}, [{a:generic}];", memory, 63, sm_75)

}  // namespace somebody

namespace {

constexpr uint32_t kAllLanes = 0xffffffff;

// Returns `count` words of shared memory, indexed by their numbers.
sptr<u32> shared_words(Kernel& k, int count) { return sptr<u32>(k.shared<u32>({1, count})[0].address()); }

gptr<u32> words_of(gptr<bf16> p) { return gptr<u32>(gmem(p)); }

void copy(sptr<u32> to, gptr<u32> from, uint32_t words) {
  for (uint32_t i = 0; i < words; i += 32) to[laneid() + i] = from[laneid() + i];
}

// Returns the sum over k of a[row, k] b[col, k].
std::vector<double> product_of(const Matrix& a, const Matrix& b) {
  std::vector<double> d;
  for (int row = 0; row < a.extent.rows; ++row)
    for (int col = 0; col < b.extent.rows; ++col) {
      double sum = 0;
      for (int k = 0; k < a.extent.cols; ++k)
        sum += a.values[static_cast<size_t>(row * a.extent.cols + k)] *
               b.values[static_cast<size_t>(col * b.extent.cols + k)];
      d.push_back(sum);
    }
  return d;
}

// Returns small integers, whose products and sums are exact in bf16.
Matrix small_numbers(TileExtent extent) {
  Matrix m = random_matrix(DType::bf16, extent, -2, 3);
  for (double& v : m.values) v = std::floor(v);
  return m;
}

// Returns the descriptor of a K-major matrix at `at`: 8 rows of 32 bytes, without swizzle.
u64 descriptor_of(smem at) {
  const MatrixDescriptor fields = WgmmaOperand(DType::bf16, Major::k, Swizzle::none, 8, 16).descriptor();
  return ((u64(u32(at)) & 0x3ffff) >> 4) | u64(fields.encode());
}

// Returns the place of a word in a K-major matrix like that of descriptor_of().
u32 word_of(u32 row, u32 word) { return row * 4 + word / 4 * 32 + word % 4; }

// Returns the four registers of A that a thread of a warpgroup holds (PTX ISA, wgmma, "Register Fragments"),
// from rows of 8 words.
std::array<u32, 4> fragment_of(gptr<u32> a) {
  const u32 row = tid_x() / 32 * 16 + laneid() / 4, word = laneid() % 4;
  return {a[row * 8 + word], a[(row + 8) * 8 + word], a[row * 8 + word + 4], a[(row + 8) * 8 + word + 4]};
}

// Returns a zero that is in a register before the next fence, and that LLVM does not move.
template <class T>
T ahead_of_fence() {
  return bit_cast<T>(mov_b32(0));
}

// Stores a fragment of 64 x 8 elements.
template <class T>
void store_fragment(gptr<T> out, const std::array<T, 4>& d) {
  const u32 at = (tid_x() / 32 * 16 + laneid() / 4) * 8 + laneid() % 4 * 2;
  out[at] = d[0];
  out[at + 1] = d[1];
  out[at + 64] = d[2];
  out[at + 65] = d[3];
}

}  // namespace

TEST_CASE("ldmatrix, mma.sync, a packing cvt and stmatrix") {
  for (bool transposed : {false, true}) {
    const Matrix a = small_numbers({16, 16}), b = small_numbers({8, 16});
    Matrix stored = b;  // [n, k], or [k, n] if it is transposed
    if (transposed) {
      stored.extent = {16, 8};
      for (size_t n = 0; n < 8; ++n)
        for (size_t i = 0; i < 16; ++i) stored.values[i * 8 + n] = b.values[n * 16 + i];
    }
    Kernel k("warp_product");
    k.threads(32);
    auto [pa, pb, out] = k.params<gptr<bf16>, gptr<bf16>, gptr<bf16>>("a", "b", "out");
    sptr<u32> sa = shared_words(k, 128), sb = shared_words(k, 64), sd = shared_words(k, 64);
    copy(sa, words_of(pa), 128);
    copy(sb, words_of(pb), 64);
    bar_warp_sync(kAllLanes);
    const smem a_row = smem(sa) + (laneid() % 16 * 32 + laneid() / 16 * 16);
    const std::array<u32, 4> fragment_a = ldmatrix<MatrixForm{.matrices = 4}>(a_row);
    std::array<u32, 2> fragment_b =
        transposed
            ? ldmatrix<MatrixForm{.matrices = 2, .transposed = true}>(smem(sb) + laneid() % 16 * 16)
            : ldmatrix<MatrixForm{.matrices = 2}>(smem(sb) + (laneid() % 8 * 32 + laneid() / 8 % 2 * 16));
    constexpr MmaForm form = {.d = DType::f32, .a = DType::bf16, .b = DType::bf16, .k = 16};
    const std::array<f32, 4> d = mma_sync<form>(fragment_a, fragment_b, {0, 0, 0, 0});
    const u32 upper = cvt_pack<DType::bf16>(d[1], d[0]);
    const u32 lower = cvt_pack<DType::bf16>(d[3], d[2]);
    stmatrix<MatrixForm{.matrices = 2}>(smem(sd) + laneid() % 16 * 16, {upper, lower});
    bar_warp_sync(kAllLanes);
    for (uint32_t i = 0; i < 64; i += 32) words_of(out)[laneid() + i] = sd[laneid() + i];
    check_equal(result_of(std::move(k), {a, stored}, {DType::bf16, {16, 8}, {}}), product_of(a, b),
                transposed ? "B by columns" : "B by rows");
  }
}

TEST_CASE("packing to 8 bits") {
  Kernel k("pack");
  k.threads(32);
  auto [out] = k.params<gptr<u32>>("out");
  const f32 x = f32(laneid());
  const s32 i = s32(laneid()) * 20;
  out[laneid() * 3] = u32(cvt_pack<DType::e4m3>(x * 100, -x));
  out[laneid() * 3 + 1] = cvt_pack_integer<DType::s8>(i, -i, 0x12345678);
  out[laneid() * 3 + 2] = cvt_pack_integer<DType::u8>(i, -i, 0);
  std::vector<double> expected;
  for (int lane = 0; lane < 32; ++lane) {
    expected.push_back(static_cast<double>(encode(DType::e4m3, lane * 100) << 8 |
                                           encode(DType::e4m3, -static_cast<double>(lane))));
    expected.push_back(
        static_cast<double>(0x56780000u | encode(DType::s8, lane * 20) << 8 | encode(DType::s8, -lane * 20)));
    expected.push_back(static_cast<double>(encode(DType::u8, lane * 20) << 8));
  }
  check_equal(result_of(std::move(k), {}, {DType::u32, {96, 1}, {}}), expected, "packed");
}

TEST_CASE("wgmma into values and into named registers") {
  constexpr WgmmaForm form = {
      .d = DType::f32, .a = DType::bf16, .b = DType::bf16, .n = 8, .a_in_registers = true};
  for (bool named : {false, true}) {
    const Matrix a = small_numbers({64, 16}), b = small_numbers({8, 16});
    Kernel k("product");
    auto [pa, pb, out] = k.params<gptr<bf16>, gptr<bf16>, gptr<f32>>("a", "b", "out");
    sptr<u32> sb = shared_words(k, 64);
    if_(tid_x() < 64, [&] { sb[word_of(tid_x() / 8, tid_x() % 8)] = words_of(pb)[tid_x()]; });
    const std::array<u32, 4> fragment = fragment_of(words_of(pa));
    fence_proxy_async<Space::shared>();
    sync_threads();
    const u64 descriptor = descriptor_of(smem(sb));
    std::array<f32, 4> d = {ahead_of_fence<f32>(), ahead_of_fence<f32>(), ahead_of_fence<f32>(),
                            ahead_of_fence<f32>()};
    wgmma_fence();
    if (named) {
      const Registers registers = k.builder().declare_registers(Class::f32, 4);
      wgmma_mma_async<form>(registers, fragment, descriptor, pred(false), 1, 1, 0);
      wgmma_mma_async<form>(registers, fragment, descriptor, pred(true), 1, 1, 0);
      wgmma_commit_group();
      wgmma_wait_group(0);
      for (int i = 0; i < 4; ++i) {
        const std::vector<Argument> one = {registers.slice(i, 1)};
        d[static_cast<size_t>(i)] =
            f32(k.builder().emit(isa::rows_def::mov_f32, one, std::nullopt)[0].handle());
      }
    } else {
      d = wgmma_mma_async<form>(d, fragment, descriptor, pred(false), 1, 1, 0);
      d = wgmma_mma_async<form>(d, fragment, descriptor, pred(true), 1, 1, 0);
      wgmma_commit_group();
      wgmma_wait_group(0);
    }
    store_fragment(out, d);
    std::vector<double> expected = product_of(a, b);
    for (double& v : expected) v *= 2;
    check_equal(result_of(std::move(k), {a, b}, {DType::f32, {64, 8}, {}}), expected,
                named ? "named registers" : "values");
  }
}

TEST_CASE("wgmma of single bits") {
  const Matrix a = random_matrix(DType::u32, {64, 8}, 0, 0x1p32),
               b = random_matrix(DType::u32, {8, 8}, 0, 0x1p32);
  Kernel k("bits");
  auto [pa, pb, out] = k.params<gptr<u32>, gptr<u32>, gptr<s32>>("a", "b", "out");
  sptr<u32> sb = shared_words(k, 64);
  if_(tid_x() < 64, [&] { sb[word_of(tid_x() / 8, tid_x() % 8)] = pb[tid_x()]; });
  const std::array<u32, 4> fragment = fragment_of(pa);
  fence_proxy_async<Space::shared>();
  sync_threads();
  const std::array<s32, 4> zeros = {ahead_of_fence<s32>(), ahead_of_fence<s32>(), ahead_of_fence<s32>(),
                                    ahead_of_fence<s32>()};
  wgmma_fence();
  const std::array<s32, 4> d = wgmma_mma_async_bits<WgmmaBitsForm{.n = 8, .a_in_registers = true}>(
      zeros, fragment, descriptor_of(smem(sb)), pred(true));
  wgmma_commit_group();
  wgmma_wait_group(0);
  store_fragment(out, d);
  std::vector<double> expected;
  for (size_t row = 0; row < 64; ++row)
    for (size_t col = 0; col < 8; ++col) {
      int bits = 0;
      for (size_t word = 0; word < 8; ++word)
        bits += std::popcount(static_cast<uint32_t>(a.values[row * 8 + word]) &
                              static_cast<uint32_t>(b.values[col * 8 + word]));
      expected.push_back(bits);
    }
  check_equal(result_of(std::move(k), {a, b}, {DType::s32, {64, 8}, {}}), expected, "bits");
}

TEST_CASE("tensor copies: prefetched, loaded, stored and added") {
  const TensorMapRecipe recipe = {.dtype = DType::f32, .box = {8, 4}, .element_strides = {1, 1}};
  Matrix x = random_matrix(DType::f32, {6, 12}, -9, 9), out{DType::f32, {4, 8}, {}};
  x.tensor = out.tensor = true;
  Kernel k("copies");
  auto [X, Out] = k.params<TensorMap, TensorMap>("x", "out");
  k.encode(X, recipe);
  k.encode(Out, recipe);
  const SharedTile tile = k.shared<f32>({4, 8});
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    cp_async_bulk_tensor_prefetch<TensorPrefetchForm{.rank = 2}>(X, 4, 1);
    mbarrier_arrive_expect_tx(bar[0], 128);
    cp_async_bulk_tensor_load<TensorLoadForm{.rank = 2}>(tile[0].address(), X, 4, 1, bar[0]);
    barrier_wait(bar[0], 0);
    cp_async_bulk_tensor_store<TensorStoreForm{.rank = 2}>(Out, 0, 0, tile[0].address());
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
    constexpr TensorReductionForm add = {.rank = 2, .reduction = CopyReduction::add, .cache_hint = true};
    cp_reduce_async_bulk_tensor<add>(Out, 0, 0, tile[0].address(), createpolicy_evict<Eviction::last>());
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
  std::vector<double> expected;
  for (size_t row = 0; row < 4; ++row)
    for (size_t col = 0; col < 8; ++col) expected.push_back(2 * x.values[(row + 1) * 12 + col + 4]);
  check_equal(result_of(std::move(k), {x}, out), expected, "copies");
}

TEST_CASE("a bulk copy that keeps the least") {
  const Matrix x = random_matrix(DType::u32, {32, 1}, 0, 1e9);
  Kernel k("least");
  k.threads(32);
  auto [px, out] = k.params<gptr<u32>, gptr<u32>>("x", "out");
  sptr<u32> words = shared_words(k, 32);
  words[laneid()] = px[laneid()];
  fence_proxy_async<Space::shared>();
  bar_warp_sync(kAllLanes);
  constexpr BulkReductionForm least = {CopyReduction::min, DType::u32};
  cp_reduce_async_bulk<least>.when(laneid() == 0)(out, words,
                                                  128);  // `out` initially holds the largest number
  cp_async_bulk_commit_group();
  cp_async_bulk_wait_group(0);
  check_equal(result_of(std::move(k), {x}, {DType::u32, {32, 1}, {}}), x.values, "least");
}

TEST_CASE("a row of a user's own accepts generic addresses") {
  const Matrix x = random_matrix(DType::u32, {32, 1}, 0, 1000);
  Kernel k("generic");
  k.threads(32);
  auto [px, out] = k.params<gptr<u32>, gptr<u32>>("x", "out");
  sptr<u32> words = shared_words(k, 32);
  words[laneid()] = 2 * px[laneid()].value();
  bar_warp_sync(kAllLanes);
  const u64 at = u64(31 - laneid()) * 4;
  out[laneid()] = somebody::ld_u32(generic_address(gmem(px)) + at) +
                  somebody::ld_u32(somebody::cvta_shared(u64(u32(smem(words)))) + at);
  std::vector<double> expected;
  for (size_t i = 0; i < 32; ++i) expected.push_back(3 * x.values[31 - i]);
  check_equal(result_of(std::move(k), {x}, {DType::u32, {32, 1}, {}}), expected, "generic");
}

}  // namespace ptxbuilder::test::family_call_test
