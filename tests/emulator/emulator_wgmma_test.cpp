// Compares wgmma, mma, ldmatrix and stmatrix with the host's products, with operands in the layouts of the
// PTX ISA.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_wgmma_test {
namespace {

using namespace emulator;

constexpr uint32_t dynamic_at = 1024;  // address of dynamic shared memory if there is no static shared memory

struct Element {
  const char* name;
  int bytes;
  bool integer;
  bool negative;
};
constexpr Element elements[] = {{"bf16", 2, false, true}, {"f16", 2, false, true},  {"tf32", 4, false, true},
                                {"e4m3", 1, false, true}, {"e5m2", 1, false, true}, {"s8", 1, true, true},
                                {"u8", 1, true, false}};
constexpr Element single_bits = {"b1", 1, true, false};  // eight in a byte

bool is_bits(const Element& e) { return std::string_view(e.name) == "b1"; }

uint32_t code_of(const Element& e, int value) {
  const std::string_view name = e.name;
  if (e.integer) return static_cast<uint8_t>(value);
  if (name == "bf16") return to_bf16(static_cast<float>(value));
  if (name == "f16") return to_f16(static_cast<float>(value));
  if (name == "tf32") return std::bit_cast<uint32_t>(static_cast<float>(value));
  return encode(value, name == "e4m3" ? e4m3_format : e5m2_format);
}

struct Case {
  Element a, b;
  int n;
  Swizzle swizzle_a, swizzle_b;
  bool mn_a, mn_b;  // A or B is MN-major
  bool registers;   // A is in registers
  bool half;        // accumulators are f16
  int slice;        // number of the 32 bytes along K of a swizzled atom
  int scale_a, scale_b;
  bool accumulate;
};

// A Placement holds the position of element (mn, k) of an operand, as in the figures of PTX ISA, "Shared
// Memory Matrix Layout", and the matching descriptor. Atoms are 8 x span() bytes, and their 16-byte units are
// swapped according to the index of the row in the atom.
struct Placement {
  uint32_t base;
  Swizzle swizzle;
  bool mn_major;
  int size, extent, slice;

  int span() const { return swizzle == Swizzle::none ? 16 : span_bytes(swizzle); }
  uint32_t unit_of(uint32_t unit, uint32_t row) const {
    switch (swizzle) {
      case Swizzle::b128:
        return unit ^ row;
      case Swizzle::b64:
        return unit ^ row / 2;
      case Swizzle::b32:
        return unit ^ row / 4;
      default:
        return unit;
    }
  }
  uint32_t offset(int mn, int k) const {
    if (!mn_major) {
      const uint32_t row = mn % 8, group = mn / 8, byte = static_cast<uint32_t>(k * size);
      if (swizzle == Swizzle::none) return group * 128 + row * 16 + byte / 16 * leading() + byte % 16;
      const uint32_t in = byte + static_cast<uint32_t>(slice) * 32;
      return group * stride() + row * static_cast<uint32_t>(span()) + unit_of(in / 16, row) * 16 + in % 16;
    }
    const int wide = span() / 2;  // elements of an atom along MN
    const uint32_t row = k % 8, group = k / 8, atom = mn / wide, byte = static_cast<uint32_t>(mn % wide) * 2;
    const uint32_t by_atom = swizzle == Swizzle::none ? stride() : leading(),
                   by_group = swizzle == Swizzle::none ? leading() : stride();
    return atom * by_atom + group * by_group + row * static_cast<uint32_t>(span()) +
           unit_of(byte / 16, row) * 16 + byte % 16;
  }
  uint32_t leading() const {
    if (!mn_major) return static_cast<uint32_t>(extent) * 16;  // one column of 16 bytes
    return swizzle == Swizzle::none ? static_cast<uint32_t>(extent) * 16
                                    : 16u * static_cast<uint32_t>(span());  // two groups along K
  }
  uint32_t stride() const { return swizzle == Swizzle::none ? 128 : 8u * static_cast<uint32_t>(span()); }
  uint64_t descriptor() const {
    constexpr uint64_t kinds[] = {0, 3, 2, 1};
    const uint32_t start =
        dynamic_at + base + (mn_major || swizzle == Swizzle::none ? 0 : static_cast<uint32_t>(slice) * 32);
    return (start >> 4) | uint64_t{leading() >> 4} << 16 | uint64_t{stride() >> 4} << 32 |
           kinds[static_cast<int>(swizzle)] << 62;
  }
};

std::string registers(const char* prefix, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return text + "}";
}

std::string kernel(const Case& c, uint64_t a, uint64_t b, uint32_t shared_bytes, int accumulators) {
  const int k = 32 / c.a.bytes;
  const char* to = c.a.integer ? "s32" : c.half ? "f16" : "f32";
  std::string scales = c.a.integer ? "" : fmt::format(", {}, {}", c.scale_a, c.scale_b);
  std::string majors = c.a.bytes != 2 ? ""
                       : c.registers  ? fmt::format(", {}", int{c.mn_b})
                                      : fmt::format(", {}, {}", int{c.mn_a}, int{c.mn_b});
  std::string text = fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 image, .param .u64 regs, .param .u64 out) {{
.reg .b32 %r<8>; .reg .b32 a<4>; .reg .b32 acc<128>; .reg .b64 %rd<8>; .reg .pred %p<3>;
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [image]; ld.param.u64 %rd1, [regs]; ld.param.u64 %rd2, [out];
mul.lo.u32 %r1, %r0, 4;
L: cvt.u64.u32 %rd3, %r1; add.s64 %rd3, %rd0, %rd3; ld.global.b32 %r2, [%rd3]; mov.u32 %r3, smem; add.s32 %r3, %r3, %r1; st.shared.b32 [%r3], %r2;
add.s32 %r1, %r1, 512; setp.lt.u32 %p1, %r1, {}; @%p1 bra L;
fence.proxy.async.shared::cta; bar.sync 0;
mul.wide.u32 %rd3, %r0, 16; add.s64 %rd3, %rd1, %rd3; ld.global.v4.b32 {{a0, a1, a2, a3}}, [%rd3];
)",
                                 shared_bytes);
  for (int i = 0; i < accumulators; ++i)
    text += fmt::format("mov.b32 acc{}, {};\n", i,
                        c.a.integer ? "5"
                        : c.half    ? "0x42004200"
                                    : "0f40400000");  // 5; 3.0
  text +=
      fmt::format("setp.eq.u32 %p2, {}, 1;\nwgmma.fence.sync.aligned;\nmov.b64 %rd4, {}; mov.b64 %rd5, {};\n",
                  int{c.accumulate}, static_cast<int64_t>(a), static_cast<int64_t>(b));
  text +=
      fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}{} {}, {}, %rd5, %p2{}{};\n", c.n,
                  is_bits(c.a) ? 256 : k, to, c.a.name, c.b.name, is_bits(c.a) ? ".and.popc" : "",
                  registers("acc", accumulators), c.registers ? registers("a", 4) : "%rd4", scales, majors);
  text += fmt::format(
      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %rd3, %r0, {}; "
      "add.s64 %rd3, %rd2, %rd3;\n",
      4 * accumulators);
  for (int i = 0; i < accumulators; ++i) text += fmt::format("st.global.b32 [%rd3+{}], acc{};\n", 4 * i, i);
  return text + "ret;\n}\n";
}

void run_case(const Case& c, uint64_t seed) {
  CAPTURE(fmt::format("{} {} n{} swizzles {} {} mn {} {} registers {} half {} slice {}", c.a.name, c.b.name,
                      c.n, name(c.swizzle_a), name(c.swizzle_b), c.mn_a, c.mn_b, c.registers, c.half,
                      c.slice));
  const int k = 32 / c.a.bytes, accumulators = c.half ? c.n / 4 : c.n / 2;
  const Placement at_a{0, c.swizzle_a, c.mn_a, c.a.bytes, 64, c.slice},
      at_b{16384, c.swizzle_b, c.mn_b, c.b.bytes, c.n, c.slice};
  std::mt19937 engine(static_cast<uint32_t>(seed) + 11);
  std::vector<int> a(static_cast<size_t>(64 * k)), b(static_cast<size_t>(c.n * k));
  for (int& x : a) x = static_cast<int>(engine() % (is_bits(c.a) ? 256 : 9)) - (c.a.negative ? 4 : 0);
  for (int& x : b) x = static_cast<int>(engine() % (is_bits(c.b) ? 256 : 9)) - (c.b.negative ? 4 : 0);
  std::vector<uint8_t> image(65536);
  for (int i = 0; i < 64; ++i)
    for (int x = 0; x < k; ++x) {
      uint32_t code = code_of(c.a, a[static_cast<size_t>(i * k + x)]);
      std::memcpy(&image[at_a.base + at_a.offset(i, x)], &code, static_cast<size_t>(c.a.bytes));
    }
  for (int j = 0; j < c.n; ++j)
    for (int x = 0; x < k; ++x) {
      uint32_t code = code_of(c.b, b[static_cast<size_t>(j * k + x)]);
      std::memcpy(&image[at_b.base + at_b.offset(j, x)], &code, static_cast<size_t>(c.b.bytes));
    }
  // Register r of thread t holds A as in PTX ISA, "Register Fragments and Shared Memory Matrix Layouts".
  std::vector<uint32_t> fragments(128 * 4);
  for (int t = 0; t < 128; ++t)
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < 4 / c.a.bytes; ++e) {
        int row = t / 32 * 16 + t % 32 / 4 + (r % 2) * 8, column = (r / 2 * 16 + t % 4 * 4) / c.a.bytes + e;
        fragments[static_cast<size_t>(t * 4 + r)] |= code_of(c.a, a[static_cast<size_t>(row * k + column)])
                                                     << (8 * c.a.bytes * e);
      }
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(
      kernel(c, at_a.descriptor(), at_b.descriptor(), static_cast<uint32_t>(image.size()), accumulators), 128,
      options);
  Address di = bench.upload(image), df = bench.upload(fragments),
          out = bench.device().allocate(static_cast<size_t>(128 * accumulators * 4));
  bench.run({1, 1, 1}, static_cast<uint32_t>(image.size()), di, df, out);
  auto d = bench.download<uint32_t>(out, static_cast<size_t>(128 * accumulators));
  int wrong = 0;
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < c.n / 2; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
      int sum = c.accumulate ? (c.a.integer ? 5 : 3) : 0;
      for (int x = 0; x < k; ++x)
        sum += is_bits(c.a)
                   ? __builtin_popcount(static_cast<uint32_t>(a[static_cast<size_t>(row * k + x)] &
                                                              b[static_cast<size_t>(column * k + x)]))
                   : a[static_cast<size_t>(row * k + x)] * b[static_cast<size_t>(column * k + x)] *
                         c.scale_a * c.scale_b;
      // Sums of small integers are exact in every format.
      if (c.half)
        wrong += static_cast<uint16_t>(d[static_cast<size_t>(t * accumulators + i / 2)] >> (16 * (i % 2))) !=
                 to_f16(static_cast<float>(sum));
      else if (c.a.integer)
        wrong += static_cast<int>(d[static_cast<size_t>(t * accumulators + i)]) != sum;
      else
        wrong +=
            std::bit_cast<float>(d[static_cast<size_t>(t * accumulators + i)]) != static_cast<float>(sum);
    }
  CHECK(wrong == 0);
}

constexpr Swizzle swizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

TEST_CASE("emulator: wgmma of every type, swizzle and n") {
  uint64_t seed = 0;
  for (const Element& e : elements)
    for (Swizzle swizzle : swizzles)
      for (int n : {8, 24, 64, 96, 256}) {
        if (e.integer && n == 96 + 8) continue;
        const int slices = swizzle == Swizzle::none ? 1 : span_bytes(swizzle) / 32;
        run_case({e, e, n, swizzle, swizzle, false, false, false, false, static_cast<int>(seed) % slices, 1,
                  1, seed % 2 == 0},
                 seed);
        ++seed;
      }
}

TEST_CASE("emulator: wgmma of single bits") {
  uint64_t seed = 0;
  for (Swizzle swizzle : swizzles)
    for (bool registers : {false, true})
      run_case(
          {single_bits, single_bits, 32, swizzle, swizzle, false, false, registers, false, 0, 1, 1, true},
          seed++);
}

TEST_CASE("emulator: wgmma of 16-bit types in every majorness") {
  uint64_t seed = 0;
  for (bool mn_a : {false, true})
    for (bool mn_b : {false, true})
      for (Swizzle sa : swizzles)
        for (Swizzle sb : swizzles)
          for (int n : {16, 128, 256})
            run_case(
                {elements[seed % 2], elements[seed % 2], n, sa, sb, mn_a, mn_b, false, false, 0, 1, 1, true},
                seed),
                ++seed;
}

TEST_CASE("emulator: wgmma with A in registers, f16 accumulators, scales and mixed types") {
  uint64_t seed = 0;
  for (const Element& e : elements)
    for (bool mn_b : {false, true}) {
      if (mn_b && e.bytes != 2) continue;
      run_case({e, e, 64, Swizzle::none, Swizzle::b128, false, mn_b, true, false, 0, 1, 1, true}, seed++);
    }
  for (size_t e : {1, 3, 4})
    run_case({elements[e], elements[e], 64, Swizzle::b128, Swizzle::b128, false, false, false, true, 1, 1, 1,
              true},
             seed++);
  for (int sa : {1, -1})
    for (int sb : {1, -1})
      run_case({elements[0], elements[0], 32, Swizzle::b64, Swizzle::b32, false, false, false, false, 0, sa,
                sb, true},
               seed++);
  run_case(
      {elements[3], elements[4], 32, Swizzle::b64, Swizzle::b64, false, false, false, false, 1, 1, 1, true},
      seed++);
  run_case(
      {elements[5], elements[6], 32, Swizzle::b64, Swizzle::b64, false, false, false, false, 1, 1, 1, true},
      seed++);
}

// A warp multiplies 16 x k by k x 8 with mma.sync. It loads `a` with ldmatrix, and `b` with ldmatrix.trans or
// directly into registers.
TEST_CASE("emulator: ldmatrix, mma and stmatrix") {
  const std::string text = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u64 pe) {
.shared .align 128 .b8 sa[512]; .shared .align 128 .b8 sb[256]; .shared .align 128 .b8 sd[256];
.reg .b32 %r<20>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p<3>;
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [pa]; ld.param.u64 %rd1, [pb]; ld.param.u64 %rd2, [pd]; ld.param.u64 %rd7, [pe];
mul.wide.u32 %rd3, %r0, 16; add.s64 %rd4, %rd0, %rd3; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd4];
mov.u32 %r5, sa; shl.b32 %r6, %r0, 4; add.s32 %r7, %r5, %r6; st.shared.v4.b32 [%r7], {%r1, %r2, %r3, %r4};
mul.wide.u32 %rd3, %r0, 8; add.s64 %rd4, %rd1, %rd3; ld.global.v2.b32 {%r1, %r2}, [%rd4];
mov.u32 %r8, sb; shl.b32 %r6, %r0, 3; add.s32 %r7, %r8, %r6; st.shared.v2.b32 [%r7], {%r1, %r2};
bar.warp.sync 0xffffffff;
// rows of A: lanes 0-15 address rows 0-15 of the first 16 bytes, and lanes 16-31 those of the second
and.b32 %r9, %r0, 15; shl.b32 %r9, %r9, 5; shr.u32 %r10, %r0, 4; shl.b32 %r10, %r10, 4; add.s32 %r9, %r9, %r10; add.s32 %r9, %r9, %r5;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r11, %r12, %r13, %r14}, [%r9];
and.b32 %r10, %r0, 15; shl.b32 %r10, %r10, 4; add.s32 %r10, %r10, %r8;
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r15, %r16}, [%r10];
mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r11, %r12, %r13, %r14}, {%r15, %r16}, {%f0, %f1, %f2, %f3};
cvt.rn.bf16x2.f32 %r17, %f5, %f4; cvt.rn.bf16x2.f32 %r18, %f7, %f6;
mov.u32 %r19, sd; and.b32 %r10, %r0, 15; shl.b32 %r10, %r10, 4; add.s32 %r10, %r10, %r19;
stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r10], {%r17, %r18};
bar.warp.sync 0xffffffff;
shl.b32 %r6, %r0, 3; add.s32 %r7, %r19, %r6; ld.shared.v2.b32 {%r1, %r2}, [%r7];
mul.wide.u32 %rd3, %r0, 8; add.s64 %rd4, %rd2, %rd3; st.global.v2.b32 [%rd4], {%r1, %r2};
movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r11; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd7, %rd3; st.global.b32 [%rd4], %r3;
ret;
})";
  std::mt19937 engine(5);
  std::vector<uint16_t> a(16 * 16), b(16 * 8);  // row-major [m, k] and [k, n]
  for (auto& x : a) x = to_bf16(static_cast<float>(static_cast<int>(engine() % 9) - 4));
  for (auto& x : b) x = to_bf16(static_cast<float>(static_cast<int>(engine() % 9) - 4));
  Bench bench(text, 32);
  Address da = bench.upload(a), db = bench.upload(b), dd = bench.upload(std::vector<uint16_t>(128)),
          de = bench.upload(std::vector<uint16_t>(64));
  bench.run({1, 1, 1}, 0, da, db, dd, de);
  auto d = bench.download<uint16_t>(dd, 128), e = bench.download<uint16_t>(de, 64);
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 8; ++j) {
      float sum = 1;
      for (size_t k = 0; k < 16; ++k) sum += from_bf16(a[i * 16 + k]) * from_bf16(b[k * 8 + j]);
      CHECK(from_bf16(d[i * 8 + j]) == sum);
      if (i < 8) CHECK(e[j * 8 + i] == a[i * 16 + j]);
    }
}

// The inputs are small integers, whose products every type can represent.
TEST_CASE("emulator: wmma loads, multiplies and stores") {
  struct Form {
    const char *shape, *a_type, *d_type;
    uint32_t m, n, k, bytes, of_a, of_b, of_c;  // of_a, of_b and of_c count the registers of each fragment
  };
  for (const Form& f : {Form{"m16n16k16", "f16", "f32", 16, 16, 16, 2, 8, 8, 8},
                        Form{"m32n8k16", "f16", "f32", 32, 8, 16, 2, 8, 8, 8},
                        Form{"m8n32k16", "bf16", "f32", 8, 32, 16, 2, 2, 8, 8},
                        Form{"m16n16k8", "tf32", "f32", 16, 16, 8, 4, 4, 4, 8},
                        Form{"m16n16k16", "s8", "s32", 16, 16, 16, 1, 2, 2, 8},
                        Form{"m8n32k16", "u8", "s32", 8, 32, 16, 1, 1, 4, 8}})
    for (bool a_by_column : {false, true})
      for (bool b_by_column : {false, true}) {
        if (a_by_column && f.m * f.bytes % 16) continue;  // this stride is impossible
        CAPTURE(f.shape);
        CAPTURE(f.a_type);
        const bool whole = f.d_type == std::string("s32");
        auto list = [](char name, uint32_t count) {
          std::string text;
          for (uint32_t k = 0; k < count; ++k) text += fmt::format("{}%{}{}", k ? ", " : "{", name, k);
          return text + "}";
        };
        const std::string a = list('a', f.of_a), b = list('b', f.of_b), c = list('c', f.of_c);
        const std::string la = a_by_column ? "col" : "row", lb = b_by_column ? "col" : "row";
        std::string zeros;
        for (uint32_t k = 0; k < f.of_c; ++k) zeros += fmt::format("mov.b32 %c{}, 0;\n", k);
        const std::string types = f.bytes == 2 && f.a_type == std::string("f16")
                                      ? "f32.f32"
                                      : fmt::format("{}.{}.{}.{}", f.d_type, f.a_type, f.a_type, f.d_type);
        const std::string text = fmt::format(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, "
            ".param .u64 "
            "d) {{\n.reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>; .reg .b64 %r<4>;\nld.param.u64 %r0, "
            "[a]; "
            "ld.param.u64 %r1, [b]; ld.param.u64 %r2, [d];\n{}wmma.load.a.sync.aligned.{}.{}.global.{} {}, "
            "[%r0], "
            "{};\nwmma.load.b.sync.aligned.{}.{}.global.{} {}, [%r1], {};\nwmma.mma.sync.aligned.{}.{}.{}.{} "
            "{}, {}, {}, "
            "{};\nwmma.store.d.sync.aligned.row.{}.global.{} [%r2], {}, {};\nret;\n}}",
            zeros, la, f.shape, f.a_type, a, a_by_column ? f.m : f.k, lb, f.shape, f.a_type, b,
            b_by_column ? f.k : f.n, la, lb, f.shape, types, c, a, b, c, f.shape, f.d_type, c, f.n);
        const std::string type = f.a_type;
        auto encoded = [&](uint32_t rows, uint32_t columns, bool by_column, uint32_t factor) {
          std::vector<uint8_t> bytes(rows * columns * f.bytes);
          for (uint32_t r = 0; r < rows; ++r)
            for (uint32_t q = 0; q < columns; ++q) {
              const auto value = static_cast<float>((r * factor + q) % 5);
              const uint32_t bits = type == "f16"    ? emulator::to_f16(value)
                                    : type == "bf16" ? emulator::to_bf16(value)
                                    : type == "tf32" ? std::bit_cast<uint32_t>(value)
                                                     : static_cast<uint32_t>(value);
              std::memcpy(&bytes[(by_column ? q * rows + r : r * columns + q) * f.bytes], &bits, f.bytes);
            }
          return bytes;
        };
        Bench bench(text, 32);
        const Address pa = bench.upload(encoded(f.m, f.k, a_by_column, 3)),
                      pb = bench.upload(encoded(f.k, f.n, b_by_column, 7)),
                      pd = bench.upload(std::vector<uint32_t>(f.m * f.n));
        bench.run({1, 1, 1}, 0, pa, pb, pd);
        const auto got = bench.download<uint32_t>(pd, f.m * f.n);
        for (uint32_t i = 0; i < f.m; ++i)
          for (uint32_t j = 0; j < f.n; ++j) {
            uint32_t sum = 0;
            for (uint32_t l = 0; l < f.k; ++l) sum += (i * 3 + l) % 5 * ((l * 7 + j) % 5);
            CHECK(got[i * f.n + j] == (whole ? sum : std::bit_cast<uint32_t>(static_cast<float>(sum))));
          }
      }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_wgmma_test
