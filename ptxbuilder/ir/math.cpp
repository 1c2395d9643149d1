#include "ptxbuilder/ir/math.h"

#include <limits>
#include <span>

#include "ptxbuilder/ir/packed.h"
#include "ptxbuilder/ir/typed_calls.h"

namespace ptxbuilder {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// log2(e) and ln(2), each as a sum of two f32. Multiplying an exponent by the first part of ln(2) is exact.
constexpr float kLog2eHigh = 0x1.715476p+0f, kLog2eLow = 0x1.4ae0cp-26f;
constexpr float kLn2High = 0x1.62ep-1f, kLn2Low = 0x1.0bfbe8p-15f;

// Evaluates a near-minimax polynomial (Chebyshev interpolation); the coefficient of the highest power comes
// first.
f32 polynomial(f32 x, std::span<const float> coefficients) {
  f32 sum = coefficients[0];
  for (float c : coefficients.subspan(1)) sum = fma(sum, x, c);
  return sum;
}

// Returns 2^n, for n from -126 to 127.
f32 power_of_two(s32 n) { return bit_cast<f32>((n + 127) << 23); }

// Splits x = m * 2^exponent, with m from sqrt(1/2) to sqrt(2).
struct Split {
  s32 exponent;
  f32 fraction;  // m - 1
};

Split split(f32 x) {
  pred subnormal = x < 0x1p-126f;
  f32 normal = select(subnormal, x * 0x1p23f, x);
  s32 bits = bit_cast<s32>(normal);
  s32 exponent = (bits - 0x3f3504f3) >> 23;  // subtracts the bits of sqrt(1/2)
  f32 m = bit_cast<f32>(bits - (exponent << 23));
  return {exponent - select(subnormal, s32(23), s32(0)), m - 1};
}

// Returns log(1 + f) - f for the f of a Split, accurate enough for log(1 + f) in f32.
f32 log1p_tail(f32 f) {
  constexpr float p[] = {0.0697161147145f, -0.114797338466f, 0.116854199235f,
                         -0.124256873315f, 0.142490576457f,  -0.166678023195f,
                         0.200007157489f,  -0.24999996958f,  0.3333333118f};
  f32 square = f * f;
  return fma(square, -0.5f, square * f * polynomial(f, p));
}

// Returns `value` if x is a positive finite number, and otherwise the logarithm of x.
f32 logarithm_at_edges(f32 x, f32 value) {
  value = select(x == kInfinity, x, value);
  value = select(x == 0, f32(-kInfinity), value);
  return select(x >= 0, value, kNotANumber);
}

// Splits x = number * pi/2 + remainder, where |remainder| is at most pi/4. The computation is in f64 so that
// no bits of the f32 are lost.
struct Quadrant {
  u32 number;  // only the two low bits are used
  f32 remainder;
};

Quadrant quadrant_of(f32 x) {
  constexpr double kRound =
      0x1.8p52;  // adding this to a number rounds it to an integer in the low bits of the sum
  auto multiply_add = [](f64 a, f64 b, f64 c) {
    return f64(detail::fma(a.handle(), b.handle(), c.handle()));
  };
  f64 wide(x);
  f64 rounded = multiply_add(wide, 0x1.45f306dc9c883p-1, kRound);  // 2 / pi
  f64 n = rounded - kRound;
  f64 remainder = multiply_add(n, -0x1.921fb54442d18p+0, wide);  // pi / 2
  remainder = multiply_add(n, -0x1.1a62633145c07p-54, remainder);
  return {u32(bit_cast<u64>(rounded)), f32(remainder)};
}

f32 sine_of_quadrant(u32 quadrant, f32 r) {
  constexpr float s[] = {2.72491467968e-6f, -0.000198400807199f, 0.00833333186356f, -0.166666666638f};
  constexpr float c[] = {-2.73003090205e-7f, 2.48005953566e-5f, -0.00138888876627f, 0.0416666666643f};
  f32 square = r * r;
  f32 sine = fma(square * r, polynomial(square, s), r);
  f32 cosine = fma(square * square, polynomial(square, c), fma(square, -0.5f, 1));
  f32 value = select((quadrant & 1) == 0, sine, cosine);
  return bit_cast<f32>(bit_cast<u32>(value) ^ (quadrant & 2) << 30);
}

f32 with_sign_of(f32 magnitude, f32 sign) {
  return bit_cast<f32>(bit_cast<u32>(magnitude) | (bit_cast<u32>(sign) & 0x80000000u));
}

}  // namespace

f32 abs(f32 x) { return f32(detail::unary(detail::Unary::abs, Class::f32, x.handle())); }

f32 exp2(f32 x, Approx approx) { return approx == Approx::yes ? ex2_approx_ftz_f32(x) : ex2_approx_f32(x); }

f32 exp(f32 x, Approx approx) {
  if (approx == Approx::yes) return ex2_approx_ftz_f32(x * kLog2eHigh);
  // e^x = 2^n * 2^f. Two factors whose product is 2^n are applied, because n may exceed the exponent range of
  // an f32.
  s32 n = cvt_rni_s32_f32(min(max(x, -104), 89) * kLog2eHigh);
  f32 f = fma(x, kLog2eLow, fma(x, kLog2eHigh, f32(0) - f32(n)));
  s32 half = n >> 1;
  f32 value = ex2_approx_f32(f) * power_of_two(half) * power_of_two(n - half);
  return select(x == -kInfinity, f32(0), value);
}

f32 log2(f32 x, Approx approx) {
  if (approx == Approx::yes) return lg2_approx_ftz_f32(x);
  auto [exponent, f] = split(x);
  f32 tail = log1p_tail(f);
  f32 value = fma(f, kLog2eHigh, fma(tail, kLog2eHigh, f * kLog2eLow));
  return logarithm_at_edges(x, f32(exponent) + value);
}

f32 log(f32 x, Approx approx) {
  if (approx == Approx::yes) return lg2_approx_ftz_f32(x) * 0x1.62e43p-1f;
  auto [exponent, f] = split(x);
  f32 e(exponent);
  f32 value = fma(e, kLn2High, fma(e, kLn2Low, log1p_tail(f)) + f);
  return logarithm_at_edges(x, value);
}

f32 sin(f32 x, Approx approx) {
  if (approx == Approx::yes) return sin_approx_ftz_f32(x);
  auto [quadrant, remainder] = quadrant_of(x);
  return sine_of_quadrant(quadrant, remainder);
}

f32 cos(f32 x, Approx approx) {
  if (approx == Approx::yes) return cos_approx_ftz_f32(x);
  auto [quadrant, remainder] = quadrant_of(x);
  return sine_of_quadrant(quadrant + 1, remainder);
}

f32 tanh(f32 x, Approx approx) {
  if (approx == Approx::yes) return tanh_approx_f32(x);
  constexpr float t[] = {0.00249537956047f, -0.00850476961142f, 0.0218132611306f,
                         -0.0539641982834f, 0.133333225303f,    -0.333333332864f};
  f32 magnitude = abs(x), square = x * x;
  f32 small = fma(square * x, polynomial(square, t), x);
  f32 large = with_sign_of(1 - 2 / (exp(magnitude * 2) + 1), x);
  return select(magnitude < 0.55f, small, large);
}

f32 rsqrt(f32 x, Approx approx) { return approx == Approx::yes ? rsqrt_approx_ftz_f32(x) : 1 / sqrt(x); }

f32 sqrt(f32 x, Approx approx) {
  if (approx == Approx::yes) return sqrt_approx_ftz_f32(x);
  return f32(detail::unary(detail::Unary::sqrt, Class::f32, x.handle()));
}

f32 erf(f32 x, Approx approx) {
  // If |x| < 1, the result is x times a polynomial in x^2. Otherwise its magnitude is 1 - e^-q, where q is a
  // polynomial.
  constexpr float p[] = {-9.66704457149e-6f, 0.000112659590256f, -0.000848408040554f, 0.00522103180786f,
                         -0.0268654307277f,  0.112837824952f,    -0.37612638468f,     0.128379167062f};
  constexpr float q[] = {-1.64267896843e-6f, 4.61647851613e-5f, -0.000597677274919f,
                         0.00476350966326f,  -0.0264316432828f, 0.110097242506f,
                         0.631809550131f,    1.13024187748f,    -0.000321866257549f};
  f32 magnitude = abs(x), square = x * x;
  f32 small = fma(x, polynomial(square, p), x);
  f32 rest = exp(f32(0) - polynomial(min(magnitude, 4), q), approx);
  f32 large = with_sign_of(1 - rest, x);
  return select(magnitude < 1, small, select(x == x, large, x));
}

}  // namespace ptxbuilder
