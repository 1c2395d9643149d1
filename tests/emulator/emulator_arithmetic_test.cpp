// Compares single instructions with the host's results: integer and floating-point arithmetic, conversions,
// and shuffles.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xmmintrin.h>

#include <cfenv>
#include <functional>
#include <limits>
#include <numeric>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_arithmetic_test {
namespace {

using namespace emulator;

// Runs `instructions` on 64-bit inputs a, b, c of 32 lanes. The inputs are in %rd1-3, and also as 32 bits in
// %r1-3, 16 bits in %h1-3, floats in %f1-3 and doubles in %d1-3. `result` names the result: %rd0, %r0, %h0,
// %f0, %d0 or %p0.
std::vector<uint64_t> evaluate(const std::string& instructions, const std::string& result,
                               const std::vector<uint64_t>& inputs) {
  const std::string take = result == "%r0"   ? "cvt.u64.u32 %rd0, %r0;"
                           : result == "%h0" ? "cvt.u64.u16 %rd0, %h0;"
                           : result == "%f0" ? "mov.b32 %r0, %f0; cvt.u64.u32 %rd0, %r0;"
                           : result == "%d0" ? "mov.b64 %rd0, %d0;"
                           : result == "%p0" ? "selp.b64 %rd0, 1, 0, %p0;"
                                             : "";
  std::string text = fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b64 %rd<12>; .reg .b32 %r<12>; .reg .b16 %h<12>; .reg .f32 %f<8>; .reg .f64 %d<8>; .reg .pred %p<4>;
ld.param.u64 %rd8, [in]; ld.param.u64 %rd9, [out]; mov.u32 %r8, %tid.x; mul.wide.u32 %rd10, %r8, 24; add.s64 %rd8, %rd8, %rd10;
mul.wide.u32 %rd10, %r8, 8; add.s64 %rd9, %rd9, %rd10;
ld.global.b64 %rd1, [%rd8]; ld.global.b64 %rd2, [%rd8+8]; ld.global.b64 %rd3, [%rd8+16];
cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3; cvt.u16.u64 %h1, %rd1; cvt.u16.u64 %h2, %rd2; cvt.u16.u64 %h3, %rd3;
mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3; mov.b64 %d1, %rd1; mov.b64 %d2, %rd2; mov.b64 %d3, %rd3;
{}
{}
st.global.b64 [%rd9], %rd0;
ret;
}})",
                                 instructions, take);
  Bench bench(text, 32);
  Address in = bench.upload(inputs), out = bench.upload(std::vector<uint64_t>(32));
  bench.run({1, 1, 1}, 0, in, out);
  return bench.download<uint64_t>(out, 32);
}

using Lane = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

void check(const std::string& instructions, const std::string& result, const std::vector<uint64_t>& inputs,
           const Lane& expected) {
  CAPTURE(instructions);
  auto got = evaluate(instructions, result, inputs);
  for (size_t i = 0; i < 32; ++i) {
    const uint64_t a = inputs[3 * i], b = inputs[3 * i + 1], c = inputs[3 * i + 2], want = expected(a, b, c);
    if (got[i] != want) {
      FAIL_CHECK(fmt::format("{}: of {:#x}, {:#x}, {:#x} it is {:#x}, not {:#x}", instructions, a, b, c,
                             got[i], want));
      return;
    }
  }
}

std::vector<uint64_t> integers(uint32_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<uint64_t> v(96);
  const uint64_t edges[] = {0,      1,  ~0ull, 1ull << 63, 1ull << 31, 0x7fffffff,        0x7fffffffffffffff,
                            0x8000, 31, 32,    33,         64,         0xffffffff80000000};
  for (auto& x : v) x = engine() % 3 ? engine() >> (engine() % 60) : edges[engine() % std::size(edges)];
  return v;
}

std::vector<uint64_t> floats(uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  // The inputs include ties of f16 (2049) and e5m2 (1.125). At these values, the last places of the two types
  // are 2 and 0.25.
  const float edges[] = {0.0f,
                         -0.0f,
                         1.0f,
                         -1.5f,
                         1e-40f,
                         -1e-42f,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         NAN,
                         3.4e38f,
                         65504.0f,
                         65520.0f,
                         2049.0f,
                         2051.0f,
                         1.125f,
                         1.375f,
                         1.1875f,
                         -2053.0f,
                         2147483648.0f,
                         0.5f,
                         2.5f,
                         -3.5f};
  std::vector<uint64_t> v(96);
  for (auto& x : v)
    x = std::bit_cast<uint32_t>(engine() % 3
                                    ? std::ldexp(normal(engine), static_cast<int>(engine() % 40) - 20)
                                    : edges[engine() % std::size(edges)]);
  return v;
}

std::vector<uint64_t> doubles(uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  const double edges[] = {0.0,    -0.0,    1.0, 1e-310, 1e300, std::numeric_limits<double>::infinity(),
                          9.3e18, -9.3e18, 0.5, 1.5};
  std::vector<uint64_t> v(96);
  for (auto& x : v)
    x = std::bit_cast<uint64_t>(engine() % 3
                                    ? std::ldexp(normal(engine), static_cast<int>(engine() % 80) - 40)
                                    : edges[engine() % std::size(edges)]);
  return v;
}

uint32_t u32(uint64_t x) { return static_cast<uint32_t>(x); }
int32_t s32(uint64_t x) { return static_cast<int32_t>(x); }
int64_t s64(uint64_t x) { return static_cast<int64_t>(x); }
float f32(uint64_t x) { return std::bit_cast<float>(u32(x)); }
uint64_t of(float x) { return std::isnan(x) ? 0x7fffffff : std::bit_cast<uint32_t>(x); }
double f64(uint64_t x) { return std::bit_cast<double>(x); }

TEST_CASE("a caller whose thread flushes denormals gets the same results, and keeps its mode") {
  constexpr unsigned kFlushes = 0x8040;  // FTZ and DAZ of MXCSR
  const unsigned before = _mm_getcsr();
  std::vector<uint64_t> inputs(96, 0x3c00000000000000);
  for (size_t i = 0; i < inputs.size(); i += 3) inputs[i] = 0x0200 + i;  // denormal as f16 and as f32
  _mm_setcsr(before | kFlushes);
  const std::vector<uint64_t> halves = evaluate("cvt.f32.f16 %f0, %h1;", "%f0", inputs),
                              floats = evaluate("add.f32 %f0, %f1, %f1;", "%f0", inputs);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((after & kFlushes) == kFlushes);
  for (size_t i = 0; i < 32; ++i) {
    CHECK(std::bit_cast<float>(static_cast<uint32_t>(halves[i])) ==
          std::ldexp(static_cast<float>(inputs[3 * i]), -24));
    CHECK(floats[i] == 2 * inputs[3 * i]);
  }
}

TEST_CASE("emulator: integer instructions") {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    auto v = integers(seed);
    check("add.s32 %r0, %r1, %r2;", "%r0", v, [](auto a, auto b, auto) { return u32(a) + u32(b); });
    check("sub.u64 %rd0, %rd1, %rd2;", "%rd0", v, [](auto a, auto b, auto) { return a - b; });
    check("add.sat.s32 %r0, %r1, %r2;", "%r0", v, [](auto a, auto b, auto) {
      int64_t sum = int64_t{s32(a)} + s32(b);
      return u32(static_cast<uint64_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum));
    });
    check("mul.hi.s32 %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return u32(static_cast<uint64_t>((int64_t{s32(a)} * s32(b)) >> 32)); });
    check("mul.hi.u64 %rd0, %rd1, %rd2;", "%rd0", v, [](auto a, auto b, auto) {
      return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
    });
    check("mul.wide.s32 %rd0, %r1, %r2;", "%rd0", v,
          [](auto a, auto b, auto) { return static_cast<uint64_t>(int64_t{s32(a)} * s32(b)); });
    check("mad.lo.s64 %rd0, %rd1, %rd2, %rd3;", "%rd0", v, [](auto a, auto b, auto c) { return a * b + c; });
    check("mad.wide.u16 %r0, %h1, %h2, %r3;", "%r0", v,
          [](auto a, auto b, auto c) { return u32((a & 0xffff) * (b & 0xffff) + c); });
    check("mad.hi.u32 %r0, %r1, %r2, %r3;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(((uint64_t{u32(a)} * u32(b)) >> 32) + c); });
    check("or.b32 %r2, %r2, 1; div.s32 %r0, %r1, %r2; rem.s32 %r4, %r1, %r2; xor.b32 %r0, %r0, %r4;", "%r0",
          v, [](auto a, auto b, auto) {
            int64_t x = s32(a), y = s32(b | 1);
            return u32(static_cast<uint64_t>(x / y)) ^ u32(static_cast<uint64_t>(x % y));
          });
    check("min.s32 %r0, %r1, %r2; max.u32 %r4, %r1, %r2; add.u32 %r0, %r0, %r4;", "%r0", v,
          [](auto a, auto b, auto) {
            return u32(u32(static_cast<uint32_t>(std::min(s32(a), s32(b)))) + std::max(u32(a), u32(b)));
          });
    check("shl.b32 %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return u32(b) > 31 ? 0 : u32(a) << u32(b); });
    check("shr.s64 %rd0, %rd1, %r2;", "%rd0", v,
          [](auto a, auto b, auto) { return static_cast<uint64_t>(s64(a) >> std::min(u32(b), 63u)); });
    check("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", "%r0", v,
          [](auto a, auto b, auto c) { return u32((((b << 32) | u32(a)) << (c & 31)) >> 32); });
    check("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(((b << 32) | u32(a)) >> std::min(u32(c), 32u)); });
    check("bfe.u32 %r0, %r1, 5, 9;", "%r0", v, [](auto a, auto, auto) { return (u32(a) >> 5) & 511; });
    check("bfe.s64 %rd0, %rd1, 40, 12;", "%rd0", v,
          [](auto a, auto, auto) { return static_cast<uint64_t>(s64(a << 12) >> 52); });
    check("bfi.b32 %r0, %r1, %r2, 8, 10;", "%r0", v,
          [](auto a, auto b, auto) { return (u32(b) & ~(1023u << 8)) | ((u32(a) & 1023) << 8); });
    check("prmt.b32 %r0, %r1, %r2, 0x5410;", "%r0", v,
          [](auto a, auto b, auto) { return (u32(a) & 0xffff) | u32(b) << 16; });
    check("prmt.b32 %r0, %r1, %r2, 0xba98;", "%r0", v, [](auto a, auto, auto) {
      uint32_t r = 0;
      for (int k = 0; k < 4; ++k) r |= (u32(a) >> (8 * k + 7) & 1 ? 255u : 0u) << (8 * k);
      return r;
    });
    check("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(a ^ b ^ c); });
    check(
        "popc.b64 %r0, %rd1; clz.b32 %r4, %r2; bfind.s32 %r5, %r3; add.u32 %r0, %r0, %r4; add.u32 %r0, %r0, "
        "%r5;",
        "%r0", v, [](auto a, auto b, auto c) {
          uint32_t x = u32(s32(c) < 0 ? ~u32(c) : u32(c));
          return u32(static_cast<uint32_t>(__builtin_popcountll(a)) +
                     (u32(b) ? static_cast<uint32_t>(__builtin_clz(u32(b))) : 32u) +
                     (x ? 31u - static_cast<uint32_t>(__builtin_clz(x)) : ~0u));
        });
    check("add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, %r3, 5;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(u32(c) + 5 + u32((uint64_t{u32(a)} + u32(b)) >> 32)); });
    check("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 5;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(u32(c) - 5 - (u32(a) < u32(b))); });
    // The carry of a difference is 1 if nothing is borrowed, for addc too.
    check("sub.cc.u32 %r4, %r1, %r2; addc.u32 %r0, %r3, 0;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(u32(c) + (u32(a) >= u32(b))); });
    check("add.cc.u32 %r4, %r1, %r2; subc.u32 %r0, %r3, 1;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(u32(c) - 2 + u32((uint64_t{u32(a)} + u32(b)) >> 32)); });
    check("sub.cc.u64 %rd4, %rd1, %rd2; subc.cc.u64 %rd4, %rd3, %rd2; subc.u64 %rd0, 0, 0;", "%rd0", v,
          [](auto a, auto b, auto c) { return a < b ? uint64_t{0} - (c <= b) : uint64_t{0} - (c < b); });
    const auto low24 = [](uint64_t x) { return (s64(x << 40)) >> 40; };
    check("mul24.lo.u32 %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return u32((a & 0xffffff) * (b & 0xffffff)); });
    check("mul24.hi.s32 %r0, %r1, %r2;", "%r0", v,
          [&](auto a, auto b, auto) { return u32(static_cast<uint64_t>((low24(a) * low24(b)) >> 16)); });
    check("mad24.lo.s32 %r0, %r1, %r2, %r3;", "%r0", v,
          [&](auto a, auto b, auto c) { return u32(static_cast<uint64_t>(low24(a) * low24(b))) + u32(c); });
    check("mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      const int64_t sum = int64_t{static_cast<int32_t>((low24(a) * low24(b)) >> 16)} + s32(c);
      return u32(static_cast<uint64_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)));
    });
    check("bmsk.clamp.b32 %r0, %r1, %r2;", "%r0", v, [](auto a, auto b, auto) {
      uint32_t mask = 0;
      for (uint64_t k = u32(a); k < std::min<uint64_t>(32, uint64_t{u32(a)} + u32(b)); ++k) mask |= 1u << k;
      return mask;
    });
    check("bmsk.wrap.b32 %r0, %r1, %r2;", "%r0", v, [](auto a, auto b, auto) {
      uint32_t mask = 0;
      for (uint64_t k = a % 32; k < std::min<uint64_t>(32, a % 32 + b % 32); ++k) mask |= 1u << k;
      return mask;
    });
    check("szext.clamp.s32 %r0, %r1, %r2;", "%r0", v, [](auto a, auto b, auto) {
      const uint32_t n = u32(b);
      return n == 0 ? 0u : n >= 32 ? u32(a) : static_cast<uint32_t>(s32(u32(a) << (32 - n)) >> (32 - n));
    });
    check("szext.wrap.u32 %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return b % 32 ? u32(a) << (32 - b % 32) >> (32 - b % 32) : 0u; });
    check("and.b32 %r4, %r2, 31; fns.b32 %r0, %r1, %r4, 2;", "%r0", v, [](auto a, auto b, auto) {
      int seen = 0;
      for (uint32_t k = b & 31; k < 32; ++k)
        if ((u32(a) >> k & 1) && ++seen == 2) return k;
      return ~0u;
    });
    check(
        "setp.lt.u32 %p1, %r1, %r3; lop3.or.b32 %r4|%p0, %r1, %r2, %r3, 0x80, %p1; selp.u32 %r0, 1, 0, %p0; "
        "add.u32 %r0, %r0, %r4;",
        "%r0", v, [](auto a, auto b, auto c) {
          return u32(a & b & c) + (u32(a & b & c) != 0 || u32(a) < u32(c) ? 1u : 0u);
        });
    check("set.gt.u32.s32 %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return s32(a) > s32(b) ? ~0u : 0u; });
    check("set.le.f32.u64 %f4, %rd1, %rd2; mov.b32 %r0, %f4;", "%r0", v,
          [](auto a, auto b, auto) { return a <= b ? 0x3f800000u : 0u; });
    // Video instructions: bytes and half-words.
    const auto byte = [](uint64_t x, int k) { return static_cast<int32_t>(x >> (8 * k) & 255); };
    const auto half = [](uint64_t x, int k) { return int32_t{static_cast<int16_t>(x >> (16 * k))}; };
    check("vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      uint32_t sum = u32(c);
      for (int k = 0; k < 4; ++k) sum += static_cast<uint32_t>(std::abs(byte(a, k) - byte(b, k)));
      return sum;
    });
    check("vadd4.u32.u32.u32.sat %r0, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto) {
      uint32_t r = 0;
      for (int k = 0; k < 4; ++k)
        r |= static_cast<uint32_t>(std::min(255, byte(a, k) + byte(b, k))) << (8 * k);
      return r;
    });
    check("vsub2.s32.s32.s32.sat %r0.h1, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      return u32(static_cast<uint32_t>(std::clamp(half(a, 1) - half(b, 1), -32768, 32767)) << 16 |
                 (u32(c) & 0xffff));
    });
    check("vmax2.s32.s32.s32 %r0, %r1.h01, %r2.h32, %r3;", "%r0", v, [&](auto a, auto b, auto) {
      return (static_cast<uint32_t>(std::max(half(a, 1), half(b, 0))) & 0xffff) |
             static_cast<uint32_t>(std::max(half(a, 0), half(b, 1))) << 16;
    });
    check("vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto) {
      uint32_t r = 0;
      for (int k = 0; k < 4; ++k) r |= static_cast<uint32_t>((byte(a, k) + byte(b, k) + 1) / 2) << (8 * k);
      return r;
    });
    check("vset4.u32.u32.lt.add %r0, %r1, %r2, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      uint32_t sum = u32(c);
      for (int k = 0; k < 4; ++k) sum += byte(a, k) < byte(b, k);
      return sum;
    });
    check("vadd.s32.s32.s32.sat %r0.b2, %r1.h0, %r2.h1, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      return (u32(c) & ~0xff0000u) |
             (static_cast<uint32_t>(std::clamp(half(a, 0) + half(b, 1), -128, 127)) & 255) << 16;
    });
    check("vmin.u32.u32.u32.max %r0, %r1.b3, %r2.b0, %r3;", "%r0", v, [&](auto a, auto b, auto c) {
      return std::max(static_cast<uint32_t>(std::min(byte(a, 3), byte(b, 0))), u32(c));
    });
    check("vshl.u32.u32.u32.wrap %r0, %r1, %r2;", "%r0", v,
          [](auto a, auto b, auto) { return u32(a) << (b & 31); });
    check("vmad.s32.s32.s32.shr7 %r0, %r1.h0, %r2.h0, -%r3;", "%r0", v, [&](auto a, auto b, auto c) {
      return u32(static_cast<uint64_t>((int64_t{half(a, 0)} * half(b, 0) - s32(c)) >> 7));
    });
    check("dp4a.s32.u32 %r0, %r1, %r2, %r3;", "%r0", v, [](auto a, auto b, auto c) {
      int32_t sum = s32(c);
      for (int k = 0; k < 4; ++k)
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) +
                                   static_cast<uint32_t>(int8_t(a >> (8 * k)) * uint8_t(b >> (8 * k))));
      return u32(static_cast<uint32_t>(sum));
    });
    check("setp.lt.s32 %p1, %r1, %r2; setp.hi.and.u32 %p0, %r1, %r3, !%p1;", "%p0", v,
          [](auto a, auto b, auto c) { return uint64_t{u32(a) > u32(c) && !(s32(a) < s32(b))}; });
    // The combined predicate is one of the results.
    check("setp.gt.u32 %p1, %r3, 31; setp.lt.and.s32 %p1|%p0, %r1, %r2, %p1;", "%p0", v,
          [](auto a, auto b, auto c) { return uint64_t{s32(a) >= s32(b) && u32(c) > 31}; });
    check("setp.eq.s32 %p1, %r1, %r2; selp.b32 %r0, %r1, %r3, %p1;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(u32(a) == u32(b) ? a : c); });
    check("slct.u32.s32 %r0, %r1, %r2, %r3;", "%r0", v,
          [](auto a, auto b, auto c) { return u32(s32(c) >= 0 ? a : b); });
    check("cvt.s16.s32 %h0, %r1; cvt.s32.s16 %r0, %h0;", "%r0", v, [](auto a, auto, auto) {
      return u32(static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(a))));
    });
    check("cvt.sat.s8.s32 %r0, %r1;", "%r0", v, [](auto a, auto, auto) {
      return u32(static_cast<uint32_t>(std::min(std::max(s32(a), -128), 127)));
    });
    check("mov.b64 {%r4, %r5}, %rd1; mov.b64 %rd0, {%r5, %r4};", "%rd0", v,
          [](auto a, auto, auto) { return a >> 32 | a << 32; });
    check("shfl.sync.bfly.b32 %r0|%p1, %r1, 0, 31, -1;", "%r0", v,
          [](auto a, auto, auto) { return uint64_t{u32(a)}; });
  }
}

// Returns the host's result in a rounding mode.
template <class F>
float rounded(int mode, F f) {
  std::fesetround(mode);
  volatile float r = f();
  std::fesetround(FE_TONEAREST);
  return r;
}

TEST_CASE("emulator: floating point instructions") {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    auto v = floats(seed);
    check("add.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) { return of(f32(a) + f32(b)); });
    check("mul.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) { return of(f32(a) * f32(b)); });
    check("fma.rn.f32 %f0, %f1, %f2, %f3;", "%f0", v,
          [](auto a, auto b, auto c) { return of(std::fma(f32(a), f32(b), f32(c))); });
    check("div.rn.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) { return of(f32(a) / f32(b)); });
    check("sqrt.rn.f32 %f0, %f1;", "%f0", v, [](auto a, auto, auto) { return of(std::sqrt(f32(a))); });
    check("add.rz.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      return of(rounded(FE_TOWARDZERO, [=] {
        volatile float x = f32(a), y = f32(b);
        return x + y;
      }));
    });
    check("mul.rp.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      return of(rounded(FE_UPWARD, [=] {
        volatile float x = f32(a), y = f32(b);
        return x * y;
      }));
    });
    check("sub.sat.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      float r = f32(a) - f32(b);
      return of(std::isnan(r) ? 0.0f : r < 0 ? 0.0f : r > 1 ? 1.0f : r + 0.0f);
    });
    check("add.ftz.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
      return of(flush(flush(f32(a)) + flush(f32(b))));
    });
    check("min.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      float x = f32(a), y = f32(b);
      if (std::isnan(x) || std::isnan(y)) return of(std::isnan(x) ? y : x);
      return of(x == y ? (std::signbit(x) ? x : y) : std::min(x, y));
    });
    check("max.NaN.f32 %f0, %f1, %f2;", "%f0", v, [](auto a, auto b, auto) {
      float x = f32(a), y = f32(b);
      if (std::isnan(x) || std::isnan(y)) return of(NAN);
      return of(x == y ? (std::signbit(x) ? y : x) : std::max(x, y));
    });
    check("setp.ltu.f32 %p0, %f1, %f2;", "%p0", v,
          [](auto a, auto b, auto) { return uint64_t{!(f32(a) >= f32(b))}; });
    check("setp.ne.f32 %p0, %f1, %f2;", "%p0", v,
          [](auto a, auto b, auto) { return uint64_t{f32(a) < f32(b) || f32(a) > f32(b)}; });
    check("cvt.rzi.s32.f32 %r0, %f1;", "%r0", v, [](auto a, auto, auto) {
      float x = f32(a);
      if (std::isnan(x)) return uint64_t{0};
      return uint64_t{u32(static_cast<uint32_t>(x >= 2147483648.0f   ? INT32_MAX
                                                : x < -2147483648.0f ? INT32_MIN
                                                                     : static_cast<int32_t>(x)))};
    });
    check("cvt.rni.f32.f32 %f0, %f1;", "%f0", v,
          [](auto a, auto, auto) { return of(std::nearbyint(f32(a))); });
    check("cvt.rmi.u32.f32 %r0, %f1;", "%r0", v, [](auto a, auto, auto) {
      float x = std::floor(f32(a));
      return uint64_t{std::isnan(x) || x <= 0 ? 0u : x >= 4294967296.0f ? ~0u : static_cast<uint32_t>(x)};
    });
    check("cvt.rn.f16.f32 %h0, %f1;", "%h0", v, [](auto a, auto, auto) {
      // Independently of numeric.h, this returns the nearest multiple of the last place, computed with
      // nearbyint.
      float x = f32(a);
      if (std::isnan(x)) return uint64_t{0x7fff};
      uint64_t sign = std::signbit(x) ? 0x8000 : 0;
      double m = std::fabs(static_cast<double>(x));
      if (m >= 65520) return sign | 0x7c00;
      int e = m < 0x1p-14 ? -14 : std::ilogb(m);
      double steps = std::nearbyint(std::ldexp(m, 10 - e));
      return sign | static_cast<uint64_t>(steps + (e + 14) * 1024.0);
    });
    check("cvt.rn.bf16x2.f32 %r0, %f1, %f2;", "%r0", v, [](auto a, auto b, auto) {
      auto brain = [](float x) {
        return std::isnan(x)
                   ? 0x7fffu
                   : (std::bit_cast<uint32_t>(x) + 0x7fff + ((std::bit_cast<uint32_t>(x) >> 16) & 1)) >> 16;
      };
      return uint64_t{brain(f32(a)) << 16 | brain(f32(b))};
    });
    check("cvt.rz.bf16.f32 %h0, %f1;", "%h0", v,
          [](auto a, auto, auto) { return uint64_t{std::isnan(f32(a)) ? 0x7fffu : u32(a) >> 16}; });
    check("cvt.rna.tf32.f32 %r0, %f1;", "%r0", v, [](auto a, auto, auto) {
      return uint64_t{std::isnan(f32(a))   ? 0x7fffe000u
                      : std::isinf(f32(a)) ? u32(a)
                                           : (u32(a) + 0x1000) & 0xffffe000u};
    });
    check("cvt.rn.satfinite.e5m2x2.f32 %h0, %f1, %f2;", "%h0", v, [](auto a, auto b, auto) {
      auto e5m2 = [](float x) {
        if (std::isnan(x)) return 0x7fu;
        uint32_t sign = std::signbit(x) ? 0x80 : 0;
        double m = std::fabs(static_cast<double>(x));
        if (m >= 57344) return sign | 0x7b;
        int e = m < 0x1p-14 ? -14 : std::ilogb(m);
        auto code = static_cast<uint32_t>(std::nearbyint(std::ldexp(m, 2 - e)) + (e + 14) * 4.0);
        return sign | std::min(code, 0x7bu);
      };
      return uint64_t{e5m2(f32(a)) << 8 | e5m2(f32(b))};
    });
    check("cvt.rn.f32.u64 %f0, %rd1;", "%f0", integers(seed),
          [](auto a, auto, auto) { return of(static_cast<float>(a)); });
    check("cvt.rn.f32.s32 %f0, %r1;", "%f0", integers(seed),
          [](auto a, auto, auto) { return of(static_cast<float>(s32(a))); });
    check("ex2.approx.f32 %f0, %f1; mov.b32 %r4, %f0; shr.u32 %r0, %r4, 4;", "%r0", floats(seed + 9),
          [](auto a, auto, auto) { return of(std::exp2(f32(a))) >> 4; });
    auto w = doubles(seed);
    check("fma.rn.f64 %d0, %d1, %d2, %d3;", "%d0", w, [](auto a, auto b, auto c) {
      double r = std::fma(f64(a), f64(b), f64(c));
      return std::isnan(r) ? std::bit_cast<uint64_t>(-std::numeric_limits<double>::quiet_NaN())
                           : std::bit_cast<uint64_t>(r);
    });
    check("cvt.rn.f32.f64 %f0, %d1;", "%f0", w,
          [](auto a, auto, auto) { return of(static_cast<float>(f64(a))); });
    check("cvt.rz.f32.f64 %f0, %d1;", "%f0", w, [](auto a, auto, auto) {
      return of(rounded(FE_TOWARDZERO, [=] {
        volatile double x = f64(a);
        return static_cast<float>(x);
      }));
    });
    check("cvt.rzi.s64.f64 %rd0, %d1;", "%rd0", w, [](auto a, auto, auto) {
      double x = f64(a);
      return static_cast<uint64_t>(x >= 0x1p63   ? INT64_MAX
                                   : x < -0x1p63 ? INT64_MIN
                                                 : static_cast<int64_t>(x));
    });
  }
}

TEST_CASE("emulator: istypep holds for no register, as there are no textures, samplers and surfaces") {
  std::vector<uint64_t> v(96);
  std::iota(v.begin(), v.end(), 0);
  for (const char* type : {"texref", "samplerref", "surfref"})
    check(fmt::format("setp.lt.u64 %p0, %rd1, 48; istypep.{} %p0, %rd1;", type), "%p0", v,
          [](uint64_t, uint64_t, uint64_t) { return 0; });
}

// An H100 treats only 0x7ff7 and 0xfff7 as outside, in a and in b, and each half separately.
TEST_CASE("emulator: fma.oob is zero where a factor is outside a tensor") {
  const uint64_t halves[] = {0x7ff7, 0xfff7, 0x7ff6, 0x7fff, 0x7ff8, 0xffff, 0x3c00, 0xbf80, 0x7c00};
  std::mt19937 engine(1);
  std::vector<uint64_t> v(96);
  for (auto& x : v) x = halves[engine() % 9] << 16 | halves[engine() % 9];
  const auto outside = [](uint64_t x) { return x == 0x7ff7 || x == 0xfff7; };
  for (const char* type : {"f16", "bf16"})
    for (const char* relu : {"", ".relu"}) {
      const std::string plain = fmt::format("fma.rn{}.{}", relu, type),
                        oob = fmt::format("fma.rn.oob{}.{}", relu, type);
      const auto low = evaluate(plain + " %h0, %h1, %h2, %h3;", "%h0", v);
      const auto both = evaluate(plain + "x2 %r0, %r1, %r2, %r3;", "%r0", v);
      const auto low_oob = evaluate(oob + " %h0, %h1, %h2, %h3;", "%h0", v);
      const auto both_oob = evaluate(oob + "x2 %r0, %r1, %r2, %r3;", "%r0", v);
      for (size_t i = 0; i < 32; ++i) {
        const uint64_t a = v[3 * i], b = v[3 * i + 1];
        const uint64_t keep_low = outside(a & 0xffff) || outside(b & 0xffff) ? 0 : 0xffff,
                       keep_high = outside(a >> 16) || outside(b >> 16) ? 0 : 0xffff0000;
        CHECK(low_oob[i] == (low[i] & keep_low));
        CHECK(both_oob[i] == (both[i] & (keep_low | keep_high)));
      }
    }
}

TEST_CASE("narrow formats: each code is what it decodes to, and ties go to even codes") {
  using emulator::decode, emulator::encode, emulator::Format, emulator::Rounding;
  for (const Format f : {emulator::f16_format, emulator::bf16_format, emulator::e5m2_format}) {
    const uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits,
                   sign = 1u << (f.exponent_bits + f.mantissa_bits);
    for (uint32_t code = 0; code < infinity; ++code) {
      const double here = static_cast<double>(decode(code, f)),
                   next = code + 1 < infinity ? static_cast<double>(decode(code + 1, f)) : INFINITY;
      REQUIRE(encode(here, f) == code);
      REQUIRE(encode(-here, f) == (code | sign));
      if (std::isinf(next)) continue;
      const double tie = (here + next) / 2, above = std::nextafter(tie, next),
                   below = std::nextafter(tie, here);
      REQUIRE(encode(tie, f) == code + code % 2);
      REQUIRE(encode(above, f) == code + 1);
      REQUIRE(encode(below, f) == code);
      REQUIRE(encode(tie, f, Rounding::rna) == code + 1);
      REQUIRE(encode(below, f, Rounding::rp) == code + 1);
      REQUIRE(encode(above, f, Rounding::rm) == code);
      REQUIRE(encode(-above, f, Rounding::rm) == (sign | (code + 1)));
      REQUIRE(encode(above, f, Rounding::rz) == code);
    }
    const auto largest = static_cast<double>(decode(infinity - 1, f));
    CHECK(encode(1.5 * largest, f) == infinity);
    CHECK(encode(1.5 * largest, f, Rounding::rn, true) == infinity - 1);
    CHECK(encode(1.5 * largest, f, Rounding::rz) == infinity - 1);
    CHECK(encode(5e-324, f) == 0);
    CHECK(encode(5e-324, f, Rounding::rp) == 1);
    CHECK(encode(-5e-324, f, Rounding::rm) == (sign | 1));
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_arithmetic_test
