// Integer arithmetic and logic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").
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

// Hardware gives all ones for a division by zero; PTX leaves it open.
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

// add.cc, addc, sub.cc, subc, mad.lo.cc, madc.hi: r[0] = r[1] (*) r[2] (+) r[3], with the warp's carry.
enum : uint8_t { carry_in = 1, carry_out = 2, minus = 4, times_lo = 8, times_hi = 16 };

template <class T>
void execute_carry(Warp& w, const Instruction& i, Lanes lanes) {
  const T *a = w.at<T>(i.r[1]), *b = w.at<T>(i.r[2]), *c = w.at<T>(i.r[3]);
  T* out = w.at<T>(i.r[0]);
  for_lanes(lanes, [&](int lane) {
    unsigned __int128 x = a[lane], y = b[lane];
    if (i.mode[0] & (times_lo | times_hi)) {
      unsigned __int128 product = x * y;
      x = static_cast<T>(i.mode[0] & times_hi ? product >> (8 * sizeof(T)) : product);
      y = c[lane];
    }
    const unsigned carry = i.mode[0] & carry_in ? (w.carry >> lane) & 1 : 0;
    unsigned __int128 sum = i.mode[0] & minus ? x - y - carry : x + y + carry;
    out[lane] = static_cast<T>(sum);
    if (i.mode[0] & carry_out) {
      const bool over = (sum >> (8 * sizeof(T))) & 1;
      w.carry = (w.carry & ~(1u << lane)) | (static_cast<Lanes>(over) << lane);
    }
  });
}

void decode_carry(Decode& d, uint8_t mode, size_t sources) {
  if (d.take("cc")) mode |= carry_out;
  Type type = d.take_type();
  d.require(bytes(type) == 4 || bytes(type) == 8);
  operands(d, type, sources);
  if (sources == 2) d.out.r[3] = d.out.r[2];
  d.out.mode[0] = mode;
  d.out.execute = bytes(type) == 8 ? execute_carry<uint64_t> : execute_carry<uint32_t>;
}

bool has_float(const Decode& d) {
  for (std::string_view m : d.modifiers)
    if (auto t = type_named(m)) return is_float(*t);
  return false;
}

bool has(const Decode& d, std::string_view modifier) {
  return std::find(d.modifiers.begin(), d.modifiers.end(), modifier) != d.modifiers.end();
}

void decode_mul(Decode& d) {
  if (has_float(d)) return decode_float_arithmetic(d);
  std::string_view part = d.take_one({"lo", "hi", "wide"});
  Type type = d.take_type();
  if (part == "lo" || part == "") return set_binary<MulLo>(d, type);
  if (part == "hi") return set_binary<MulHi>(d, type);
  d.done();
  d.expect(3, 3);
  Type twice = bytes(type) == 2 ? Type::b32 : Type::b64;
  d.out.r[0] = d.destination(0, twice);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, type);
  with_integer(d, type, [&](auto zero) {
    if constexpr (sizeof(zero) < 8)
      d.out.execute = binary<Twice<decltype(zero)>, decltype(zero), MulWide<decltype(zero)>>;
    else
      d.refuse("mul.wide does not take 64-bit factors");
  });
}

void decode_mad(Decode& d) {
  if (has_float(d)) return decode_float_arithmetic(d);
  if (has(d, "cc")) return decode_carry(d, d.take_one({"lo", "hi"}) == "hi" ? times_hi : times_lo, 3);
  std::string_view part = d.take_one({"lo", "hi", "wide"});
  Type type = d.take_type();
  if (part == "wide") {
    d.done();
    d.expect(4, 4);
    Type twice = bytes(type) == 2 ? Type::b32 : Type::b64;
    d.out.r[0] = d.destination(0, twice);
    d.out.r[1] = d.source(1, type);
    d.out.r[2] = d.source(2, type);
    d.out.r[3] = d.source(3, twice);
    with_integer(d, type, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (sizeof(T) < 8)
        d.out.execute = ternary<Twice<T>, T, Twice<T>, MadWide<T>>;
      else
        d.refuse("mad.wide does not take 64-bit factors");
    });
    return;
  }
  operands(d, type, 3);
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.out.execute = part == "hi" ? ternary<T, T, T, MadHi<T>> : ternary<T, T, T, MadLo<T>>;
  });
}

template <template <class> class Op, class Sat>
void decode_sum(Decode& d, uint8_t mode) {
  if (has_float(d)) return decode_float_arithmetic(d);
  if (has(d, "cc")) return decode_carry(d, mode, 2);
  const bool saturate = d.take("sat");
  Type type = d.take_type();
  set_binary<Op>(d, type);
  d.require(!saturate || type == Type::s32);
  if (saturate) d.out.execute = binary<int32_t, int32_t, Sat>;
}

template <template <class> class Op, template <class> class Relu>
void decode_extreme(Decode& d) {
  if (has_float(d)) return decode_float_arithmetic(d);
  const bool relu = d.take("relu");
  Type type = d.take_type();
  if (relu)
    set_binary<Relu>(d, type);
  else
    set_binary<Op>(d, type);
}

// dp4a and dp2a: mode[0], mode[1] whether a and b are signed; mode[2] 0 for dp4a, 1 lo, 2 hi of dp2a.
void execute_dot(Warp& w, const Instruction& i, Lanes lanes) {
  auto element = [](uint32_t x, int k, int bits, bool is_signed_element) -> int64_t {
    uint32_t v = (x >> (k * bits)) & ((1u << bits) - 1);
    return is_signed_element && v >> (bits - 1) ? static_cast<int64_t>(v) - (1 << bits) : v;
  };
  each_lane(
      lanes,
      [&](uint32_t a, uint32_t b, uint32_t c) {
        int64_t sum = c;
        for (int k = 0; k < (i.mode[2] ? 2 : 4); ++k)
          sum += element(a, k, i.mode[2] ? 16 : 8, i.mode[0]) *
                 element(b, i.mode[2] == 2 ? k + 2 : k, 8, i.mode[1]);
        return static_cast<uint32_t>(sum);
      },
      w.at<uint32_t>(i.r[0]), w.at<uint32_t>(i.r[1]), w.at<uint32_t>(i.r[2]), w.at<uint32_t>(i.r[3]));
}

void decode_dot(Decode& d, bool four) {
  d.out.mode[2] = four ? 0 : d.take_one({"lo", "hi"}) == "hi" ? 2 : 1;
  d.out.mode[0] = is_signed(d.take_type());
  d.out.mode[1] = is_signed(d.take_type());
  operands(d, Type::b32, 3);
  d.out.execute = execute_dot;
}

void decode_div(Decode& d) {
  if (has_float(d)) return decode_float_arithmetic(d);
  set_binary<Div>(d, d.take_type());
}

template <template <class> class Op>
void decode_sign(Decode& d) {
  if (has_float(d)) return decode_float_arithmetic(d);
  set_unary<Op>(d, d.take_type());
}

}  // namespace

void add_integer(DecodeTable& t) {
  t["add"] = [](Decode& d) { decode_sum<Add, AddSat>(d, 0); };
  t["sub"] = [](Decode& d) { decode_sum<Sub, SubSat>(d, minus); };
  t["addc"] = [](Decode& d) { decode_carry(d, carry_in, 2); };
  t["subc"] = [](Decode& d) { decode_carry(d, carry_in | minus, 2); };
  t["madc"] = [](Decode& d) {
    decode_carry(d, static_cast<uint8_t>(carry_in | (d.take_one({"lo", "hi"}) == "hi" ? times_hi : times_lo)),
                 3);
  };
  t["mul"] = decode_mul;
  t["mad"] = decode_mad;
  t["div"] = decode_div;
  t["rem"] = [](Decode& d) { set_binary<Rem>(d, d.take_type()); };
  t["min"] = decode_extreme<Min, MinRelu>;
  t["max"] = decode_extreme<Max, MaxRelu>;
  t["abs"] = decode_sign<Abs>;
  t["neg"] = decode_sign<Neg>;
  t["sad"] = [](Decode& d) {
    Type type = d.take_type();
    operands(d, type, 3);
    with_integer(d, type, [&](auto zero) {
      d.out.execute = ternary<decltype(zero), decltype(zero), decltype(zero), Sad<decltype(zero)>>;
    });
  };
  t["dp4a"] = [](Decode& d) { decode_dot(d, true); };
  t["dp2a"] = [](Decode& d) { decode_dot(d, false); };
}

}  // namespace ptxbuilder::runtime::emulator
