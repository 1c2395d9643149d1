// Compares tensor copies of 1 to 5 dimensions with a loop over the elements.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_tensor_test {
namespace {

// Returns a kernel that loads a box at the coordinates in its parameters, and writes shared memory unchanged
// to global memory. It then stores or reduces the box at other coordinates through a second map.
std::string kernel(int rank, uint32_t bytes, const char* reduction) {
  std::string at, to, loads;
  for (int d = 0; d < rank; ++d) {
    at += fmt::format("{}%r{}", d ? ", " : "", 10 + d);
    to += fmt::format("{}%r{}", d ? ", " : "", 20 + d);
    loads += fmt::format("ld.param.b32 %r{}, [at+{}]; ld.param.b32 %r{}, [to+{}];\n", 10 + d, 4 * d, 20 + d,
                         4 * d);
  }
  std::string store =
      reduction ? fmt::format("cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.tile.bulk_group", rank,
                              reduction)
                : fmt::format("cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group", rank);
  return fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128], .param .align 4 .b8 at[20], .param .align 4 .b8 to[20], .param .u64 dump) {{
.shared .align 8 .b8 bar[8];
.reg .b32 %r<30>; .reg .b64 %rd<8>; .reg .pred %p<3>;
mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, smem; mov.b64 %rd0, in; cvta.param.u64 %rd0, %rd0; mov.b64 %rd1, out; cvta.param.u64 %rd1, %rd1;
{}setp.ne.u32 %p0, %r0, 0;
@%p0 bra A;
mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};
cp.async.bulk.prefetch.tensor.{}d.L2.global.tile [%rd0, {{{}}}];
cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd0, {{{}}}], [%r1];
A: bar.sync 0;
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;
@%p0 bra B;
{} [%rd1, {{{}}}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
B: ld.param.u64 %rd2, [dump]; mul.lo.u32 %r3, %r0, 4;
C: setp.ge.u32 %p2, %r3, {}; @%p2 bra D; add.u32 %r4, %r2, %r3; ld.shared.b32 %r5, [%r4]; cvt.u64.u32 %rd3, %r3; add.s64 %rd3, %rd2, %rd3; st.global.b32 [%rd3], %r5; add.u32 %r3, %r3, 128; bra C;
D: ret;
}})",
                     loads, bytes, rank, at, rank, at, store, to, bytes);
}

struct Case {
  int rank;
  std::vector<uint64_t> shape;
  std::vector<uint32_t> box, element_strides;
  std::vector<int32_t> at, to;
  Swizzle swizzle;
  OobFill fill;
};

struct Coordinates {
  int32_t c[5] = {};
};

// Calls f(linear index in the box, coordinates, inside) for every element of a box.
template <class F>
void walk(const Case& c, const std::vector<int32_t>& at, F f) {
  std::vector<uint32_t> extent(c.box.size()), i(c.box.size());
  for (size_t d = 0; d < c.box.size(); ++d)
    extent[d] = (c.box[d] + c.element_strides[d] - 1) / c.element_strides[d];
  for (uint32_t linear = 0;; ++linear) {
    std::vector<int64_t> x(c.box.size());
    bool inside = true;
    for (size_t d = 0; d < x.size(); ++d) {
      x[d] = at[d] + static_cast<int64_t>(i[d] * c.element_strides[d]);
      inside &= x[d] >= 0 && x[d] < static_cast<int64_t>(c.shape[d]);
    }
    f(linear, x, inside);
    size_t d = 0;
    while (d < x.size() && ++i[d] == extent[d]) i[d++] = 0;
    if (d == x.size()) return;
  }
}

size_t index_of(const Case& c, const std::vector<int64_t>& x) {
  size_t index = 0;
  for (size_t d = c.shape.size(); d-- > 0;) index = index * c.shape[d] + static_cast<size_t>(x[d]);
  return index;
}

void run_case(const Case& c, const char* reduction, uint64_t seed) {
  size_t elements = 1, boxed = 1;
  for (uint64_t s : c.shape) elements *= s;
  for (size_t d = 0; d < c.box.size(); ++d)
    boxed *= (c.box[d] + c.element_strides[d] - 1) / c.element_strides[d];
  std::vector<float> in(elements), out(elements, 100.0f);
  for (size_t i = 0; i < elements; ++i) in[i] = static_cast<float>(i + 1);
  EmulatorOptions options;
  options.seed = seed;
  const auto bytes = static_cast<uint32_t>(boxed * 4);
  Bench bench(kernel(c.rank, bytes, reduction), 32, options);
  Address di = bench.upload(in), dout = bench.upload(out), dump = bench.upload(std::vector<float>(boxed));
  auto encode = [&](Address address) {
    TensorMapArguments a;
    a.recipe.dtype = DType::f32;
    a.recipe.box = c.box;
    a.recipe.element_strides = c.element_strides;
    a.recipe.swizzle = c.swizzle;
    a.recipe.oob_fill = c.fill;
    a.address = address;
    a.shape = c.shape;
    uint64_t stride = 4;
    for (size_t d = 0; d + 1 < c.shape.size(); ++d) a.strides.push_back(stride *= c.shape[d]);
    return bench.device().encode(a);
  };
  Coordinates at, to;
  std::copy(c.at.begin(), c.at.end(), at.c);
  std::copy(c.to.begin(), c.to.end(), to.c);
  bench.run({1, 1, 1}, bytes, encode(di), encode(dout), at, to, dump);
  auto shared = bench.download<float>(dump, boxed), stored = bench.download<float>(dout, elements);
  int wrong = 0;
  std::vector<float> boxed_values(boxed);
  walk(c, c.at, [&](uint32_t linear, const std::vector<int64_t>& x, bool inside) {
    // Shared memory starts at a multiple of 1024, so that the offset determines the row of the pattern.
    uint32_t offset = linear * 4, unit = offset / 16, row = offset / 128 % 8;
    const uint32_t mask[] = {0, 1, 3, 7};
    unit ^= row & mask[static_cast<int>(c.swizzle)];
    const float value = shared[(unit * 16 + offset % 16) / 4], expected = inside ? in[index_of(c, x)] : 0.0f;
    boxed_values[linear] = expected;
    wrong +=
        c.fill == OobFill::nan && !inside ? std::bit_cast<uint32_t>(value) != 0x7ff77ff7 : value != expected;
  });
  CHECK(wrong == 0);
  std::vector<float> expected = out;
  walk(c, c.to, [&](uint32_t linear, const std::vector<int64_t>& x, bool inside) {
    if (inside) expected[index_of(c, x)] = (reduction ? 100.0f : 0.0f) + boxed_values[linear];
  });
  if (c.fill == OobFill::zero) CHECK(stored == expected);
}

TEST_CASE("emulator: tensor copies of every rank, inside and outside") {
  const std::vector<Case> cases = {
      {1, {100}, {64}, {1}, {12}, {8}, Swizzle::none, OobFill::zero},
      {1, {100}, {64}, {1}, {80}, {60}, Swizzle::none, OobFill::nan},
      {2, {64, 40}, {32, 16}, {1, 1}, {8, 5}, {16, 30}, Swizzle::b128, OobFill::zero},
      {2, {64, 40}, {32, 16}, {1, 1}, {-4, -3}, {48, 30}, Swizzle::b128, OobFill::zero},
      {2, {64, 40}, {16, 32}, {1, 1}, {56, 20}, {0, 0}, Swizzle::b64, OobFill::nan},
      {2, {64, 40}, {8, 32}, {1, 1}, {-4, 20}, {60, 36}, Swizzle::b32, OobFill::zero},
      {2, {64, 40}, {16, 9}, {1, 2}, {4, 3}, {8, 1}, Swizzle::none, OobFill::zero},
      {3, {16, 7, 9}, {8, 4, 4}, {1, 1, 1}, {4, -1, 7}, {12, 5, 7}, Swizzle::none, OobFill::zero},
      {4,
       {16, 5, 4, 6},
       {16, 2, 3, 2},
       {1, 1, 1, 1},
       {0, 4, 2, 5},
       {8, 4, 1, 4},
       Swizzle::b64,
       OobFill::zero},
      {5,
       {8, 3, 4, 3, 5},
       {8, 2, 2, 2, 2},
       {1, 1, 1, 1, 1},
       {0, 2, 3, 1, 4},
       {4, 2, 1, 2, 3},
       Swizzle::b32,
       OobFill::zero},
      {5,
       {8, 3, 4, 5, 5},
       {8, 2, 3, 4, 5},
       {1, 1, 2, 3, 2},
       {0, 2, 0, 1, 1},
       {0, 0, 1, 1, 0},
       Swizzle::none,
       OobFill::zero},
  };
  uint64_t seed = 0;
  for (const Case& c : cases)
    for (const char* reduction : {static_cast<const char*>(nullptr), "add"}) {
      CAPTURE(c.rank);
      CAPTURE(seed);
      run_case(c, reduction, seed++);
    }
}

TEST_CASE("emulator: a copy outside of the tensor map's allocation, or of the wrong rank, is reported") {
  Case c{2, {64, 40}, {32, 16}, {1, 1}, {0, 0}, {0, 0}, Swizzle::none, OobFill::zero};
  std::string text = kernel(2, 2048, nullptr);
  auto run = [&](const std::string& ptx, bool truncate) {
    Bench bench(ptx, 32);
    Address in = bench.device().allocate(64 * 40 * 4), dump = bench.device().allocate(2048);
    bench.device().fill(in, 0, 64 * 40 * 4);
    TensorMap map = bench.map_2d(in, DType::f32, 40, 64, 16, 32, Swizzle::none), out = map;
    if (truncate) {
      bench.device().release(in);
    }
    bench.run({1, 1, 1}, 4096, map, out, Coordinates{}, Coordinates{}, dump);
  };
  CHECK(!fault_of([&] { run(text, false); }));
  CHECK(fault_of([&] { run(text, true); }) == Fault::out_of_bounds);
  CHECK(fault_of([&] { run(kernel(3, 2048, nullptr), false); }) == Fault::operand);
  std::string bent = text;
  bent.replace(bent.find("[%r2], [%rd0"), 5, "[%r2+64]");
  CHECK(fault_of([&] { run(bent, false); }) == Fault::misaligned);
}

// An H100 stops at these copies with an illegal instruction, which the manual does not mention.
TEST_CASE("emulator: a box that begins at no multiple of 16 B, or is stored in front of the tensor") {
  auto fault = [](int32_t at, int32_t to, int32_t to_row = 0) {
    const Case c{2, {64, 40}, {32, 16}, {1, 1}, {at, -1}, {to, to_row}, Swizzle::none, OobFill::zero};
    return fault_of([&] { run_case(c, nullptr, 1); });
  };
  CHECK(!fault(4, 8));
  CHECK(fault(5, 8) == Fault::misaligned);
  CHECK(fault(-2, 8) == Fault::misaligned);
  CHECK(fault(4, 9) == Fault::misaligned);
  CHECK(!fault(-4, 0));
  CHECK(fault(4, -4) == Fault::operand);
  CHECK(fault(4, 0, -1) == Fault::operand);
}

// Each CTA of a cluster of two loads one half of a tile into both CTAs, and both CTAs wait for the whole
// tile.
TEST_CASE("emulator: multicast fills every CTA of the mask") {
  const std::string text = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 in[128], .param .u64 out) .reqnctapercluster 2, 1, 1 {
.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 bar[8];
.reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .pred %p<3>; .reg .b16 %h<2>;
mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, tile; mov.b64 %rd0, in; cvta.param.u64 %rd0, %rd0; mov.u32 %r3, %cluster_ctarank;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra A;
mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;
A: barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
@%p0 bra W;
shl.b32 %r4, %r3, 11; add.u32 %r5, %r2, %r4; shl.b32 %r6, %r3, 4; mov.b16 %h0, 3; mov.b32 %r7, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%rd0, {%r7, %r6}], [%r1], %h0;
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;
ld.param.u64 %rd1, [out]; mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd2, %r8, 4096; add.s64 %rd1, %rd1, %rd2; shl.b32 %r4, %r0, 2;
C: setp.ge.u32 %p2, %r4, 4096; @%p2 bra D; add.u32 %r5, %r2, %r4; ld.shared.b32 %r6, [%r5]; cvt.u64.u32 %rd2, %r4; add.s64 %rd3, %rd1, %rd2; st.global.b32 [%rd3], %r6; add.u32 %r4, %r4, 128; bra C;
D: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
})";
  std::vector<float> in(32 * 32);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  auto run = [&](const std::string& ptx, uint64_t seed) {
    EmulatorOptions options;
    options.seed = seed;
    Bench bench(ptx, 32, options);
    Address di = bench.upload(in), out = bench.upload(std::vector<float>(4 * in.size()));
    bench.run({4, 1, 1}, 0, bench.map_2d(di, DType::f32, 32, 32, 16, 32, Swizzle::none), out);
    return bench.download<float>(out, 4 * in.size());
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string what;
    std::vector<float> out;
    CHECK_MESSAGE(!fault_of([&] { out = run(text, seed); }, &what), what);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i] != in[i % in.size()]) FAIL_CHECK("element " << i);
  }
  auto without = [&](const std::string& part, const std::string& instead) {
    std::string mutant = text;
    mutant.replace(mutant.find(part), part.size(), instead);
    std::optional<Fault> fault;
    for (uint64_t seed = 0; seed < 20 && !fault; ++seed) fault = fault_of([&] { run(mutant, seed); });
    return fault;
  };
  CHECK(without("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;", "bar.sync 0;") !=
        std::nullopt);  // the peer may not be ready
  CHECK(without("fence.mbarrier_init.release.cluster;", "") == Fault::mbarrier_init);
  const auto half = without("[%r1], 4096;", "[%r1], 2048;");
  const bool named = half == Fault::tx_count || half == Fault::race || half == Fault::uninitialised;
  CHECK(named);
  CHECK(without("mov.b16 %h0, 3;", "mov.b16 %h0, 7;") == Fault::operand);
  CHECK(without("mov.b16 %h0, 3;", "mov.b16 %h0, 1;") == Fault::tx_count);
}

// Returns a kernel that loads pixels with 4 channels from images of 5 by 4 with 8 channels, and writes shared
// memory to global memory. It then stores the pixels through a map of another tensor.
const std::string pixels = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128], .param .u64 dump, .param .u32 w, .param .u32 h, .param .u32 n) {
.shared .align 128 .b8 tile[480]; .shared .align 8 .b8 bar[8];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<3>; .reg .b16 %h<2>;
mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, tile; mov.b64 %rd0, in; cvta.param.u64 %rd0, %rd0; mov.b64 %rd1, out; cvta.param.u64 %rd1, %rd1;
ld.param.u32 %r5, [w]; ld.param.u32 %r6, [h]; ld.param.u32 %r7, [n]; mov.b16 %h0, 2; mov.b16 %h1, 1; mov.b32 %r8, 4;
mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 480;
cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%rd0, {%r8, %r5, %r6, %r7}], {%h0, %h1};
cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r8, %r5, %r6, %r7}], [%r1], {%h0, %h1};
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;
mov.b32 %r9, 0;
cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {%r9, %r9, %r9, %r9}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
ld.param.u64 %rd2, [dump]; mov.u32 %r3, 0;
C: add.u32 %r4, %r2, %r3; ld.shared.b32 %r5, [%r4]; cvt.u64.u32 %rd3, %r3; add.s64 %rd3, %rd2, %rd3; st.global.b32 [%rd3], %r5;
add.u32 %r3, %r3, 4; setp.lt.u32 %p2, %r3, 480; @%p2 bra C;
ret;
})";

TEST_CASE("emulator: im2col copies walk pixels within their corners, and read so far off") {
  constexpr int channels = 8, width = 5, height = 4, images = 2, count = 30;
  std::vector<float> in(channels * width * height * images);
  std::iota(in.begin(), in.end(), 1.0f);
  struct Walk {
    int stride, w, h, n;
  };
  auto run = [&](const std::string& text, const Walk& walk, const Im2col& im2col, uint32_t many = 30) {
    Bench bench(text, 1);
    const Address from = bench.upload(in), to = bench.upload(std::vector<float>(4 * 5 * 4 * 2)),
                  dump = bench.upload(std::vector<float>(4 * count));
    TensorMapArguments a;
    a.recipe.box = {4, 1, 1, 1};
    a.recipe.element_strides = {1, static_cast<uint32_t>(walk.stride), static_cast<uint32_t>(walk.stride), 1};
    a.address = from;
    a.shape = {channels, width, height, images};
    a.strides = {4 * channels, 4 * channels * width, 4 * channels * width * height};
    a.recipe.pixels = many;
    a.im2col = im2col;
    const TensorMap source = bench.device().encode(a);
    a.recipe.element_strides = {1, 1, 1, 1};
    a.address = to;
    a.shape = {4, width, height, images};
    a.strides = {16, 16 * width, 16 * width * height};
    a.recipe.pixels = count;
    a.im2col = {{0, 0}, {0, 0}};
    const TensorMap target = bench.device().encode(a);
    bench.run({1, 1, 1}, 0, source, target, dump, walk.w, walk.h, walk.n);
    return std::pair{bench.download<float>(dump, 4 * count), bench.download<float>(to, 4 * 5 * 4 * 2)};
  };
  for (const Walk& walk : {Walk{1, -1, -1, 0}, Walk{1, 2, 1, 0}, Walk{2, -1, 1, 0}, Walk{1, 0, 2, 1}}) {
    const auto [got, stored] = run(pixels, walk, {{-1, -1}, {-1, -1}});
    // Pixels range from -1 to the last but one, 5 by 4 in each image. With a stride of 2, every second pixel
    // counts.
    const int columns = (width + walk.stride - 1) / walk.stride,
              rows = (height + walk.stride - 1) / walk.stride;
    const int first = (walk.n * rows + (walk.h + 1) / walk.stride) * columns + (walk.w + 1) / walk.stride;
    int wrong = 0;
    for (int p = 0; p < count; ++p)
      for (int c = 0; c < 4; ++c) {
        const int at = first + p, w = at % columns * walk.stride - 1 + 2,
                  h = at / columns % rows * walk.stride - 1 + 1, n = at / columns / rows;
        const bool inside = w >= 0 && w < width && h >= 0 && h < height && n < images;
        const float right =
            inside ? in[static_cast<size_t>(((n * height + h) * width + w) * channels + 4 + c)] : 0.0f;
        wrong += got[static_cast<size_t>(4 * p + c)] != right;
        wrong += stored[static_cast<size_t>(4 * p + c)] != right;  // 30 of the 40 pixels, in order
      }
    CHECK(wrong == 0);
  }
  std::string what;
  auto fault = [&](const std::string& from, const std::string& to) {
    std::string text = pixels;
    text.replace(text.find(from), from.size(), to);
    return fault_of([&] { run(text, {1, 0, 0, 0}, {{-1, -1}, {-1, -1}}); }, &what);
  };
  CHECK(fault("global.im2col.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r8, %r5, %r6, %r7}], [%r1], {%h0, "
              "%h1};",
              "global.tile.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r8, %r5, %r6, %r7}], [%r1];") ==
        Fault::operand);
  CHECK(what.find("the tensor map has mode im2col, but the copy has mode tile") != std::string::npos);
  CHECK(fault("[%r1], {%h0, %h1};", "[%r1], {%h0};") == Fault::unsupported);
  for (const auto& [im2col, many, text] :
       {std::tuple{
            Im2col{{-1}, {-1, -1}}, count,
            "the corners have 1 and 2 dimensions and the steps 0, but an im2col map of rank 4 needs 2"},
        std::tuple{Im2col{{-1, -1}, {-1, -1}}, 1025,
                   "1025 pixels were requested, but the number must be 1 to 1024"},
        std::tuple{Im2col{{-1, -1}, {-1, -1}}, 0,
                   "the map is for boxes, but a tensor with corners was given"},
        std::tuple{Im2col{{-1, -1}, {-1, -1}, {1, 9}}, count, "the step is 9 pixels along dimension 2"},
        std::tuple{Im2col{{-129, -1}, {-1, -1}}, count,
                   "a corner is -129, but must be -128 to 127 for rank 4"},
        std::tuple{Im2col{{5, -1}, {0, -1}}, count,
                   "the corners 5 and 0 leave no pixel of 5 along dimension 1"}}) {
    std::string error;
    try {
      run(pixels, {1, 0, 0, 0}, im2col, static_cast<uint32_t>(many));
    } catch (const Error& e) {
      error = e.what();
    }
    CHECK_MESSAGE(error.find(text) != std::string::npos, error);
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_tensor_test
