// Executes floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision Floating Point
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

struct FloatModifiers {
  Rounding rounding = Rounding::rn;
  bool ftz = false, sat = false, relu = false, nan = false, xorsign = false, oob = false;

  bool operator==(const FloatModifiers&) const = default;
};

// An operation with up to three sources. If it has fewer, the last source is repeated.
struct FloatArithmetic {
  Register d, a, b, c;
  Op op;
  FloatModifiers modifiers;
};

struct Host {  // sets the host's rounding mode during its lifetime
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

// The operands are volatile so that the compiler does not move arithmetic out of the scope of Host.
template <class T>
T compute(Op op, T x, T y, T z, const FloatModifiers& m) {
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
      const T left = m.xorsign ? std::fabs(a) : T{a}, right = m.xorsign ? std::fabs(b) : T{b};
      const T r = op == Op::min ? least<T>(left, right, m.nan) : most<T>(left, right, m.nan);
      return m.xorsign && std::signbit(a) != std::signbit(b) ? -r : r;
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
      return std::copysign(T{b}, T{a});  // PTX ISA, copysign: the sign of a and the magnitude of b
  }
  return 0;
}

template <class T>
T flush(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T{0}, x) : x;
}

float canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fffffffu) : x; }
// If no operand is a NaN, x86 creates the same NaN as the GPU, and ARM one with the other sign.
double canonical(double x) {
#if defined(__aarch64__)
  if (std::bit_cast<uint64_t>(x) == 0x7ff8000000000000) return std::bit_cast<double>(0xfff8000000000000);
#endif
  return x;
}

template <class T>
T finish(T r, const FloatModifiers& m) {
  if (m.ftz) r = flush(r);
  if (m.sat) r = r > 0 ? std::min(r, T{1}) : T{0};  // NaN and -0 become +0
  if (m.relu) r = r <= 0 ? T{0} : r;                // also replaces -0
  return r;
}

// Executes any operation on f32 or f64 with any modifiers.
template <class T>
void execute_any(Warp& w, const FloatArithmetic& x, Lanes lanes) {
  const Op op = x.op;
  const FloatModifiers m = x.modifiers;
  const bool bits = op == Op::copysign;
  Host host(m.rounding);
  each_lane(
      lanes,
      [&](T a, T b, T c) {
        if (m.ftz) a = flush(a), b = flush(b), c = flush(c);
        T r = finish(compute<T>(op, a, b, c, m), m);
        return bits ? r : static_cast<T>(canonical(r));
      },
      w.at<T>(x.d), w.at<T>(x.a), w.at<T>(x.b), w.at<T>(x.c));
}

// Executes a plain f32 operation that rounds to nearest.
template <class F>
void execute_f32(Warp& w, const Binary& x, Lanes lanes) {
  each_lane(
      lanes,
      [](float a, float b) {
        float r = F{}(a, b);
        return r == r ? r : std::bit_cast<float>(0x7fffffffu);
      },
      w.at<float>(x.d), w.at<float>(x.a), w.at<float>(x.b));
}

void fma_lanes(Lanes lanes, float* d, const float* a, const float* b, const float* c) {
  each_lane(
      lanes, [](float x, float y, float z) { return canonical(std::fma(x, y, z)); }, d, a, b, c);
}
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void fma_lanes_fast(float* d, const float* a, const float* b,
                                                        const float* c) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int k = 0; k < 32; ++k) {
    float r = __builtin_fmaf(a[k], b[k], c[k]);
    d[k] = r == r ? r : __builtin_nanf("0x3fffff");
  }
}
const bool has_fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#endif

void execute_fma_f32(Warp& w, const Ternary& x, Lanes lanes) {
  float* d = w.at<float>(x.d);
  const float *a = w.at<float>(x.a), *b = w.at<float>(x.b), *c = w.at<float>(x.c);
#if defined(__x86_64__)
  if (has_fma && lanes == all_lanes) return fma_lanes_fast(d, a, b, c);
#endif
  fma_lanes(lanes, d, a, b, c);
}

// Operations on f16 and bf16. A sum, product, quotient or root that is rounded to f32 and then to 16 bits
// equals the correctly rounded result (24 >= 2 * 11 + 2). fma is computed in f64, which holds the product
// exactly. The sum is rounded to odd by this function, so that rounding it again gives the correctly rounded
// result.
double sum_to_odd(double a, double b) {
  const double sum = a + b, of_b = sum - a, rest = (a - (sum - of_b)) + (b - of_b);
  if (!std::isfinite(sum) || rest == 0) return sum;
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (bits & 1) return sum;
  return std::bit_cast<double>((rest > 0) == (sum > 0) ? bits + 1 : bits - 1);
}
template <bool brain>
struct Half {
  static float load(uint16_t x) { return brain ? from_bf16(x) : from_f16(x); }
  static uint16_t store(double x) {
    return static_cast<uint16_t>(encode(x, brain ? bf16_format : f16_format));
  }
};

bool is_out_of_bounds(uint16_t x) { return (x & 0x7fff) == nan_out_of_bounds; }

template <bool brain>
uint16_t half_lane(Op op, uint16_t a, uint16_t b, uint16_t c, const FloatModifiers& m) {
  using H = Half<brain>;
  if (m.oob && (is_out_of_bounds(a) || is_out_of_bounds(b))) return 0;
  if ((op == Op::neg || op == Op::abs) && !std::isnan(H::load(a)))  // neg and abs preserve subnormal numbers
    return op == Op::neg ? a ^ 0x8000 : a & 0x7fff;
  float x = H::load(a), y = H::load(b), z = H::load(c);
  auto flushed = [&](float v) {
    return !brain && m.ftz && std::fabs(v) < 0x1p-14f ? std::copysign(0.0f, v) : v;
  };
  x = flushed(x), y = flushed(y), z = flushed(z);
  double r = op == Op::fma
                 ? sum_to_odd(static_cast<double>(x) * static_cast<double>(y), static_cast<double>(z))
                 : static_cast<double>(compute<float>(op, x, y, z, m));
  if (m.sat) r = r > 0 ? std::min(r, 1.0) : 0;
  if (m.relu && r <= 0) r = 0;
  uint16_t out = H::store(r);
  return !brain && m.ftz && (out & 0x7c00) == 0 ? out & 0x8000 : out;
}

template <bool brain, bool pair>
void execute_half(Warp& w, const FloatArithmetic& x, Lanes lanes) {
  const Op op = x.op;
  const FloatModifiers m = x.modifiers;
  if constexpr (pair) {
    each_lane(
        lanes,
        [&](uint32_t a, uint32_t b, uint32_t c) {
          auto part = [](uint32_t both, int k) { return static_cast<uint16_t>(both >> (16 * k)); };
          return half_lane<brain>(op, part(a, 0), part(b, 0), part(c, 0), m) |
                 static_cast<uint32_t>(half_lane<brain>(op, part(a, 1), part(b, 1), part(c, 1), m)) << 16;
        },
        w.at<uint32_t>(x.d), w.at<uint32_t>(x.a), w.at<uint32_t>(x.b), w.at<uint32_t>(x.c));
  } else {
    each_lane(
        lanes, [&](uint16_t a, uint16_t b, uint16_t c) { return half_lane<brain>(op, a, b, c, m); },
        w.at<uint16_t>(x.d), w.at<uint16_t>(x.a), w.at<uint16_t>(x.b), w.at<uint16_t>(x.c));
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

// Sets the handler of an f32 operation without modifiers.
void run_plain_f32(Decode& d, const FloatArithmetic& x) {
  switch (x.op) {
    case Op::add:
      return d.run<execute_f32<PlainAdd>>({x.d, x.a, x.b});
    case Op::sub:
      return d.run<execute_f32<PlainSub>>({x.d, x.a, x.b});
    case Op::mul:
      return d.run<execute_f32<PlainMul>>({x.d, x.a, x.b});
    case Op::fma:
      return d.run<execute_fma_f32>({x.d, x.a, x.b, x.c});
    default:
      return d.run<execute_any<float>>(x);
  }
}

}  // namespace

void decode_float_arithmetic(Decode& d) {
  const std::string_view name = std::string_view(d.text.opcode).substr(0, d.text.opcode.find('.'));
  const OpRow* row = nullptr;
  for (const OpRow& r : ops)
    if (r.name == name) row = &r;
  FloatModifiers m;
  m.ftz = d.has("ftz");
  m.sat = d.has("sat");
  m.relu = d.has("relu");
  m.nan = d.has("NaN");
  m.xorsign = d.has("xorsign");
  m.rounding = rounding_of(d);
  const Type type = d.type();
  const bool half = type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
  m.oob = half && d.has("oob");
  const Register to = d.destination(0, type), a = d.source(1, type),
                 b = row->sources > 1 ? d.source(2, type) : a, c = row->sources > 2 ? d.source(3, type) : b;
  const FloatArithmetic x{to, a, b, c, row->op, m};
  switch (type) {
    case Type::f32:
      return m == FloatModifiers{} ? run_plain_f32(d, x) : d.run<execute_any<float>>(x);
    case Type::f64:
      return d.run<execute_any<double>>(x);
    case Type::f16:
      return d.run<execute_half<false, false>>(x);
    case Type::f16x2:
      return d.run<execute_half<false, true>>(x);
    case Type::bf16:
      return d.run<execute_half<true, false>>(x);
    case Type::bf16x2:
      return d.run<execute_half<true, true>>(x);
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
