// Executes integer arithmetic and logic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift
// Instructions").
#include <algorithm>
#include <bit>
#include <limits>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

template <class T>
struct Add {
  T operator()(T a, T b) const { return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b)); }
};

template <class T>
struct Sub {
  T operator()(T a, T b) const { return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b)); }
};

template <class T>
using Widest =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
struct MulLo {
  T operator()(T a, T b) const { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};

template <class T>
struct MulHi {
  T operator()(T a, T b) const {
    return static_cast<T>((static_cast<Widest<T>>(a) * static_cast<Widest<T>>(b)) >> (8 * sizeof(T)));
  }
};

// The hardware returns all ones for a division by zero, which PTX leaves undefined.
template <class T>
struct Div {
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
    return static_cast<T>(a / b);
  }
};

template <class T>
struct Rem {
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};

template <class T>
struct Min {
  T operator()(T a, T b) const { return a < b ? a : b; }
};

template <class T>
struct Max {
  T operator()(T a, T b) const { return a > b ? a : b; }
};

template <class T>
struct MinRelu {
  T operator()(T a, T b) const { return std::max<T>(std::min(a, b), 0); }
};

template <class T>
struct MaxRelu {
  T operator()(T a, T b) const { return std::max<T>(std::max(a, b), 0); }
};

template <class T>
struct Neg {
  T operator()(T a) const { return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a)); }
};

template <class T>
struct Abs {
  T operator()(T a) const { return a < 0 ? static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a)) : a; }
};

template <class T>
struct Sad {
  T operator()(T a, T b, T c) const {
    return static_cast<T>(static_cast<Wrap<T>>(c) +
                          (a < b ? static_cast<Wrap<T>>(b) - static_cast<Wrap<T>>(a)
                                 : static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b)));
  }
};

template <class T>
struct MadLo {
  T operator()(T a, T b, T c) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
  }
};

template <class T>
struct MadHi {
  T operator()(T a, T b, T c) const {
    return static_cast<T>(static_cast<Wrap<T>>(MulHi<T>{}(a, b)) + static_cast<Wrap<T>>(c));
  }
};

struct MadHiSat {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    return static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{MulHi<int32_t>{}(a, b)} + c, INT32_MIN, INT32_MAX));
  }
};

template <class T>
using Twice = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                 std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
struct MulWide {
  Twice<T> operator()(T a, T b) const {
    return static_cast<Twice<T>>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b));
  }
};

template <class T>
struct MadWide {
  Twice<T> operator()(T a, T b, Twice<T> c) const {
    using U = Wrap<Twice<T>>;
    return static_cast<Twice<T>>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)) + static_cast<U>(c));
  }
};

struct AddSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, std::numeric_limits<int32_t>::min(),
                                                    std::numeric_limits<int32_t>::max()));
  }
};

struct SubSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, std::numeric_limits<int32_t>::min(),
                                                    std::numeric_limits<int32_t>::max()));
  }
};

// mul24: the product of two 24-bit factors has 48 bits.
template <class T, bool high>
struct Mul24 {
  T operator()(T a, T b) const {
    auto factor = [](T x) {
      return static_cast<int64_t>(static_cast<T>(static_cast<uint32_t>(x) << 8)) >> 8;
    };
    const int64_t product = factor(a) * factor(b);
    return static_cast<T>(static_cast<uint64_t>(high ? product >> 16 : product));
  }
};

template <class T, bool high>
struct Mad24 {
  T operator()(T a, T b, T c) const { return Add<T>{}(Mul24<T, high>{}(a, b), c); }
};

struct Mad24Sat {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    return AddSat{}(Mul24<int32_t, true>{}(a, b), c);
  }
};

// add.cc, addc, sub.cc and subc of a and b, and mad.lo.cc and madc.hi of a, b and c. They use the warp's
// carry.
enum class Extended : uint8_t { add, sub, mad_lo, mad_hi };

struct ExtendedPrecision {
  Register d, a, b, c;  // c is used only by mad
  Extended op;
  bool carry_in, carry_out;
};

bool has_product(Extended op) { return op == Extended::mad_lo || op == Extended::mad_hi; }

template <class T>
void execute_carry(Warp& w, const ExtendedPrecision& x, Lanes lanes) {
  T* out = w.at<T>(x.d);
  for_lanes(lanes, [&](int lane) {
    unsigned __int128 left = w.at<T>(x.a)[lane], right = w.at<T>(x.b)[lane];
    if (has_product(x.op)) {
      const unsigned __int128 product = left * right;
      left = static_cast<T>(x.op == Extended::mad_hi ? product >> (8 * sizeof(T)) : product);
      right = w.at<T>(x.c)[lane];
    }
    // A difference is left + ~right + 1. Its carry is 1 if nothing is borrowed, and addc reads the carry in
    // this form too.
    const bool minus = x.op == Extended::sub;
    if (minus) right = static_cast<T>(~right);
    const unsigned carry = x.carry_in ? (w.carry >> lane) & 1 : minus;
    const unsigned __int128 sum = left + right + carry;
    out[lane] = static_cast<T>(sum);
    if (x.carry_out) {
      const bool over = (sum >> (8 * sizeof(T))) & 1;
      w.carry = (w.carry & ~(1u << lane)) | (static_cast<Lanes>(over) << lane);
    }
  });
}

void decode_carry(Decode& d, Extended op, bool carry_in) {
  ExtendedPrecision x{};
  x.op = op;
  x.carry_in = carry_in;
  x.carry_out = d.has("cc");
  Type type = d.type();
  x.d = d.destination(0, type);
  x.a = d.source(1, type);
  x.b = d.source(2, type);
  if (has_product(op)) x.c = d.source(3, type);
  bytes(type) == 8 ? d.run<execute_carry<uint64_t>>(x) : d.run<execute_carry<uint32_t>>(x);
}

Extended take_product(Decode& d) {
  return d.one_of({"lo", "hi"}) == "hi" ? Extended::mad_hi : Extended::mad_lo;
}

void decode_mul(Decode& d) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  std::string_view part = d.one_of({"lo", "hi", "wide"});
  Type type = d.type();
  if (part == "lo" || part == "") return decode_binary<MulLo>(d, type);
  if (part == "hi") return decode_binary<MulHi>(d, type);
  Type twice = bytes(type) == 2 ? Type::b32 : Type::b64;
  const Binary x{d.destination(0, twice), d.source(1, type), d.source(2, type)};
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < 8)
      d.run<binary<Twice<T>, T, T, MulWide<T>>>(x);
    else
      d.refuse("mul.wide does not take 64-bit factors");
  });
}

void decode_mad(Decode& d) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  if (d.has("cc")) return decode_carry(d, take_product(d), false);
  std::string_view part = d.one_of({"lo", "hi", "wide"});
  Type type = d.type();
  if (part == "wide") {
    Type twice = bytes(type) == 2 ? Type::b32 : Type::b64;
    const Ternary x{d.destination(0, twice), d.source(1, type), d.source(2, type), d.source(3, twice)};
    with_integer(d, type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (sizeof(T) < 8)
        d.run<ternary<Twice<T>, T, T, Twice<T>, MadWide<T>>>(x);
      else
        d.refuse("mad.wide does not take 64-bit factors");
    });
    return;
  }
  const bool saturate = d.has("sat");
  const Ternary x = ternary_operands(d, type);
  if (saturate) {
    return d.run<ternary<int32_t, int32_t, int32_t, int32_t, MadHiSat>>(x);
  }
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    part == "hi" ? d.run<ternary<T, T, T, T, MadHi<T>>>(x) : d.run<ternary<T, T, T, T, MadLo<T>>>(x);
  });
}

template <template <class> class Op, class Sat>
void decode_sum(Decode& d, Extended with_carry) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  if (d.has("cc")) return decode_carry(d, with_carry, false);
  const bool saturate = d.has("sat");
  Type type = d.type();
  if (!saturate) return decode_binary<Op>(d, type);
  const Binary x = binary_operands(d, type);
  d.run<binary<int32_t, int32_t, int32_t, Sat>>(x);
}

template <template <class> class Op, template <class> class Relu>
void decode_extreme(Decode& d) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  const bool relu = d.has("relu");
  Type type = d.type();
  if (relu)
    decode_binary<Relu>(d, type);
  else
    decode_binary<Op>(d, type);
}

enum class DotKind : uint8_t { dp4a, dp2a_lo, dp2a_hi };

struct DotProduct {
  Register d, a, b, c;
  bool a_signed, b_signed;
  DotKind kind;
};

void execute_dot(Warp& w, const DotProduct& x, Lanes lanes) {
  const bool four = x.kind == DotKind::dp4a;
  auto element = [](uint32_t from, int k, int bits, bool is_signed_element) -> int64_t {
    uint32_t v = (from >> (k * bits)) & ((1u << bits) - 1);
    return is_signed_element && v >> (bits - 1) ? static_cast<int64_t>(v) - (1 << bits) : v;
  };
  each_lane(
      lanes,
      [&](uint32_t a, uint32_t b, uint32_t c) {
        int64_t sum = c;
        for (int k = 0; k < (four ? 4 : 2); ++k)
          sum += element(a, k, four ? 8 : 16, x.a_signed) *
                 element(b, x.kind == DotKind::dp2a_hi ? k + 2 : k, 8, x.b_signed);
        return static_cast<uint32_t>(sum);
      },
      w.at<uint32_t>(x.d), w.at<uint32_t>(x.a), w.at<uint32_t>(x.b), w.at<uint32_t>(x.c));
}

void decode_dot(Decode& d, DotKind kind) {
  const bool a_signed = is_signed(d.type(0)), b_signed = is_signed(d.type(1));
  const auto [to, a, b, c] = ternary_operands(d, Type::b32);
  d.run<execute_dot>({to, a, b, c, a_signed, b_signed, kind});
}

void decode_mul24(Decode& d) {
  const bool high = d.one_of({"lo", "hi"}) == "hi";
  const Type type = d.type();
  const Binary x = binary_operands(d, type);
  if (type == Type::s32)
    high ? d.run<binary<int32_t, int32_t, int32_t, Mul24<int32_t, true>>>(x)
         : d.run<binary<int32_t, int32_t, int32_t, Mul24<int32_t, false>>>(x);
  else
    high ? d.run<binary<uint32_t, uint32_t, uint32_t, Mul24<uint32_t, true>>>(x)
         : d.run<binary<uint32_t, uint32_t, uint32_t, Mul24<uint32_t, false>>>(x);
}

void decode_mad24(Decode& d) {
  const bool high = d.one_of({"lo", "hi"}) == "hi", saturate = d.has("sat");
  const Type type = d.type();
  const Ternary x = ternary_operands(d, type);
  if (saturate)
    d.run<ternary<int32_t, int32_t, int32_t, int32_t, Mad24Sat>>(x);
  else if (type == Type::s32)
    high ? d.run<ternary<int32_t, int32_t, int32_t, int32_t, Mad24<int32_t, true>>>(x)
         : d.run<ternary<int32_t, int32_t, int32_t, int32_t, Mad24<int32_t, false>>>(x);
  else
    high ? d.run<ternary<uint32_t, uint32_t, uint32_t, uint32_t, Mad24<uint32_t, true>>>(x)
         : d.run<ternary<uint32_t, uint32_t, uint32_t, uint32_t, Mad24<uint32_t, false>>>(x);
}

void decode_div(Decode& d) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  decode_binary<Div>(d, d.type());
}

template <template <class> class Op>
void decode_sign(Decode& d) {
  if (is_float(d.type())) return decode_float_arithmetic(d);
  decode_unary<Op>(d, d.type());
}

}  // namespace

void add_integer(DecodeTable& t) {
  t["add"] = [](Decode& d) { decode_sum<Add, AddSat>(d, Extended::add); };
  t["sub"] = [](Decode& d) { decode_sum<Sub, SubSat>(d, Extended::sub); };
  t["addc"] = [](Decode& d) { decode_carry(d, Extended::add, true); };
  t["subc"] = [](Decode& d) { decode_carry(d, Extended::sub, true); };
  t["madc"] = [](Decode& d) { decode_carry(d, take_product(d), true); };
  t["mul24"] = decode_mul24;
  t["mad24"] = decode_mad24;
  t["mul"] = decode_mul;
  t["mad"] = decode_mad;
  t["div"] = decode_div;
  t["rem"] = [](Decode& d) { decode_binary<Rem>(d, d.type()); };
  t["min"] = decode_extreme<Min, MinRelu>;
  t["max"] = decode_extreme<Max, MaxRelu>;
  t["abs"] = decode_sign<Abs>;
  t["neg"] = decode_sign<Neg>;
  t["sad"] = [](Decode& d) {
    Type type = d.type();
    const Ternary x = ternary_operands(d, type);
    with_integer(d, type, [&](auto zero) {
      using T = decltype(zero);
      d.run<ternary<T, T, T, T, Sad<T>>>(x);
    });
  };
  t["dp4a"] = [](Decode& d) { decode_dot(d, DotKind::dp4a); };
  t["dp2a"] = [](Decode& d) {
    decode_dot(d, d.one_of({"lo", "hi"}) == "hi" ? DotKind::dp2a_hi : DotKind::dp2a_lo);
  };
}

}  // namespace ptxbuilder::runtime::emulator
