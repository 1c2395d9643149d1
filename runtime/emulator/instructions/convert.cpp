// Executes conversions between types (PTX ISA, cvt, cvta, and mov between packed and plain registers).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct ConvertModifiers {
  Rounding rounding = Rounding::rn;
  bool ftz = false, sat = false, satfinite = false, relu = false;
  bool to_integral = false;  // .rni and similar: the result is an integral value of any type

  bool operator==(const ConvertModifiers&) const = default;
};

double round_to_integer(double x, Rounding r) {
  switch (r) {
    case Rounding::rz:
      return std::trunc(x);
    case Rounding::rm:
      return std::floor(x);
    case Rounding::rp:
      return std::ceil(x);
    case Rounding::rna:
      return std::round(x);
    case Rounding::rn:
      break;
  }
  return std::nearbyint(x);
}

uint64_t low_bits(uint64_t x, int width) { return width >= 8 ? x : x & ((uint64_t{1} << (8 * width)) - 1); }

int64_t sign_extend(uint64_t x, int width) {
  const int shift = 64 - 8 * width;
  return static_cast<int64_t>(x << shift) >> shift;
}

double real_value(uint64_t bits, Type type) {
  switch (type) {
    case Type::f64:
      return std::bit_cast<double>(bits);
    case Type::f32:
    case Type::tf32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case Type::f16:
      return static_cast<double>(from_f16(static_cast<uint16_t>(bits)));
    case Type::bf16:
      return static_cast<double>(from_bf16(static_cast<uint16_t>(bits)));
    case Type::e4m3:
      return static_cast<double>(decode(static_cast<uint32_t>(bits & 255), e4m3_format));
    default:
      return static_cast<double>(decode(static_cast<uint32_t>(bits & 255), e5m2_format));
  }
}

// Converts a float to an integer (PTX ISA, cvt). Values out of range saturate. NaN becomes 0, or the code
// with only the highest bit set if the result has 64 bits.
uint64_t to_integer(double x, Type type, Rounding rounding) {
  const int width = bytes(type) * 8;
  if (std::isnan(x)) return width == 64 ? uint64_t{1} << 63 : 0;
  x = round_to_integer(x, rounding);
  if (is_signed(type)) {
    const double most = std::ldexp(1.0, width - 1);
    if (x >= most) return static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (width - 1)) - 1);
    if (x < -most) return uint64_t{1} << (width - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  }
  if (x <= 0) return 0;
  if (x >= std::ldexp(1.0, width)) return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  return static_cast<uint64_t>(x);
}

uint64_t from_real(double x, Type to, const ConvertModifiers& m) {
  if (m.to_integral) x = round_to_integer(x, m.rounding);
  if (m.sat && is_float(to)) x = x > 0 ? std::min(x, 1.0) : 0;
  if (m.relu && x <= 0) x = 0;  // also replaces -0
  if (!is_float(to)) return to_integer(x, to, m.rounding);
  switch (to) {
    case Type::f64:
      return std::bit_cast<uint64_t>(x);
    case Type::f32: {
      uint32_t bits = encode(x, f32_format, m.rounding, m.satfinite);
      if (m.ftz && (bits & 0x7f800000) == 0) bits &= 0x80000000;
      return bits;
    }
    case Type::tf32:
      return uint64_t{encode(x, tf32_format, m.rounding, m.satfinite)} << 13;
    case Type::f16:
      return encode(x, f16_format, m.rounding, m.satfinite);
    case Type::bf16:
      return encode(x, bf16_format, m.rounding, m.satfinite);
    case Type::e4m3:
      return encode(x, e4m3_format, m.rounding, true);
    default:
      return encode(x, e5m2_format, m.rounding, true);
  }
}

// Converts an integer to a float. A 64-bit integer may not fit a double, so it is rounded here.
double integer_to_real(uint64_t bits, Type from, Type to, Rounding rounding) {
  const bool negative = is_signed(from) && sign_extend(bits, bytes(from)) < 0;
  uint64_t magnitude =
      negative ? 0 - static_cast<uint64_t>(sign_extend(bits, bytes(from))) : low_bits(bits, bytes(from));
  const int keep = to == Type::f64 ? 53 : to == Type::f32 ? 24 : 53;
  const int length = magnitude == 0 ? 0 : 64 - std::countl_zero(magnitude);
  if (length > keep) {
    const int drop = length - keep;
    const uint64_t rest = magnitude & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
    uint64_t kept = magnitude >> drop;
    bool up = rounding == Rounding::rn   ? rest > half || (rest == half && kept & 1)
              : rounding == Rounding::rp ? rest != 0 && !negative
              : rounding == Rounding::rm ? rest != 0 && negative
                                         : false;
    double value = std::ldexp(static_cast<double>(kept + up), drop);
    return negative ? -value : value;
  }
  double value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

uint64_t clamp_integer(uint64_t bits, Type from, Type to) {
  const __int128 value = is_signed(from) ? static_cast<__int128>(sign_extend(bits, bytes(from)))
                                         : static_cast<__int128>(low_bits(bits, bytes(from)));
  const int width = 8 * bytes(to);
  const __int128 most = (static_cast<__int128>(1) << (is_signed(to) ? width - 1 : width)) - 1,
                 least = is_signed(to) ? -most - 1 : 0;
  return static_cast<uint64_t>(std::min(std::max(value, least), most));
}

uint64_t load(const std::byte* r, int lane, int width) {
  uint64_t x = 0;
  std::memcpy(&x, r + static_cast<ptrdiff_t>(lane) * width, static_cast<size_t>(width));
  return x;
}

// Returns the result that an H100 computes for a NaN, if that is neither the canonical NaN of a float type
// nor the result of to_integer(). For an f64, the result has the upper bits of the payload, or is the most
// negative number. For a bf16, and for an f32 that becomes tf32, the bits are preserved.
std::optional<uint64_t> of_nan(uint64_t bits, Type from, Type to) {
  if (from == Type::bf16 && to == Type::f32) return bits << 16;
  if (from == Type::f32 && to == Type::tf32) return (bits | 0x400000) & ~uint64_t{0x1fff};
  if (from != Type::f64) return std::nullopt;
  if (to == Type::f32) return (bits >> 63 << 31) | 0x7fc00000 | (bits >> 29 & 0x7fffff);
  if (to == Type::f16) return (bits >> 63 << 15) | 0x7e00 | (bits >> 42 & 0x3ff);
  if (to == Type::u32 || to == Type::s32) return uint64_t{1} << 31;
  return std::nullopt;
}

struct Convert {
  WideRegister d, a;
  Type to, from;
  ConvertModifiers modifiers;
};

void execute_cvt(Warp& w, const Convert& x, Lanes lanes) {
  const Type to = x.to, from = x.from;
  const ConvertModifiers m = x.modifiers;
  std::byte *d = w.at<std::byte>(x.d.r), *a = w.at<std::byte>(x.a.r);
  for_lanes(lanes, [&](int lane) {
    uint64_t bits = low_bits(load(a, lane, x.a.bytes), bytes(from)), out;
    if (is_float(from)) {
      double value = real_value(bits, from);
      if (m.ftz && from == Type::f32 && std::fabs(value) < 0x1p-126) value = std::copysign(0.0, value);
      out = from_real(value, to, m);
      if (std::isnan(value) && !m.sat && !m.relu) out = of_nan(bits, from, to).value_or(out);
    } else if (is_float(to)) {
      out = from_real(integer_to_real(bits, from, to, m.rounding), to, m);
    } else {
      out = m.sat             ? clamp_integer(bits, from, to)
            : is_signed(from) ? static_cast<uint64_t>(sign_extend(bits, bytes(from)))
                              : bits;
    }
    out = low_bits(out, bytes(to));
    if (!is_float(to) && is_signed(to))
      out = static_cast<uint64_t>(sign_extend(out, bytes(to)));  // the register may be wider
    std::memcpy(d + static_cast<ptrdiff_t>(lane) * x.d.bytes, &out, x.d.bytes);
  });
}

// cvt of two f32 numbers: a becomes the upper half of d.
struct ConvertPair {
  Register d, a, b;
  Type to;
  ConvertModifiers modifiers;
};

void execute_cvt_pair(Warp& w, const ConvertPair& x, Lanes lanes) {
  const Type to = x.to;
  const float *high = w.at<float>(x.a), *low = w.at<float>(x.b);
  const bool plain = x.modifiers == ConvertModifiers{};
  auto one = [&](float value, Type type) -> uint32_t {
    if (type == Type::bf16 && plain) return to_bf16(value);
    return static_cast<uint32_t>(from_real(static_cast<double>(value), type, x.modifiers));
  };
  for_lanes(lanes, [&](int k) {
    if (to == Type::f16x2 || to == Type::bf16x2) {
      Type half = to == Type::f16x2 ? Type::f16 : Type::bf16;
      w.at<uint32_t>(x.d)[k] = one(high[k], half) << 16 | one(low[k], half);
    } else {
      Type quarter = to == Type::e4m3x2 ? Type::e4m3 : Type::e5m2;
      w.at<uint16_t>(x.d)[k] = static_cast<uint16_t>(one(high[k], quarter) << 8 | one(low[k], quarter));
    }
  });
}

// cvt between f16x2 and e4m3x2 or e5m2x2.
struct ConvertPacked {
  Register d, a;
  Type to, from;
  ConvertModifiers modifiers;
};

void execute_cvt_packed(Warp& w, const ConvertPacked& x, Lanes lanes) {
  const Type to = x.to, from = x.from;
  auto half_of = [](Type t) {
    return t == Type::f16x2    ? Type::f16
           : t == Type::bf16x2 ? Type::bf16
           : t == Type::e4m3x2 ? Type::e4m3
                               : Type::e5m2;
  };
  const int in = bytes(from) / 2, out = bytes(to) / 2;
  std::byte *d = w.at<std::byte>(x.d), *a = w.at<std::byte>(x.a);
  for_lanes(lanes, [&](int lane) {
    uint64_t bits = load(a, lane, 2 * in), result = 0;
    for (int k = 0; k < 2; ++k) {
      double value = real_value(low_bits(bits >> (8 * in * k), in), half_of(from));
      result |= low_bits(from_real(value, half_of(to), x.modifiers), out) << (8 * out * k);
    }
    std::memcpy(d + static_cast<ptrdiff_t>(lane) * 2 * out, &result, static_cast<size_t>(2 * out));
  });
}

template <class D, class S>
struct Plain {
  D operator()(S x) const { return static_cast<D>(x); }
};

// cvt.pack: {c, sat(a), sat(b)}. sat(a) and sat(b) have the bits of their type and are below the bits of c.
template <int bits, bool is_signed>
struct ConvertPack {
  uint32_t operator()(int32_t a, int32_t b, uint32_t c) const {
    static constexpr int32_t most = (1 << (is_signed ? bits - 1 : bits)) - 1,
                             least = is_signed ? -most - 1 : 0;
    auto clamped = [](int32_t x) {
      return static_cast<uint32_t>(std::clamp(x, least, most)) & ((1u << bits) - 1);
    };
    return (bits == 16 ? 0 : c << (2 * bits % 32)) | clamped(a) << bits | clamped(b);
  }
};

void decode_cvt_pack(Decode& d) {
  const std::string_view to = d.one_of({"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"});
  const Register to_d = d.destination(0, Type::b32), a = d.source(1, Type::s32), b = d.source(2, Type::s32);
  const Ternary x{to_d, a, b, d.count() > 3 ? d.source(3, Type::b32) : b};
  auto pack = [&]<int bits>(std::integral_constant<int, bits>) {
    to[0] == 's' ? d.run<ternary<uint32_t, int32_t, int32_t, uint32_t, ConvertPack<bits, true>>>(x)
                 : d.run<ternary<uint32_t, int32_t, int32_t, uint32_t, ConvertPack<bits, false>>>(x);
  };
  switch (to_number(to.substr(1))) {
    case 16:
      return pack(std::integral_constant<int, 16>());
    case 8:
      return pack(std::integral_constant<int, 8>());
    case 4:
      return pack(std::integral_constant<int, 4>());
    default:
      return pack(std::integral_constant<int, 2>());
  }
}

void decode_cvt(Decode& d) {
  if (d.has("pack")) return decode_cvt_pack(d);
  ConvertModifiers m;
  m.ftz = d.has("ftz");
  m.sat = d.has("sat");
  m.satfinite = d.has("satfinite");
  m.relu = d.has("relu");
  m.to_integral = !d.one_of({"rni", "rzi", "rmi", "rpi"}).empty();
  m.rounding = rounding_of(d);
  const Type to = d.type(0), from = d.type(1);
  const bool packed_to = to == Type::f16x2 || to == Type::bf16x2 || to == Type::e4m3x2 || to == Type::e5m2x2;
  if (packed_to && from == Type::f32) {
    return d.run<execute_cvt_pair>({d.destination(0, to), d.source(1, from), d.source(2, from), to, m});
  }
  if (packed_to) {
    return d.run<execute_cvt_packed>({d.destination(0, to), d.source(1, from), to, from, m});
  }
  const Convert x{d.wide(d.operand(0), to, true), d.wide(d.operand(1), from, false), to, from, m};
  // Address computations use these conversions, so these have their own handlers, which the compiler
  // vectorises.
  const Unary plain{x.d.r, x.a.r};
  if (x.d.bytes == bytes(to) && x.a.bytes == bytes(from) && m == ConvertModifiers{.rounding = m.rounding}) {
    if (bytes(to) == 8 && from == Type::u32 && !is_float(to))
      return d.run<unary<uint64_t, uint32_t, Plain<uint64_t, uint32_t>>>(plain);
    if (bytes(to) == 8 && from == Type::s32 && !is_float(to))
      return d.run<unary<int64_t, int32_t, Plain<int64_t, int32_t>>>(plain);
    if (bytes(to) == 4 && !is_float(to) && (from == Type::u64 || from == Type::s64))
      return d.run<unary<uint32_t, uint64_t, Plain<uint32_t, uint64_t>>>(plain);
    if (to == Type::f32 && from == Type::s32 && m.rounding == Rounding::rn)
      return d.run<unary<float, int32_t, Plain<float, int32_t>>>(plain);
  }
  d.run<execute_cvt>(x);
}

// Converts between a generic address and an address in a state space, whose window is `distance` away.
struct ConvertAddress {
  Register d, a;
  uint64_t distance;
};

template <class T>
void execute_cvta(Warp& w, const ConvertAddress& x, Lanes lanes) {
  each_lane(
      lanes, [distance = static_cast<T>(x.distance)](T a) { return static_cast<T>(a + distance); },
      w.at<T>(x.d), w.at<T>(x.a));
}

void decode_cvta(Decode& d) {
  const bool to = d.has("to");
  std::string_view space = d.one_of(
      {"global", "shared::cluster", "shared::cta", "shared", "local", "const", "param::entry", "param"});
  Type type = d.type();
  const auto [converted, address] = unary_operands(d, type);
  uint64_t window = space.starts_with("shared")  ? shared_window
                    : space == "local"           ? local_window
                    : space.starts_with("param") ? param_window
                                                 : 0;
  const ConvertAddress x{converted, address, to ? 0 - window : window};
  bytes(type) == 8 ? d.run<execute_cvta<uint64_t>>(x) : d.run<execute_cvta<uint32_t>>(x);
}

struct IsSpace {
  Register p, a;
  Space space;
};

void execute_isspacep(Warp& w, const IsSpace& x, Lanes lanes) {
  const uint64_t* a = w.at<uint64_t>(x.a);
  uint32_t& p = *w.at<uint32_t>(x.p);
  for_lanes(lanes, [&](int k) {
    bool yes = false;
    const bool local = in_window(a[k], local_window), shared = in_window(a[k], shared_window),
               param = in_window(a[k], param_window);
    switch (x.space) {
      case Space::global:
        yes = !local && !shared && !param;
        break;
      case Space::shared:
        yes = shared && (((a[k] >> 24) & 255) == 0 || ((a[k] >> 24) & 255) == w.cta.rank + 1);
        break;
      case Space::cluster:
        yes = shared;
        break;
      case Space::local:
        yes = local;
        break;
      default:
        yes = param;
    }
    p = (p & ~(1u << k)) | (static_cast<Lanes>(yes) << k);
  });
}

void decode_isspacep(Decode& d) {
  std::string_view space = d.one_of(
      {"global", "const", "shared::cluster", "shared::cta", "shared", "local", "param::entry", "param"});
  const Space which = space == "global" || space == "const" ? Space::global
                      : space == "shared::cluster"          ? Space::cluster
                      : space.starts_with("shared")         ? Space::shared
                      : space == "local"                    ? Space::local
                                                            : Space::param;
  d.run<execute_isspacep>({d.destination(0, Type::pred), d.source(1, Type::b64), which});
}

struct IsType {
  Register p;
};

// The result is always false, because the emulator has no textures, samplers or surfaces.
void execute_istypep(Warp& w, const IsType& x, Lanes lanes) { *w.at<uint32_t>(x.p) &= ~lanes; }

void decode_istypep(Decode& d) {
  d.source(1, Type::b64);
  d.run<execute_istypep>({d.destination(0, Type::pred)});
}

}  // namespace

void add_convert(DecodeTable& t) {
  t["cvt"] = decode_cvt;
  t["cvta"] = decode_cvta;
  t["isspacep"] = decode_isspacep;
  t["istypep"] = decode_istypep;
}

}  // namespace ptxbuilder::runtime::emulator
