// Floating point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision Floating Point
// Instructions").
#include <cfenv>
#include <cmath>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class Op : uint8_t {
  add,
  sub,
  mul,
  fma,
  div,
  min,
  max,
  abs,
  neg,
  sqrt,
  rcp,
  rsqrt,
  ex2,
  lg2,
  sin,
  cos,
  tanh,
  copysign
};

// mode[0] is the Op, mode[1] the flags, mode[2] the Rounding.
enum : uint8_t { ftz = 1, saturate = 2, relu = 4, nan = 8, xorsign = 16 };

struct Host {  // the host's rounding, for as long as this lives
  explicit Host(Rounding r) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(r)]);
  }
  ~Host() { std::fesetround(FE_TONEAREST); }
};

template <class T>
T least(T a, T b, bool propagate) {
  if (std::isnan(a) || std::isnan(b)) return propagate ? std::nan("") : std::isnan(a) ? b : a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T most(T a, T b, bool propagate) {
  return -least<T>(-a, -b, propagate);
}

// The volatile keeps the compiler from moving arithmetic out of the scope of Host.
template <class T>
T compute(Op op, T x, T y, T z, uint8_t flags) {
  volatile T a = x, b = y, c = z;
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::fma:
      return std::fma(T{a}, T{b}, T{c});
    case Op::div:
      return a / b;
    case Op::min:
    case Op::max: {
      T r = op == Op::min ? least<T>(flags & xorsign ? std::fabs(a) : T{a},
                                     flags & xorsign ? std::fabs(b) : T{b}, flags & nan)
                          : most<T>(flags & xorsign ? std::fabs(a) : T{a},
                                    flags & xorsign ? std::fabs(b) : T{b}, flags & nan);
      return flags & xorsign && std::signbit(a) != std::signbit(b) ? -r : r;
    }
    case Op::abs:
      return std::fabs(T{a});
    case Op::neg:
      return -a;
    case Op::sqrt:
      return std::sqrt(T{a});
    case Op::rcp:
      return 1 / a;
    case Op::rsqrt:
      return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
    case Op::ex2:
      return std::exp2(T{a});
    case Op::lg2:
      return std::log2(T{a});
    case Op::sin:
      return std::sin(T{a});
    case Op::cos:
      return std::cos(T{a});
    case Op::tanh:
      return std::tanh(T{a});
    case Op::copysign:
      return std::copysign(T{b}, T{a});  // PTX ISA, copysign: the sign of a, the magnitude of b
  }
  return 0;
}

template <class T>
T flush(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T{0}, x) : x;
}

float canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fffffffu) : x; }
double canonical(double x) { return x; }

template <class T>
T finish(T r, uint8_t flags) {
  if (flags & ftz) r = flush(r);
  if (flags & saturate) r = r > 0 ? std::min(r, T{1}) : T{0};  // NaN and -0 become +0
  if (flags & relu) r = r < 0 ? T{0} : r;
  return r;
}

// Any operation of f32 and f64 under any modifiers.
template <class T>
void execute_any(Warp& w, const Instruction& i, Lanes lanes) {
  const auto op = static_cast<Op>(i.mode[0]);
  const uint8_t flags = i.mode[1];
  const bool bits = op == Op::abs || op == Op::neg || op == Op::copysign;
  Host host(static_cast<Rounding>(i.mode[2]));
  each_lane(
      lanes,
      [&](T a, T b, T c) {
        if (flags & ftz) a = flush(a), b = flush(b), c = flush(c);
        T r = finish(compute<T>(op, a, b, c, flags), flags);
        return bits ? r : static_cast<T>(canonical(r));
      },
      w.at<T>(i.r[0]), w.at<T>(i.r[1]), w.at<T>(i.r[2]), w.at<T>(i.r[3]));
}

// The plain f32 operations, to the nearest.
template <class F>
void execute_f32(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(
      lanes,
      [](float a, float b) {
        float r = F{}(a, b);
        return r == r ? r : std::bit_cast<float>(0x7fffffffu);
      },
      w.at<float>(i.r[0]), w.at<float>(i.r[1]), w.at<float>(i.r[2]));
}

void fma_lanes(Lanes lanes, float* d, const float* a, const float* b, const float* c) {
  each_lane(
      lanes, [](float x, float y, float z) { return canonical(std::fma(x, y, z)); }, d, a, b, c);
}
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void fma_lanes_fast(float* d, const float* a, const float* b,
                                                        const float* c) {
#pragma GCC ivdep
  for (int k = 0; k < 32; ++k) {
    float r = __builtin_fmaf(a[k], b[k], c[k]);
    d[k] = r == r ? r : __builtin_nanf("0x3fffff");
  }
}
const bool has_fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#endif

void execute_fma_f32(Warp& w, const Instruction& i, Lanes lanes) {
  float* d = w.at<float>(i.r[0]);
  const float *a = w.at<float>(i.r[1]), *b = w.at<float>(i.r[2]), *c = w.at<float>(i.r[3]);
#if defined(__x86_64__)
  if (has_fma && lanes == all_lanes) return fma_lanes_fast(d, a, b, c);
#endif
  fma_lanes(lanes, d, a, b, c);
}

// f16 and bf16. Sums, products, quotients and roots of such numbers, rounded to f32 and then to 16 bits, are
// the correctly rounded ones (24 >= 2 * 11 + 2); fma goes through f64, which holds the product and, but for
// rounding in the 53rd bit, the sum.
template <bool brain>
struct Half {
  static float load(uint16_t x) { return brain ? from_bf16(x) : from_f16(x); }
  static uint16_t store(double x) {
    return static_cast<uint16_t>(encode(x, brain ? bf16_format : f16_format));
  }
};

template <bool brain>
uint16_t half_lane(Op op, uint16_t a, uint16_t b, uint16_t c, uint8_t flags) {
  using H = Half<brain>;
  if (op == Op::neg) return a ^ 0x8000;
  if (op == Op::abs) return a & 0x7fff;
  float x = H::load(a), y = H::load(b), z = H::load(c);
  auto flushed = [&](float v) {
    return !brain && flags & ftz && std::fabs(v) < 0x1p-14f ? std::copysign(0.0f, v) : v;
  };
  x = flushed(x), y = flushed(y), z = flushed(z);
  double r = op == Op::fma ? std::fma(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z))
                           : static_cast<double>(compute<float>(op, x, y, z, flags));
  if (flags & saturate) r = r > 0 ? std::min(r, 1.0) : 0;
  if (flags & relu && r < 0) r = 0;
  uint16_t out = H::store(r);
  return !brain && flags & ftz && (out & 0x7c00) == 0 ? out & 0x8000 : out;
}

template <bool brain, bool pair>
void execute_half(Warp& w, const Instruction& i, Lanes lanes) {
  const auto op = static_cast<Op>(i.mode[0]);
  const uint8_t flags = i.mode[1];
  if constexpr (pair) {
    each_lane(
        lanes,
        [&](uint32_t a, uint32_t b, uint32_t c) {
          auto part = [](uint32_t x, int k) { return static_cast<uint16_t>(x >> (16 * k)); };
          return half_lane<brain>(op, part(a, 0), part(b, 0), part(c, 0), flags) |
                 static_cast<uint32_t>(half_lane<brain>(op, part(a, 1), part(b, 1), part(c, 1), flags)) << 16;
        },
        w.at<uint32_t>(i.r[0]), w.at<uint32_t>(i.r[1]), w.at<uint32_t>(i.r[2]), w.at<uint32_t>(i.r[3]));
  } else {
    each_lane(
        lanes, [&](uint16_t a, uint16_t b, uint16_t c) { return half_lane<brain>(op, a, b, c, flags); },
        w.at<uint16_t>(i.r[0]), w.at<uint16_t>(i.r[1]), w.at<uint16_t>(i.r[2]), w.at<uint16_t>(i.r[3]));
  }
}

struct OpRow {
  std::string_view name;
  Op op;
  size_t sources;
};
constexpr OpRow ops[] = {
    {"add", Op::add, 2},     {"sub", Op::sub, 2},   {"mul", Op::mul, 2},          {"fma", Op::fma, 3},
    {"mad", Op::fma, 3},     {"div", Op::div, 2},   {"min", Op::min, 2},          {"max", Op::max, 2},
    {"abs", Op::abs, 1},     {"neg", Op::neg, 1},   {"sqrt", Op::sqrt, 1},        {"rcp", Op::rcp, 1},
    {"rsqrt", Op::rsqrt, 1}, {"ex2", Op::ex2, 1},   {"lg2", Op::lg2, 1},          {"sin", Op::sin, 1},
    {"cos", Op::cos, 1},     {"tanh", Op::tanh, 1}, {"copysign", Op::copysign, 2}};

struct PlainAdd {
  float operator()(float a, float b) const { return a + b; }
};
struct PlainSub {
  float operator()(float a, float b) const { return a - b; }
};
struct PlainMul {
  float operator()(float a, float b) const { return a * b; }
};

Handler plain_f32(Op op) {
  switch (op) {
    case Op::add:
      return execute_f32<PlainAdd>;
    case Op::sub:
      return execute_f32<PlainSub>;
    case Op::mul:
      return execute_f32<PlainMul>;
    case Op::fma:
      return execute_fma_f32;
    default:
      return execute_any<float>;
  }
}

}  // namespace

void decode_float_arithmetic(Decode& d) {
  const std::string_view name = std::string_view(d.text.opcode).substr(0, d.text.opcode.find('.'));
  const OpRow* row = nullptr;
  for (const OpRow& r : ops)
    if (r.name == name) row = &r;
  if (!row) d.refuse("it has no floating point form");
  uint8_t flags = 0;
  Rounding rounding = Rounding::rn;
  if (d.take("ftz")) flags |= ftz;
  if (d.take("sat")) flags |= saturate;
  if (d.take("relu")) flags |= relu;
  if (d.take("NaN")) flags |= nan;
  if (d.take("xorsign")) flags |= xorsign, d.take("abs");
  d.take_any({"approx", "full"});
  if (auto r = d.take_one({"rn", "rz", "rm", "rp"}); !r.empty())
    rounding = r == "rz" ? Rounding::rz : r == "rm" ? Rounding::rm : r == "rp" ? Rounding::rp : Rounding::rn;
  Type type = d.take_type();
  if (type == Type::f32x2) d.refuse("pairs of f32 are not on sm_90");
  operands(d, type, row->sources);
  for (size_t k = row->sources + 1; k < 4; ++k) d.out.r[k] = d.out.r[row->sources];
  d.out.mode[0] = static_cast<uint8_t>(row->op);
  d.out.mode[1] = flags;
  d.out.mode[2] = static_cast<uint8_t>(rounding);
  switch (type) {
    case Type::f32:
      d.out.execute = flags == 0 && rounding == Rounding::rn ? plain_f32(row->op) : execute_any<float>;
      break;
    case Type::f64:
      d.out.execute = execute_any<double>;
      break;
    case Type::f16:
      d.out.execute = execute_half<false, false>;
      break;
    case Type::f16x2:
      d.out.execute = execute_half<false, true>;
      break;
    case Type::bf16:
      d.out.execute = execute_half<true, false>;
      break;
    case Type::bf16x2:
      d.out.execute = execute_half<true, true>;
      break;
    default:
      d.refuse("it does not take this type");
  }
}

void add_float(DecodeTable& t) {
  for (std::string_view name :
       {"fma", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign"})
    t[name] = decode_float_arithmetic;
}

}  // namespace ptxbuilder::runtime::emulator
