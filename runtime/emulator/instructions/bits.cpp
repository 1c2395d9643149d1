// Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions", popc, clz, bfind, brev, bfe, bfi,
// prmt).
#include <algorithm>
#include <bit>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

template <class T>
struct And {
  T operator()(T a, T b) const { return static_cast<T>(a & b); }
};

template <class T>
struct Or {
  T operator()(T a, T b) const { return static_cast<T>(a | b); }
};

template <class T>
struct Xor {
  T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

template <class T>
struct Not {
  T operator()(T a) const { return static_cast<T>(~a); }
};

template <class T>
struct Cnot {
  T operator()(T a) const { return a == 0; }
};

template <class T>
struct Popc {
  uint32_t operator()(T a) const { return static_cast<uint32_t>(std::popcount(static_cast<Wrap<T>>(a))); }
};

template <class T>
struct Clz {
  uint32_t operator()(T a) const { return static_cast<uint32_t>(std::countl_zero(static_cast<Wrap<T>>(a))); }
};

template <class T>
struct Brev {
  T operator()(T a) const {
    uint64_t r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i)
      r |= ((static_cast<uint64_t>(a) >> i) & 1) << (8 * sizeof(T) - 1 - i);
    return static_cast<T>(r);
  }
};

template <class T>
struct Bfind {
  uint32_t operator()(T a) const {
    auto u = static_cast<Wrap<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return u == 0 ? ~0u
                  : static_cast<uint32_t>(8 * sizeof(T) - 1) - static_cast<uint32_t>(std::countl_zero(u));
  }
};

template <class T>
struct BfindShift {
  uint32_t operator()(T a) const {
    uint32_t at = Bfind<T>{}(a);
    return at == ~0u ? at : static_cast<uint32_t>(8 * sizeof(T) - 1) - at;
  }
};

// Shift amounts past the width are the width (PTX ISA, shl, shr).
template <class T>
struct Shl {
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<Wrap<T>>(a) << n);
  }
};

template <class T>
struct Shr {
  T operator()(T a, uint32_t n) const {
    if (n >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> n);
  }
};

template <class T>
struct Bfe {
  T operator()(T a, uint32_t from, uint32_t length) const {
    constexpr uint32_t width = 8 * sizeof(T);
    from &= 255;
    length &= 255;
    using U = Wrap<T>;
    if (length == 0) return 0;
    bool negative = std::is_signed_v<T> && (static_cast<U>(a) >> std::min(from + length - 1, width - 1)) & 1;
    U bits = from >= width ? 0 : static_cast<U>(a) >> from;
    uint32_t have = from >= width ? 0 : std::min(length, width - from);
    if (have < width) bits &= static_cast<U>((U{1} << have) - 1);
    if (negative && have < width) bits |= static_cast<U>(~U{0} << have);
    return static_cast<T>(bits);
  }
};

template <class T>
T bfi(T a, T b, uint32_t from, uint32_t length) {
  constexpr uint32_t width = 8 * sizeof(T);
  from &= 255;
  length &= 255;
  if (from >= width || length == 0) return b;
  T mask = length >= width ? ~T{0} : (T{1} << length) - 1;
  mask <<= from;
  return (b & ~mask) | ((a << from) & mask);
}

template <class T>
void execute_bfi(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(lanes, bfi<T>, w.at<T>(i.r[0]), w.at<T>(i.r[1]), w.at<T>(i.r[2]), w.at<uint32_t>(i.r[3]),
            w.at<uint32_t>(i.r[4]));
}

template <template <class> class Op>
void set_count(Decode& d) {  // to .u32
  Type type = d.take_type();
  d.done();
  d.expect(2, 2);
  d.out.r[0] = d.destination(0, Type::u32);
  d.out.r[1] = d.source(1, type);
  with_integer(d, type,
               [&](auto zero) { d.out.execute = unary<uint32_t, decltype(zero), Op<decltype(zero)>>; });
}

template <template <class> class Op>
void decode_shift(Decode& d) {
  Type type = d.take_type();
  d.done();
  d.expect(3, 3);
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, Type::u32);
  with_integer(d, type, [&](auto zero) {
    d.out.execute = mixed<decltype(zero), decltype(zero), uint32_t, Op<decltype(zero)>>;
  });
}

// and, or, xor, not: also of predicates, which are words of 32 lanes.
template <template <class> class Op>
void execute_predicates(Warp& w, const Instruction& i, Lanes lanes) {
  uint32_t value = Op<uint32_t>{}(*w.at<uint32_t>(i.r[1]), *w.at<uint32_t>(i.r[2]));
  uint32_t& out = *w.at<uint32_t>(i.r[0]);
  out = (out & ~lanes) | (value & lanes);
}

void execute_not_predicate(Warp& w, const Instruction& i, Lanes lanes) {
  uint32_t& out = *w.at<uint32_t>(i.r[0]);
  out = (out & ~lanes) | (~*w.at<uint32_t>(i.r[1]) & lanes);
}

template <template <class> class Op>
void decode_logic(Decode& d) {
  Type type = d.take_type();
  if (type != Type::pred) return set_binary<Op>(d, type);
  operands(d, type, 2);
  d.out.execute = execute_predicates<Op>;
}

void decode_not(Decode& d) {
  Type type = d.take_type();
  if (type != Type::pred) return set_unary<Not>(d, type);
  operands(d, type, 1);
  d.out.execute = execute_not_predicate;
}

void execute_lop3(Warp& w, const Instruction& i, Lanes lanes) {
  const auto table = static_cast<uint32_t>(i.immediate);
  each_lane(
      lanes,
      [table](uint32_t a, uint32_t b, uint32_t c) {
        uint32_t r = 0;
        if (table & 0x01) r |= ~a & ~b & ~c;
        if (table & 0x02) r |= ~a & ~b & c;
        if (table & 0x04) r |= ~a & b & ~c;
        if (table & 0x08) r |= ~a & b & c;
        if (table & 0x10) r |= a & ~b & ~c;
        if (table & 0x20) r |= a & ~b & c;
        if (table & 0x40) r |= a & b & ~c;
        if (table & 0x80) r |= a & b & c;
        return r;
      },
      w.at<uint32_t>(i.r[0]), w.at<uint32_t>(i.r[1]), w.at<uint32_t>(i.r[2]), w.at<uint32_t>(i.r[3]));
}

void decode_lop3(Decode& d) {
  d.take("b32");
  d.done();
  d.expect(5, 5);
  d.out.r[0] = d.destination(0, Type::b32);
  for (size_t i = 1; i < 4; ++i) d.out.r[i] = d.source(i, Type::b32);
  d.out.immediate = d.immediate(4);
  d.out.execute = execute_lop3;
}

// PTX ISA, prmt: selects bytes of {b, a}; the modes make the selectors from the low two bits of c.
uint32_t permute(uint32_t a, uint32_t b, uint32_t c, uint8_t mode) {
  const uint64_t from = (uint64_t{b} << 32) | a;
  uint32_t selector = c, n = c & 3;
  constexpr uint32_t f4e[] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[] = {0x5670, 0x6701, 0x7012, 0x0123},
                     rc8[] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[] = {0x3210, 0x3211, 0x3222, 0x3333},
                     ecr[] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
  const uint32_t* rows[] = {nullptr, f4e, b4e, rc8, ecl, ecr, rc16};
  if (mode) selector = rows[mode][n];
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) {
    uint32_t s = (selector >> (4 * k)) & 15;
    auto byte = static_cast<uint8_t>(from >> (8 * (s & 7)));
    if (mode == 0 && s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= static_cast<uint32_t>(byte) << (8 * k);
  }
  return r;
}

void execute_prmt(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(
      lanes, [mode = i.mode[0]](uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c, mode); },
      w.at<uint32_t>(i.r[0]), w.at<uint32_t>(i.r[1]), w.at<uint32_t>(i.r[2]), w.at<uint32_t>(i.r[3]));
}

void decode_prmt(Decode& d) {
  d.take("b32");
  uint8_t n = 1;
  for (std::string_view mode : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    if (d.take(mode)) d.out.mode[0] = n;
    ++n;
  }
  operands(d, Type::b32, 3);
  if (d.out.r[3] != d.out.r[1] && d.out.r[3] != d.out.r[2]) d.passes(Flow::copies, {d.out.r[1], d.out.r[2]});
  d.out.execute = execute_prmt;
}

// shf.l and shf.r: the funnel of {b, a}.
void execute_shf(Warp& w, const Instruction& i, Lanes lanes) {
  const bool left = i.mode[0], wraps = i.mode[1];
  each_lane(
      lanes,
      [=](uint32_t a, uint32_t b, uint32_t c) {
        const uint32_t n = wraps ? c & 31 : std::min(c, 32u);
        const uint64_t both = (uint64_t{b} << 32) | a;
        return static_cast<uint32_t>(left ? (both << n) >> 32 : both >> n);
      },
      w.at<uint32_t>(i.r[0]), w.at<uint32_t>(i.r[1]), w.at<uint32_t>(i.r[2]), w.at<uint32_t>(i.r[3]));
}

void decode_shf(Decode& d) {
  d.out.mode[0] = d.take_one({"l", "r"}) == "l";
  d.out.mode[1] = d.take_one({"wrap", "clamp"}) == "wrap";
  d.take("b32");
  operands(d, Type::b32, 3);
  d.out.execute = execute_shf;
}

void decode_bfe(Decode& d) {
  Type type = d.take_type();
  d.done();
  d.expect(4, 4);
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, Type::u32);
  d.out.r[3] = d.source(3, Type::u32);
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.out.execute = [](Warp& w, const Instruction& i, Lanes lanes) {
      each_lane(lanes, Bfe<T>{}, w.at<T>(i.r[0]), w.at<T>(i.r[1]), w.at<uint32_t>(i.r[2]),
                w.at<uint32_t>(i.r[3]));
    };
  });
}

void decode_bfi(Decode& d) {
  Type type = d.take_type();
  d.done();
  d.require(bytes(type) == 4 || bytes(type) == 8);
  d.expect(5, 5);
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, type);
  d.passes(Flow::copies, {d.out.r[1], d.out.r[2]});
  d.out.r[3] = d.source(3, Type::u32);
  d.out.r[4] = d.source(4, Type::u32);
  d.out.execute = bytes(type) == 8 ? execute_bfi<uint64_t> : execute_bfi<uint32_t>;
}

}  // namespace

void add_bits(DecodeTable& t) {
  t["and"] = decode_logic<And>;
  t["or"] = decode_logic<Or>;
  t["xor"] = decode_logic<Xor>;
  t["not"] = decode_not;
  t["cnot"] = [](Decode& d) { set_unary<Cnot>(d, d.take_type()); };
  t["shl"] = decode_shift<Shl>;
  t["shr"] = decode_shift<Shr>;
  t["popc"] = set_count<Popc>;
  t["clz"] = set_count<Clz>;
  t["bfind"] = [](Decode& d) { d.take("shiftamt") ? set_count<BfindShift>(d) : set_count<Bfind>(d); };
  t["brev"] = [](Decode& d) { set_unary<Brev>(d, d.take_type()); };
  t["bfe"] = decode_bfe;
  t["bfi"] = decode_bfi;
  t["prmt"] = decode_prmt;
  t["shf"] = decode_shf;
  t["lop3"] = decode_lop3;
}

}  // namespace ptxbuilder::runtime::emulator
