// Runs small random programs of all instructions that each lane executes separately and whose results the
// manual defines exactly: integers, carries, logic, comparisons, floats, halves, conversions and video. Each
// value of a program is stored, and compared with the host's result if the host can compute the instruction.
// If --device=cuda is given, a GPU runs the programs too, and every value must equal the emulator's:
//
//   unit_tests emulator_programs_test --device=cuda --programs=2000
//   unit_tests emulator_programs_test --seed=42 --programs=1      repeats a program that failed
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cfenv>
#include <functional>
#include <set>

#include "emulator_kit.h"
#include "options.h"
#include "runtime/buffer.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::emulator_programs_test {
namespace {

using namespace runtime;

const int& programs = option("programs", 200);
const uint64_t& first_seed = option("seed", uint64_t{1});

constexpr size_t lanes = 32, steps = 24, inputs_of_a_kind = 4;
// r is 32 bits, l 64 bits, h 16 bits, f an .f32, d an .f64, and p a predicate.
constexpr std::string_view kinds = "rlhfdp";

using Host = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

struct Operation {
  std::string text;   // $0 is the result, $1 to $3 are the operands, # is a number below 256
  std::string kinds;  // kinds of the result and the operands
  Host host = {};     // empty if the host does not compute the instruction
};

uint32_t u32(uint64_t x) { return static_cast<uint32_t>(x); }
int32_t s32(uint64_t x) { return static_cast<int32_t>(x); }
int64_t s64(uint64_t x) { return static_cast<int64_t>(x); }
int16_t s16(uint64_t x) { return static_cast<int16_t>(x); }
uint64_t of32(int64_t x) { return static_cast<uint32_t>(x); }
float f32(uint64_t x) { return std::bit_cast<float>(u32(x)); }
double f64(uint64_t x) { return std::bit_cast<double>(x); }
uint64_t of(float x) { return std::isnan(x) ? 0x7fffffff : std::bit_cast<uint32_t>(x); }
uint64_t of(double x) { return std::bit_cast<uint64_t>(x); }

// Computes a floating-point operation in one of the host's rounding modes.
template <class F>
Host rounded(const std::string& mode, F f) {
  const int how = mode == "rz"   ? FE_TOWARDZERO
                  : mode == "rm" ? FE_DOWNWARD
                  : mode == "rp" ? FE_UPWARD
                                 : FE_TONEAREST;
  return [how, f](uint64_t a, uint64_t b, uint64_t c) {
    std::fesetround(how);
    const uint64_t result = f(a, b, c);
    std::fesetround(FE_TONEAREST);
    return result;
  };
}

// Hides x from the host's compiler, which must not compute in a rounding mode other than the current one.
template <class T>
T opaque(T x) {
  volatile T value = x;
  return value;
}

class Operations {
 public:
  Operations() {
    integers();
    carries();
    logic();
    comparisons();
    floats();
    halves();
    conversions();
    video();
  }
  std::vector<Operation> all;

 private:
  void add(std::string text, const char* kinds_of_it, Host host = {}) {
    all.push_back({std::move(text), kinds_of_it, std::move(host)});
  }
  // For each word, adds a template in which the word replaces @.
  void each(std::initializer_list<const char*> words, const std::string& text, const char* kinds_of_it) {
    for (const char* word : words) {
      std::string one = text;
      for (size_t at; (at = one.find('@')) != std::string::npos;) one.replace(at, 1, word);
      add(one, kinds_of_it);
    }
  }

  void integers() {
    add("add.s32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return of32(int64_t{u32(a)} + u32(b)); });
    add("sub.u32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return of32(int64_t{u32(a)} - u32(b)); });
    add("add.u64 $0, $1, $2;", "lll", [](auto a, auto b, auto) { return a + b; });
    add("sub.s64 $0, $1, $2;", "lll", [](auto a, auto b, auto) { return a - b; });
    add("add.sat.s32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) {
      return of32(std::clamp<int64_t>(int64_t{s32(a)} + s32(b), INT32_MIN, INT32_MAX));
    });
    add("sub.sat.s32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) {
      return of32(std::clamp<int64_t>(int64_t{s32(a)} - s32(b), INT32_MIN, INT32_MAX));
    });
    add("mul.lo.s32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return of32(s64(uint64_t{u32(a)} * u32(b))); });
    add("mul.hi.s32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return of32(int64_t{s32(a)} * s32(b) >> 32); });
    add("mul.hi.u32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return uint64_t{u32(a)} * u32(b) >> 32; });
    add("mul.hi.u64 $0, $1, $2;", "lll", [](auto a, auto b, auto) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
    });
    add("mul.hi.s64 $0, $1, $2;", "lll", [](auto a, auto b, auto) {
      return static_cast<uint64_t>(static_cast<__int128>(s64(a)) * s64(b) >> 64);
    });
    add("mul.wide.s32 $0, $1, $2;", "lrr",
        [](auto a, auto b, auto) { return static_cast<uint64_t>(int64_t{s32(a)} * s32(b)); });
    add("mul.wide.u32 $0, $1, $2;", "lrr", [](auto a, auto b, auto) { return uint64_t{u32(a)} * u32(b); });
    add("mul.wide.s16 $0, $1, $2;", "rhh", [](auto a, auto b, auto) { return of32(s16(a) * s16(b)); });
    add("mad.lo.u64 $0, $1, $2, $3;", "llll", [](auto a, auto b, auto c) { return a * b + c; });
    add("mad.hi.u32 $0, $1, $2, $3;", "rrrr",
        [](auto a, auto b, auto c) { return of32(s64((uint64_t{u32(a)} * u32(b) >> 32) + u32(c))); });
    add("mad.hi.sat.s32 $0, $1, $2, $3;", "rrrr", [](auto a, auto b, auto c) {
      return of32(std::clamp<int64_t>((int64_t{s32(a)} * s32(b) >> 32) + s32(c), INT32_MIN, INT32_MAX));
    });
    add("mad.wide.s32 $0, $1, $2, $3;", "lrrl",
        [](auto a, auto b, auto c) { return static_cast<uint64_t>(int64_t{s32(a)} * s32(b)) + c; });
    add("mad.lo.u16 $0, $1, $2, $3;", "hhhh", [](auto a, auto b, auto c) { return (a * b + c) & 0xffff; });
    const auto low24 = [](uint64_t x) { return int64_t{s32(x) << 8 >> 8}; };
    add("mul24.lo.s32 $0, $1, $2;", "rrr", [=](auto a, auto b, auto) { return of32(low24(a) * low24(b)); });
    add("mul24.hi.s32 $0, $1, $2;", "rrr",
        [=](auto a, auto b, auto) { return of32(low24(a) * low24(b) >> 16); });
    add("mul24.lo.u32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return of32(s64((a & 0xffffff) * (b & 0xffffff))); });
    add("mad24.lo.s32 $0, $1, $2, $3;", "rrrr",
        [=](auto a, auto b, auto c) { return of32(low24(a) * low24(b) + s32(c)); });
    each({"mul24.hi.u32"}, "@ $0, $1, $2;", "rrr");
    add("sad.s32 $0, $1, $2, $3;", "rrrr", [](auto a, auto b, auto c) {
      return of32(s64(static_cast<uint64_t>(std::abs(int64_t{s32(a)} - s32(b)))) + u32(c));
    });
    add("sad.u64 $0, $1, $2, $3;", "llll",
        [](auto a, auto b, auto c) { return (a < b ? b - a : a - b) + c; });
    add("or.b32 %t0, $2, 1; and.b32 %t0, %t0, 0x7fffffff; div.s32 $0, $1, %t0;", "rrr",
        [](auto a, auto b, auto) { return of32(s32(a) / s32((b | 1) & 0x7fffffff)); });
    add("or.b32 %t0, $2, 1; and.b32 %t0, %t0, 0x7fffffff; rem.s32 $0, $1, %t0;", "rrr",
        [](auto a, auto b, auto) { return of32(s32(a) % s32((b | 1) & 0x7fffffff)); });
    add("or.b64 %u0, $2, 1; div.u64 $0, $1, %u0;", "lll", [](auto a, auto b, auto) { return a / (b | 1); });
    add("or.b64 %u0, $2, 1; rem.u64 $0, $1, %u0;", "lll", [](auto a, auto b, auto) { return a % (b | 1); });
    add("or.b16 %v0, $2, 1; div.u16 $0, $1, %v0;", "hhh", [](auto a, auto b, auto) { return a / (b | 1); });
    add("abs.s32 $0, $1;", "rr", [](auto a, auto, auto) { return of32(std::abs(int64_t{s32(a)})); });
    add("neg.s64 $0, $1;", "ll", [](auto a, auto, auto) { return -a; });
    add("neg.s16 $0, $1;", "hh", [](auto a, auto, auto) { return -a & 0xffff; });
    add("min.s32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return of32(std::min(s32(a), s32(b))); });
    add("max.u32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return uint64_t{std::max(u32(a), u32(b))}; });
    add("min.u64 $0, $1, $2;", "lll", [](auto a, auto b, auto) { return std::min(a, b); });
    add("max.s64 $0, $1, $2;", "lll", [](auto a, auto b, auto) { return s64(a) > s64(b) ? a : b; });
    add("max.s16 $0, $1, $2;", "hhh", [](auto a, auto b, auto) { return s16(a) > s16(b) ? a : b; });
    add("min.relu.s32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return of32(std::max(0, std::min(s32(a), s32(b)))); });
    each(
        {"add.u16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2", "min.relu.s16x2", "max.relu.s16x2"},
        "@ $0, $1, $2;", "rrr");
    add("popc.b32 $0, $1;", "rr",
        [](auto a, auto, auto) { return static_cast<uint64_t>(std::popcount(u32(a))); });
    add("popc.b64 $0, $1;", "rl", [](auto a, auto, auto) { return static_cast<uint64_t>(std::popcount(a)); });
    add("clz.b32 $0, $1;", "rr",
        [](auto a, auto, auto) { return static_cast<uint64_t>(std::countl_zero(u32(a))); });
    add("clz.b64 $0, $1;", "rl",
        [](auto a, auto, auto) { return static_cast<uint64_t>(std::countl_zero(a)); });
    add("bfind.u32 $0, $1;", "rr",
        [](auto a, auto, auto) { return u32(a) ? uint64_t{31} - std::countl_zero(u32(a)) : 0xffffffff; });
    each({"bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32"}, "@ $0, $1;", "rr");
    each({"bfind.u64", "bfind.s64", "bfind.shiftamt.s64"}, "@ $0, $1;", "rl");
    each({"brev.b32"}, "@ $0, $1;", "rr");
    each({"brev.b64"}, "@ $0, $1;", "ll");
    each({"bfe.u32", "bfe.s32"}, "@ $0, $1, $2, $3;", "rrrr");
    each({"bfe.u64", "bfe.s64"}, "@ $0, $1, $2, $3;", "llrr");
    add("and.b32 %t0, $2, 63; and.b32 %t1, $3, 31; bfe.u32 $0, $1, %t0, %t1;", "rrrr",
        [](auto a, auto b, auto c) { return (a >> (b & 63)) & ((uint64_t{1} << (c & 31)) - 1); });
    add("bfi.b32 $0, $1, $2, #, #;", "rrr");
    add("bfi.b64 $0, $1, $2, #, #;", "lll");
    each({"bmsk.clamp.b32", "bmsk.wrap.b32"}, "@ $0, $1, $2;", "rrr");
    each({"szext.clamp.u32", "szext.wrap.s32", "szext.clamp.s32", "szext.wrap.u32"}, "@ $0, $1, $2;", "rrr");
    each({"dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32", "dp4a.s32.u32", "dp2a.lo.u32.u32",
          "dp2a.hi.s32.s32", "dp2a.lo.s32.u32", "dp2a.hi.u32.s32"},
         "@ $0, $1, $2, $3;", "rrrr");
    add("dp4a.s32.s32 $0, $1, $2, $3;", "rrrr", [](auto a, auto b, auto c) {
      int64_t sum = s32(c);
      for (int k = 0; k < 32; k += 8) sum += static_cast<int8_t>(a >> k) * static_cast<int8_t>(b >> k);
      return of32(sum);
    });
    add("fns.b32 $0, $1, 3, 2;", "rr");
  }

  void carries() {
    add("{ .reg .b32 a<6>; mov.b64 {a0, a1}, $1; mov.b64 {a2, a3}, $2; add.cc.u32 a0, a0, a2; addc.u32 a1, "
        "a1, a3; "
        "mov.b64 $0, {a0, a1}; }",
        "lll", [](auto a, auto b, auto) { return a + b; });
    add("{ .reg .b32 a<6>; mov.b64 {a0, a1}, $1; mov.b64 {a2, a3}, $2; sub.cc.u32 a0, a0, a2; subc.u32 a1, "
        "a1, a3; "
        "mov.b64 $0, {a0, a1}; }",
        "lll", [](auto a, auto b, auto) { return a - b; });
    add("add.cc.u32 %t0, $1, $2; addc.cc.u32 %t1, $2, $3; addc.u32 $0, 0, 0;", "rrrr",
        [](auto a, auto b, auto c) {
          const uint64_t first = (uint64_t{u32(a)} + u32(b)) >> 32;
          return (uint64_t{u32(b)} + u32(c) + first) >> 32;
        });
    add("sub.cc.u32 %t0, $1, $2; subc.cc.u32 %t1, $2, $3; subc.u32 $0, 0, 0;", "rrrr",
        [](auto a, auto b, auto c) {
          const uint64_t first = u32(a) < u32(b);
          return uint64_t{u32(b)} < u32(c) + first ? uint64_t{0xffffffff} : 0;
        });
    add("add.cc.u32 %t0, $1, $2; subc.u32 $0, $3, 0;", "rrrr");
    add("sub.cc.u32 %t0, $1, $2; addc.u32 $0, $3, 0;", "rrrr");
    add("mad.lo.cc.u32 %t0, $1, $2, $3; madc.hi.u32 $0, $1, $2, 7;", "rrrr",
        [](auto a, auto b, auto c) { return of32(s64((uint64_t{u32(a)} * u32(b) + u32(c)) >> 32) + 7); });
    add("add.cc.u64 %u0, $1, $2; addc.u64 $0, $3, 5;", "llll",
        [](auto a, auto b, auto c) { return c + 5 + (a + b < a); });
    add("mad.lo.cc.u64 %u0, $1, $2, $3; madc.hi.u64 $0, $1, $2, 0;", "llll", [](auto a, auto b, auto c) {
      return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b + c) >> 64);
    });
  }

  void logic() {
    add("and.b32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return a & b; });
    add("or.b64 $0, $1, $2;", "lll", [](auto a, auto b, auto) { return a | b; });
    add("xor.b16 $0, $1, $2;", "hhh", [](auto a, auto b, auto) { return a ^ b; });
    add("xor.pred $0, $1, $2;", "ppp", [](auto a, auto b, auto) { return a ^ b; });
    add("and.pred $0, $1, $2;", "ppp", [](auto a, auto b, auto) { return a & b; });
    add("not.b32 $0, $1;", "rr", [](auto a, auto, auto) { return of32(~s64(a)); });
    add("not.pred $0, $1;", "pp", [](auto a, auto, auto) { return a ^ 1; });
    add("cnot.b32 $0, $1;", "rr", [](auto a, auto, auto) { return uint64_t{a == 0}; });
    add("cnot.b64 $0, $1;", "ll", [](auto a, auto, auto) { return uint64_t{a == 0}; });
    for (const int table : {0x96, 0xe8, 0xca, 0x01, 0x7f, 0xb1})
      add(fmt::format("lop3.b32 $0, $1, $2, $3, {};", table), "rrrr", [table](auto a, auto b, auto c) {
        uint64_t result = 0;
        for (int k = 0; k < 32; ++k) {
          const auto which = (a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1);
          result |= static_cast<uint64_t>(table >> which & 1) << k;
        }
        return result;
      });
    add("shl.b32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return b > 31 ? 0 : of32(s64(a << b)); });
    add("shr.u32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) { return b > 31 ? 0 : a >> b; });
    add("shr.s32 $0, $1, $2;", "rrr",
        [](auto a, auto b, auto) { return of32(s32(a) >> std::min<uint64_t>(b, 31)); });
    add("shl.b64 $0, $1, $2;", "llr", [](auto a, auto b, auto) { return b > 63 ? 0 : a << b; });
    add("shr.s64 $0, $1, $2;", "llr",
        [](auto a, auto b, auto) { return static_cast<uint64_t>(s64(a) >> std::min<uint64_t>(b, 63)); });
    add("and.b32 %t0, $2, 40; shl.b32 $0, $1, %t0;", "rrr",
        [](auto a, auto b, auto) { return (b & 40) > 31 ? 0 : of32(s64(a << (b & 40))); });
    add("and.b32 %t0, $2, 31; shr.u16 $0, $1, %t0;", "hhr",
        [](auto a, auto b, auto) { return a >> (b & 31); });
    add("and.b32 %t0, $2, 31; shr.s16 $0, $1, %t0;", "hhr",
        [](auto a, auto b, auto) { return static_cast<uint64_t>(s16(a) >> (b & 31)) & 0xffff; });
    add("shf.l.wrap.b32 $0, $1, $2, $3;", "rrrr",
        [](auto a, auto b, auto c) { return of32(s64((b << 32 | a) << (c & 31) >> 32)); });
    add("shf.r.clamp.b32 $0, $1, $2, $3;", "rrrr",
        [](auto a, auto b, auto c) { return of32(s64((b << 32 | a) >> std::min<uint64_t>(c, 32))); });
    each({"shf.l.clamp.b32", "shf.r.wrap.b32"}, "@ $0, $1, $2, $3;", "rrrr");
    each({"prmt.b32", "prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl", "prmt.b32.ecr",
          "prmt.b32.rc16"},
         "@ $0, $1, $2, $3;", "rrrr");
    add("mov.b64 {%t0, %t1}, $1; mov.b64 $0, {%t1, %t0};", "ll",
        [](auto a, auto, auto) { return a >> 32 | a << 32; });
    add("mov.b32 {%v0, %v1}, $1; mov.b32 $0, {%v1, %v0};", "rr",
        [](auto a, auto, auto) { return of32(s64(a >> 16 | a << 16)); });
    add("mov.b32 $0, $1;", "rf", [](auto a, auto, auto) { return a; });
    add("mov.b64 $0, $1;", "ld", [](auto a, auto, auto) { return a; });
  }

  template <class F>
  void compare(const char* name, F holds) {
    auto of_floats = [=](auto a, auto b) { return uint64_t{holds(f32(a), f32(b))}; };
    add(fmt::format("setp.{}.s32 $0, $1, $2;", name), "prr",
        [=](auto a, auto b, auto) { return uint64_t{holds(s32(a), s32(b))}; });
    add(fmt::format("setp.{}.u64 $0, $1, $2;", name), "pll",
        [=](auto a, auto b, auto) { return uint64_t{holds(a, b)}; });
    add(fmt::format("setp.{}.s16 $0, $1, $2;", name), "phh",
        [=](auto a, auto b, auto) { return uint64_t{holds(s16(a), s16(b))}; });
    add(fmt::format("setp.{}.f32 $0, $1, $2;", name), "pff",
        [=](auto a, auto b, auto) { return std::isnan(f32(a)) || std::isnan(f32(b)) ? 0 : of_floats(a, b); });
    add(fmt::format("setp.{}u.f32 $0, $1, $2;", name), "pff",
        [=](auto a, auto b, auto) { return std::isnan(f32(a)) || std::isnan(f32(b)) ? 1 : of_floats(a, b); });
    add(fmt::format("set.{}.u32.f64 $0, $1, $2;", name), "rdd", [=](auto a, auto b, auto) {
      return !std::isnan(f64(a)) && !std::isnan(f64(b)) && holds(f64(a), f64(b)) ? uint64_t{0xffffffff} : 0;
    });
    add(fmt::format("set.{}.f32.s32 $0, $1, $2;", name), "frr",
        [=](auto a, auto b, auto) { return of(holds(s32(a), s32(b)) ? 1.0f : 0.0f); });
    add(fmt::format("setp.{}.and.f32 $0, $1, $2, $3;", name), "pffp");
    add(fmt::format("setp.{}.xor.u32 $0|%q, $1, $2, !$3;", name), "prrp");
    add(fmt::format("setp.{}.f16 $0, $1, $2;", name), "phh");
    add(fmt::format("setp.{}.ftz.f32 $0, $1, $2;", name), "pff");
    add(fmt::format("set.{}.f16x2.f16x2 $0, $1, $2;", name), "rrr");
    add(fmt::format("set.{}.u32.bf16x2 $0, $1, $2;", name), "rrr");
  }

  void comparisons() {
    compare("eq", [](auto a, auto b) { return a == b; });
    compare("ne", [](auto a, auto b) { return a != b; });
    compare("lt", [](auto a, auto b) { return a < b; });
    compare("le", [](auto a, auto b) { return a <= b; });
    compare("gt", [](auto a, auto b) { return a > b; });
    compare("ge", [](auto a, auto b) { return a >= b; });
    each({"lo", "ls", "hi", "hs"}, "setp.@.u32 $0, $1, $2;", "prr");
    each({"num", "nan"}, "setp.@.f64 $0, $1, $2;", "pdd");
    add("selp.b32 $0, $1, $2, $3;", "rrrp", [](auto a, auto b, auto c) { return c ? a : b; });
    add("selp.f64 $0, $1, $2, $3;", "dddp", [](auto a, auto b, auto c) { return c ? a : b; });
    add("slct.u32.s32 $0, $1, $2, $3;", "rrrr", [](auto a, auto b, auto c) { return s32(c) >= 0 ? a : b; });
    add("slct.f32.f32 $0, $1, $2, $3;", "ffff");
    each({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}, "testp.@.f32 $0, $1;", "pf");
    each({"finite", "normal", "subnormal"}, "testp.@.f64 $0, $1;", "pd");
  }

  void floats() {
    for (const std::string r : {"rn", "rz", "rm", "rp"}) {
      add(fmt::format("add.{}.f32 $0, $1, $2;", r), "fff",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f32(a)) + opaque(f32(b))); }));
      add(fmt::format("mul.{}.f32 $0, $1, $2;", r), "fff",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f32(a)) * opaque(f32(b))); }));
      add(fmt::format("fma.{}.f32 $0, $1, $2, $3;", r), "ffff", rounded(r, [](auto a, auto b, auto c) {
            return of(std::fma(opaque(f32(a)), opaque(f32(b)), opaque(f32(c))));
          }));
      add(fmt::format("div.{}.f32 $0, $1, $2;", r), "fff",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f32(a)) / opaque(f32(b))); }));
      add(fmt::format("sqrt.{}.f32 $0, $1;", r), "ff",
          rounded(r, [](auto a, auto, auto) { return of(std::sqrt(opaque(f32(a)))); }));
      add(fmt::format("rcp.{}.f32 $0, $1;", r), "ff",
          rounded(r, [](auto a, auto, auto) { return of(opaque(1.0f) / opaque(f32(a))); }));
      add(fmt::format("add.{}.f64 $0, $1, $2;", r), "ddd",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f64(a)) + opaque(f64(b))); }));
      add(fmt::format("mul.{}.f64 $0, $1, $2;", r), "ddd",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f64(a)) * opaque(f64(b))); }));
      add(fmt::format("fma.{}.f64 $0, $1, $2, $3;", r), "dddd", rounded(r, [](auto a, auto b, auto c) {
            return of(std::fma(opaque(f64(a)), opaque(f64(b)), opaque(f64(c))));
          }));
      add(fmt::format("div.{}.f64 $0, $1, $2;", r), "ddd",
          rounded(r, [](auto a, auto b, auto) { return of(opaque(f64(a)) / opaque(f64(b))); }));
      each({"add", "sub", "mul"}, fmt::format("@.{}.ftz.sat.f32 $0, $1, $2;", r), "fff");
      each({"add", "sub", "mul", "div"}, fmt::format("@.{}.ftz.f32 $0, $1, $2;", r), "fff");
      add(fmt::format("fma.{}.ftz.f32 $0, $1, $2, $3;", r), "ffff");
      add(fmt::format("fma.{}.sat.f32 $0, $1, $2, $3;", r), "ffff");
      add(fmt::format("sqrt.{}.f64 $0, $1;", r), "dd");
      add(fmt::format("rcp.{}.f64 $0, $1;", r), "dd");
      add(fmt::format("sqrt.{}.ftz.f32 $0, $1;", r), "ff");
    }
    each({"min.f32", "max.f32", "min.ftz.f32", "max.NaN.f32", "min.NaN.f32", "min.xorsign.abs.f32",
          "max.NaN.xorsign.abs.f32", "copysign.f32"},
         "@ $0, $1, $2;", "fff");
    each({"min.f64", "max.f64", "copysign.f64"}, "@ $0, $1, $2;", "ddd");
    each({"abs.f32", "neg.f32", "abs.ftz.f32", "neg.ftz.f32"}, "@ $0, $1;", "ff");
    each({"abs.f64", "neg.f64"}, "@ $0, $1;", "dd");
  }

  void halves() {
    for (const char* type : {"f16", "bf16"}) {
      each({"add.rn", "sub.rn", "mul.rn", "min", "max", "min.NaN", "max.NaN", "max.xorsign.abs"},
           fmt::format("@.{} $0, $1, $2;", type), "hhh");
      each({"fma.rn", "fma.rn.relu"}, fmt::format("@.{} $0, $1, $2, $3;", type), "hhhh");
      each({"abs", "neg"}, fmt::format("@.{} $0, $1;", type), "hh");
      each({"add.rn", "sub.rn", "mul.rn", "min", "max", "min.NaN", "max.NaN", "min.xorsign.abs"},
           fmt::format("@.{}x2 $0, $1, $2;", type), "rrr");
      each({"fma.rn", "fma.rn.relu"}, fmt::format("@.{}x2 $0, $1, $2, $3;", type), "rrrr");
      each({"abs", "neg"}, fmt::format("@.{}x2 $0, $1;", type), "rr");
    }
    each({"add.sat.f16", "mul.ftz.f16", "add.ftz.f16", "sub.sat.f16"}, "@ $0, $1, $2;", "hhh");
    each({"fma.rn.sat.f16", "fma.rn.ftz.f16"}, "@ $0, $1, $2, $3;", "hhhh");
  }

  void conversions() {
    for (const char* r : {"rni", "rzi", "rmi", "rpi"}) {
      each({"s32", "u32"}, fmt::format("cvt.{}.@.f32 $0, $1;", r), "rf");
      each({"s64", "u64"}, fmt::format("cvt.{}.@.f32 $0, $1;", r), "lf");
      each({"s32", "u32"}, fmt::format("cvt.{}.@.f64 $0, $1;", r), "rd");
      each({"s64", "u64"}, fmt::format("cvt.{}.@.f64 $0, $1;", r), "ld");
      each({"s16", "u16"}, fmt::format("cvt.{}.@.f32 $0, $1;", r), "hf");
      each({"s16", "u16"}, fmt::format("cvt.{}.@.f16 $0, $1;", r), "hh");
      each({"s32", "u32"}, fmt::format("cvt.{}.@.f16 $0, $1;", r), "rh");
      add(fmt::format("cvt.{}.f32.f32 $0, $1;", r), "ff");
      add(fmt::format("cvt.{}.ftz.f32.f32 $0, $1;", r), "ff");
      add(fmt::format("cvt.{}.f64.f64 $0, $1;", r), "dd");
      add(fmt::format("cvt.{}.f16.f16 $0, $1;", r), "hh");
    }
    for (const std::string r : {"rn", "rz", "rm", "rp"}) {
      add(fmt::format("cvt.{}.f32.s32 $0, $1;", r), "fr",
          rounded(r, [](auto a, auto, auto) { return of(static_cast<float>(opaque(s32(a)))); }));
      add(fmt::format("cvt.{}.f32.u64 $0, $1;", r), "fl",
          rounded(r, [](auto a, auto, auto) { return of(static_cast<float>(opaque(a))); }));
      add(fmt::format("cvt.{}.f64.s64 $0, $1;", r), "dl",
          rounded(r, [](auto a, auto, auto) { return of(static_cast<double>(opaque(s64(a)))); }));
      add(fmt::format("cvt.{}.f32.f64 $0, $1;", r), "fd", rounded(r, [](auto a, auto, auto) {
            return uint64_t{std::bit_cast<uint32_t>(static_cast<float>(opaque(f64(a))))};  // also for NaNs
          }));
      add(fmt::format("cvt.{}.f32.u32 $0, $1;", r), "fr");
      add(fmt::format("cvt.{}.f64.u64 $0, $1;", r), "dl");
      add(fmt::format("cvt.{}.f16.f32 $0, $1;", r), "hf");
      add(fmt::format("cvt.{}.f16.s32 $0, $1;", r), "hr");
      add(fmt::format("cvt.{}.f16.u16 $0, $1;", r), "hh");
      add(fmt::format("cvt.{}.ftz.f32.f64 $0, $1;", r), "fd");
      add(fmt::format("cvt.{}.sat.f32.f64 $0, $1;", r), "fd");
      add(fmt::format("cvt.{}.f16.f64 $0, $1;", r), "hd");
    }
    for (const char* r : {"rn", "rz"}) {
      add(fmt::format("cvt.{}.bf16.f32 $0, $1;", r), "hf");
      add(fmt::format("cvt.{}.relu.bf16.f32 $0, $1;", r), "hf");
      add(fmt::format("cvt.{}.f16x2.f32 $0, $1, $2;", r), "rff");
      add(fmt::format("cvt.{}.relu.f16x2.f32 $0, $1, $2;", r), "rff");
      add(fmt::format("cvt.{}.bf16x2.f32 $0, $1, $2;", r), "rff");
    }
    for (const char* to : {"e4m3x2", "e5m2x2"}) {
      add(fmt::format("cvt.rn.satfinite.{}.f32 $0, $1, $2;", to), "hff");
      add(fmt::format("cvt.rn.satfinite.relu.{}.f32 $0, $1, $2;", to), "hff");
      add(fmt::format("cvt.rn.satfinite.{}.f16x2 $0, $1;", to), "hr");
      add(fmt::format("cvt.rn.f16x2.{} $0, $1;", to), "rh");
      add(fmt::format("cvt.rn.relu.f16x2.{} $0, $1;", to), "rh");
    }
    add("cvt.rna.tf32.f32 $0, $1;", "rf");
    add("cvt.f32.f16 $0, $1;", "fh");
    add("cvt.f64.f16 $0, $1;", "dh");
    add("cvt.f32.bf16 $0, $1;", "fh");
    add("cvt.sat.f32.f16 $0, $1;", "fh");
    add("cvt.f64.f32 $0, $1;", "df", [](auto a, auto, auto) { return of(static_cast<double>(f32(a))); });
    add("cvt.sat.f32.f32 $0, $1;", "ff");
    add("cvt.s64.s32 $0, $1;", "lr",
        [](auto a, auto, auto) { return static_cast<uint64_t>(int64_t{s32(a)}); });
    add("cvt.u64.u32 $0, $1;", "lr", [](auto a, auto, auto) { return a; });
    add("cvt.s32.s8 $0, $1;", "rr", [](auto a, auto, auto) { return of32(static_cast<int8_t>(a)); });
    add("cvt.u32.u16 $0, $1;", "rh", [](auto a, auto, auto) { return a; });
    add("cvt.s16.s32 $0, $1;", "hr", [](auto a, auto, auto) { return a & 0xffff; });
    add("cvt.sat.s16.s32 $0, $1;", "hr",
        [](auto a, auto, auto) { return static_cast<uint64_t>(std::clamp(s32(a), -32768, 32767)) & 0xffff; });
    add("cvt.sat.u8.s32 $0, $1;", "rr", [](auto a, auto, auto) { return of32(std::clamp(s32(a), 0, 255)); });
    add("cvt.sat.s32.s64 $0, $1;", "rl",
        [](auto a, auto, auto) { return of32(std::clamp<int64_t>(s64(a), INT32_MIN, INT32_MAX)); });
    add("cvt.sat.u32.s64 $0, $1;", "rl",
        [](auto a, auto, auto) { return of32(std::clamp<int64_t>(s64(a), 0, UINT32_MAX)); });
    add("cvt.sat.u32.s32 $0, $1;", "rr", [](auto a, auto, auto) { return of32(std::max(0, s32(a))); });
    each({"cvt.pack.sat.s16.s32"}, "@ $0, $1, $2;", "rrr");
    add("cvt.pack.sat.u16.s32 $0, $1, $2;", "rrr", [](auto a, auto b, auto) {
      return of32(std::clamp(s32(a), 0, 65535)) << 16 | of32(std::clamp(s32(b), 0, 65535));
    });
    add("cvt.pack.sat.s4.s32.b32 $0, $1, $2, $3;", "rrrr", [](auto a, auto b, auto c) {
      return of32(s64(c << 8 | (std::clamp(s32(a), -8, 7) & 15) << 4 | (std::clamp(s32(b), -8, 7) & 15)));
    });
    each({"cvt.pack.sat.u8.s32.b32", "cvt.pack.sat.s8.s32.b32", "cvt.pack.sat.u4.s32.b32",
          "cvt.pack.sat.s2.s32.b32"},
         "@ $0, $1, $2, $3;", "rrrr");
  }

  void video() {
    each({"vadd.s32.s32.s32", "vsub.u32.s32.s32", "vabsdiff.u32.u32.u32", "vmin.s32.s32.s32",
          "vmax.u32.s32.u32", "vadd.s32.u32.s32.sat", "vsub.s32.u32.u32.sat", "vadd.u32.u32.u32.sat"},
         "@ $0, $1, $2;", "rrr");
    each({"vadd.s32.s32.s32", "vsub.s32.s32.u32.sat", "vmin.s32.u32.s32"}, "@ $0, $1.b1, $2.h0;", "rrr");
    each({"vadd.s32.u32.s32.add", "vabsdiff.s32.s32.s32.max", "vmax.s32.u32.u32.min"},
         "@ $0, $1.h1, $2.b3, $3;", "rrrr");
    each({"vadd.s32.s32.u32", "vsub.u32.u32.u32.sat"}, "@ $0.b2, $1.b0, $2.h1, $3;", "rrrr");
    each({"vshl.u32.u32.u32.clamp", "vshr.s32.s32.u32.wrap", "vshr.u32.u32.u32.clamp",
          "vshl.s32.s32.u32.sat.wrap"},
         "@ $0, $1, $2;", "rrr");
    each({"vmad.s32.s32.s32", "vmad.u32.u32.u32.sat", "vmad.s32.u32.s32.shr7", "vmad.u32.u32.u32.shr15"},
         "@ $0, $1.h0, $2.b1, $3;", "rrrr");
    each({"eq", "ne", "lt", "le", "gt", "ge"}, "vset.s32.u32.@ $0, $1.b1, $2.h0;", "rrr");
    each({"vadd2.s32.s32.s32", "vsub2.u32.u32.u32.sat", "vavrg2.s32.s32.s32", "vabsdiff2.u32.s32.s32",
          "vmin2.s32.s32.s32", "vmax2.u32.u32.u32", "vadd2.s32.s32.u32.add", "vset2.s32.u32.lt",
          "vadd4.u32.u32.u32", "vsub4.s32.s32.s32.sat", "vavrg4.u32.u32.u32", "vabsdiff4.u32.u32.u32.add",
          "vmin4.u32.u32.s32", "vmax4.s32.s32.s32", "vset4.u32.u32.ge.add"},
         "@ $0, $1, $2, $3;", "rrrr");
  }
};

struct Step {
  const Operation* operation;
  std::string text;
  size_t result;                 // number of the result's value
  std::vector<size_t> operands;  // numbers of the operands' values
};

struct Program {
  std::vector<std::string> names;  // register of each value
  std::vector<char> kind;          // kind of each value
  std::vector<Step> steps_of_it;
  std::string ptx;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

Program program_of(uint64_t seed, const std::vector<Operation>& operations) {
  std::mt19937_64 engine(seed);
  Program p;
  auto add_value = [&](char kind) {
    p.names.push_back(fmt::format("%{}{}", kind, p.kind.size()));
    p.kind.push_back(kind);
    return p.kind.size() - 1;
  };
  for (char kind : kinds)
    for (size_t k = 0; k < inputs_of_a_kind; ++k) add_value(kind);
  std::string body;
  for (size_t k = 0; k < steps; ++k) {
    Step s{&operations[engine() % operations.size()], {}, 0, {}};
    s.text = s.operation->text;
    for (size_t o = 1; o < s.operation->kinds.size(); ++o) {
      std::vector<size_t> able;  // later values occur twice, so that results are used
      for (size_t v = 0; v < p.kind.size(); ++v)
        if (p.kind[v] == s.operation->kinds[o])
          able.insert(able.end(), v < kinds.size() * inputs_of_a_kind ? 1 : 2, v);
      s.operands.push_back(able[engine() % able.size()]);
      s.text = replaced(s.text, fmt::format("${}", o), p.names[s.operands.back()]);
    }
    s.result = add_value(s.operation->kinds[0]);
    s.text = replaced(s.text, "$0", p.names[s.result]);
    for (size_t at; (at = s.text.find('#')) != std::string::npos;)
      s.text.replace(at, 1, std::to_string(engine() % (engine() % 2 ? 256 : 33)));
    body += s.text + "\n";
    p.steps_of_it.push_back(std::move(s));
  }
  // Values of a lane are adjacent, and the inputs are first.
  std::string declarations, loads, stores;
  for (size_t v = 0; v < p.kind.size(); ++v) {
    const std::string& name = p.names[v];
    const char* type = p.kind[v] == 'r'   ? "b32"
                       : p.kind[v] == 'l' ? "b64"
                       : p.kind[v] == 'h' ? "b16"
                       : p.kind[v] == 'f' ? "f32"
                       : p.kind[v] == 'd' ? "f64"
                                          : "pred";
    declarations += fmt::format(".reg .{} {};\n", type, name);
    const bool input = v < kinds.size() * inputs_of_a_kind;
    if (p.kind[v] == 'p') {
      if (input) loads += fmt::format("ld.global.u32 %t0, [%a+{}]; setp.ne.u32 {}, %t0, 0;\n", 8 * v, name);
      stores += fmt::format("selp.b64 %u0, 1, 0, {}; st.global.b64 [%a+{}], %u0;\n", name, 8 * v);
    } else {
      if (input) loads += fmt::format("ld.global.{} {}, [%a+{}];\n", type, name, 8 * v);
      stores += fmt::format("st.global.{} [%a+{}], {};\n", type, 8 * v, name);
    }
  }
  p.ptx = fmt::format(R"(.version 8.4
.target sm_90a
.address_size 64
.visible .entry program(.param .u64 values) {{
.reg .b64 %a, %u<3>; .reg .b32 %t<3>; .reg .b16 %v<3>; .reg .pred %q;
{}ld.param.u64 %a, [values]; mov.u32 %t0, %tid.x; mul.wide.u32 %u0, %t0, {}; add.s64 %a, %a, %u0;
{}{}{}ret;
}}
)",
                      declarations, 8 * p.kind.size(), loads, body, stores);
  return p;
}

uint64_t input(char kind, std::mt19937_64& engine) {
  const uint64_t edges[] = {0,  1,  ~uint64_t{0}, 0x80000000, 0x7fffffff, uint64_t{1} << 63,
                            31, 32, 33,           0xffff,     0x8000};
  const float floats[] = {0.0f,  -0.0f,   1.0f,   -1.0f, 1e-40f, INFINITY, -INFINITY, NAN,   65504.0f,
                          3e38f, 2049.0f, 448.0f, 0.5f,  1.5f,   2.5f,     -3.5f,     1e-7f, 2147483648.0f};
  std::normal_distribution<double> normal;
  auto value = [&](int range) {
    return engine() % 3 ? std::ldexp(normal(engine),
                                     static_cast<int>(engine() % static_cast<uint64_t>(range)) - range / 2)
                        : static_cast<double>(floats[engine() % std::size(floats)]);
  };
  const uint64_t whole = engine() % 3 ? engine() >> (engine() % 64) : edges[engine() % std::size(edges)];
  switch (kind) {
    case 'r': {  // half of the draws are two 16-bit halves
      const uint16_t halves[] = {emulator::to_f16(static_cast<float>(value(24))),
                                 emulator::to_bf16(static_cast<float>(value(24)))};
      return engine() % 2 ? whole & 0xffffffff : uint64_t{halves[engine() % 2]} << 16 | halves[engine() % 2];
    }
    case 'l':
      return whole;
    case 'h':
      return engine() % 2 ? whole & 0xffff
                          : uint64_t{engine() % 2 ? emulator::to_f16(static_cast<float>(value(24)))
                                                  : emulator::to_bf16(static_cast<float>(value(24)))};
    case 'f':
      return std::bit_cast<uint32_t>(static_cast<float>(value(60)));
    case 'd':
      return std::bit_cast<uint64_t>(value(120));
    default:
      return engine() % 2;
  }
}

// Returns the values of all lanes, which are adjacent, with the inputs filled in.
std::vector<uint64_t> inputs(const Program& p, uint64_t seed) {
  std::mt19937_64 engine(seed * 2 + 1);
  std::vector<uint64_t> values(lanes * p.kind.size());
  for (size_t lane = 0; lane < lanes; ++lane)
    for (size_t v = 0; v < kinds.size() * inputs_of_a_kind; ++v)
      values[lane * p.kind.size() + v] = input(p.kind[v], engine);
  return values;
}

std::vector<uint64_t> run(Device& device, const Program& p, const std::vector<uint64_t>& first) {
  Signature signature;
  signature.kernel = "program";
  signature.threads = lanes;
  signature.parameters = {{.name = "values", .kind = Parameter::Kind::pointer, .dtype = DType::u64}};
  const std::unique_ptr<runtime::Program> program = device.load(p.ptx, signature);
  Buffer values = Buffer::of(device, first);
  const Address address = values.address();
  const void* parameters[] = {&address};
  Launch launch;
  launch.grid = {1, 1, 1};
  launch.block = {lanes, 1, 1};
  device.launch(*program, launch, parameters);
  device.synchronize(std::chrono::seconds(60));
  return values.copy_out<uint64_t>();
}

// The manual leaves the payload of a 64-bit NaN open.
bool same(char kind, uint64_t a, uint64_t b) {
  return a == b || (kind == 'd' && std::isnan(f64(a)) && std::isnan(f64(b)));
}

// Returns a message like "step 3, add.s32 %r24, %r0, %r1; of 0x1, 0x2 in lane 5 gives 0x4, and 0x3 is right".
std::string wrong(const Program& p, const Step& s, const std::vector<uint64_t>& values, size_t lane,
                  uint64_t is, uint64_t right) {
  std::string of_what;
  for (size_t o : s.operands) of_what += fmt::format(" {:#x}", values[lane * p.kind.size() + o]);
  return fmt::format("{} of{} in lane {} gives {:#x}, and {:#x} is right", s.text, of_what, lane, is, right);
}

// Compares the values that the host can compute with its own results, given the emulator's values of the
// operands.
std::string against_host(const Program& p, const std::vector<uint64_t>& values, size_t& compared) {
  for (const Step& s : p.steps_of_it) {
    if (!s.operation->host) continue;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const uint64_t* of_lane = &values[lane * p.kind.size()];
      uint64_t x[3] = {};
      for (size_t k = 0; k < s.operands.size(); ++k) x[k] = of_lane[s.operands[k]];
      const uint64_t right = s.operation->host(x[0], x[1], x[2]);
      ++compared;
      if (!same(p.kind[s.result], of_lane[s.result], right))
        return wrong(p, s, values, lane, of_lane[s.result], right);
    }
  }
  return {};
}

// Returns whether ptxas deviates from the PTX ISA, which the emulator follows. ptxas 13.0 saturates video
// instructions differently, treats the maximum of a NaN and itself as a copy, uses only five bits of a
// constant length in bfi.b32, and converts INT32_MIN to 255 with cvt.sat to u8.
bool is_left_to_ptxas(const Step& s) {
  const std::string_view text = s.text;
  if (text.starts_with("bfi.b32")) return std::stoi(s.text.substr(s.text.rfind(' ') + 1)) > 31;
  if (text.starts_with("cvt.sat.u8.s32")) return true;
  if (text.starts_with('v')) return text.find(".sat") != text.npos || text.find(".shr") != text.npos;
  return (text.starts_with("min") || text.starts_with("max")) && s.operands.size() == 2 &&
         s.operands[0] == s.operands[1];
}

std::string against_gpu(const Program& p, const std::vector<uint64_t>& values,
                        const std::vector<uint64_t>& gpu) {
  std::set<size_t> left;  // values in which ptxas deviates, and values that depend on them
  for (const Step& s : p.steps_of_it) {
    if (is_left_to_ptxas(s) || std::ranges::any_of(s.operands, [&](size_t o) { return left.contains(o); })) {
      left.insert(s.result);
      continue;
    }
    for (size_t lane = 0; lane < lanes; ++lane) {
      const size_t at = lane * p.kind.size() + s.result;
      if (!same(p.kind[s.result], values[at], gpu[at])) return wrong(p, s, values, lane, values[at], gpu[at]);
      if (values[at] != gpu[at]) left.insert(s.result);  // a NaN with a different payload
    }
  }
  return {};
}

TEST_CASE("programs of single instructions give on the emulator what the host computes, and a GPU") {
  const Operations operations;
  CHECK(operations.all.size() > 400);
  const bool on_gpu = device_name != "emulator";
  const auto emulator = open_emulator();
  const auto gpu = on_gpu ? open_device(device_name) : nullptr;
  std::set<const Operation*> used;
  size_t compared = 0;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(programs); ++seed) {
    CAPTURE(seed);
    const Program p = program_of(seed, operations.all);
    for (const Step& s : p.steps_of_it) used.insert(s.operation);
    const std::vector<uint64_t> first = inputs(p, seed);
    const std::vector<uint64_t> values = run(*emulator, p, first);
    const std::string of_host = against_host(p, values, compared);
    CHECK_MESSAGE(of_host.empty(), "the host: " << of_host);
    if (!on_gpu) continue;
    const std::string of_gpu = against_gpu(p, values, run(*gpu, p, first));
    CHECK_MESSAGE(of_gpu.empty(), "the GPU: " << of_gpu);
  }
  if (programs < 200) return;
  CHECK(used.size() > operations.all.size() * 9 / 10);
  CHECK(compared > 20000);
}

}  // namespace
}  // namespace ptxbuilder::test::emulator_programs_test
