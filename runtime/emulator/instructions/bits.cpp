// Executes logic instructions, shifts and operations on bit fields (PTX ISA, "Logic and Shift Instructions",
// popc, clz, bfind, brev, bfe, bfi, prmt).
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

// Shift amounts greater than the width count as the width (PTX ISA, shl, shr).
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
    if (sizeof(T) < 8) from &= 255, length &= 255;  // an H100 uses all bits of these numbers if T has 64 bits
    length = std::min(length, 2 * width), from = std::min(from, width);
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

// f is b, with `length` bits of a inserted at bit `position`.
struct BitFieldInsert {
  Register f, a, b, position, length;
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
void execute_bfi(Warp& w, const BitFieldInsert& x, Lanes lanes) {
  each_lane(lanes, bfi<T>, w.at<T>(x.f), w.at<T>(x.a), w.at<T>(x.b), w.at<uint32_t>(x.position),
            w.at<uint32_t>(x.length));
}

template <template <class> class Op>
void decode_count(Decode& d) {  // the result is .u32
  Type type = d.type();
  const Unary x{d.destination(0, Type::u32), d.source(1, type)};
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.run<unary<uint32_t, T, Op<T>>>(x);
  });
}

template <template <class> class Op>
void decode_shift(Decode& d) {
  Type type = d.type();
  const Binary x{d.destination(0, type), d.source(1, type), d.source(2, Type::u32)};
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.run<binary<T, T, uint32_t, Op<T>>>(x);
  });
}

// Execute and, or, xor and not of predicates. A predicate is a word with one bit per lane.
template <template <class> class Op>
void execute_predicates(Warp& w, const Binary& x, Lanes lanes) {
  w.set_predicate(x.d, lanes, Op<uint32_t>{}(*w.at<uint32_t>(x.a), *w.at<uint32_t>(x.b)));
}

void execute_not_predicate(Warp& w, const Unary& x, Lanes lanes) {
  w.set_predicate(x.d, lanes, ~*w.at<uint32_t>(x.a));
}

template <template <class> class Op, Flow flow>
void decode_logic(Decode& d) {
  Type type = d.type();
  if (type != Type::pred)
    decode_binary<Op>(d, type);
  else
    d.run<execute_predicates<Op>>(binary_operands(d, type));
  if (flow == Flow::uses) return;
  // The operands were decoded above, so decoding them again cannot fail. `reads` is cleared first, because
  // passes() removes only one entry per register from it.
  d.reads.clear();
  d.passes(flow, {d.source(1, type), d.source(2, type)});
  d.flow_bytes = static_cast<uint8_t>(bytes(type));
}

void decode_not(Decode& d) {
  Type type = d.type();
  if (type != Type::pred) return decode_unary<Not>(d, type);
  d.run<execute_not_predicate>(unary_operands(d, type));
}

struct Lop3 {
  Register d, a, b, c;
  uint8_t table;  // immLut: bit 4 a + 2 b + c is the result for bits a, b and c
};

void execute_lop3(Warp& w, const Lop3& x, Lanes lanes) {
  each_lane(
      lanes,
      [table = x.table](uint32_t a, uint32_t b, uint32_t c) {
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
      w.at<uint32_t>(x.d), w.at<uint32_t>(x.a), w.at<uint32_t>(x.b), w.at<uint32_t>(x.c));
}

void decode_lop3_predicate(Decode& d, bool conjunction);

void decode_lop3(Decode& d) {
  if (const auto with = d.one_of({"and", "or"}); !with.empty())
    return decode_lop3_predicate(d, with == "and");
  d.run<execute_lop3>({d.destination(0, Type::b32), d.source(1, Type::b32), d.source(2, Type::b32),
                       d.source(3, Type::b32), static_cast<uint8_t>(d.immediate(4))});
}

// lop3 with a second result: a predicate that is true if d is not 0, combined with q.
struct Lop3Predicate {
  Lop3 lop3;
  Register p;
  Predicate q;
  bool conjunction;  // .and if true, otherwise .or
};

void execute_lop3_predicate(Warp& w, const Lop3Predicate& x, Lanes lanes) {
  uint32_t results[32];
  const uint32_t *a = w.at<uint32_t>(x.lop3.a), *b = w.at<uint32_t>(x.lop3.b), *c = w.at<uint32_t>(x.lop3.c);
  Lanes some = 0;
  for (int k = 0; k < 32; ++k) {
    results[k] = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const uint32_t row = (a[k] >> bit & 1) << 2 | (b[k] >> bit & 1) << 1 | (c[k] >> bit & 1);
      results[k] |= static_cast<uint32_t>(x.lop3.table >> row & 1) << bit;
    }
    some |= static_cast<Lanes>(results[k] != 0) << k;
  }
  const Lanes q = w.truth(x.q);
  if (x.lop3.d != no_register) for_lanes(lanes, [&](int k) { w.at<uint32_t>(x.lop3.d)[k] = results[k]; });
  w.set_predicate(x.p, lanes, x.conjunction ? some & q : some | q);
}

void decode_lop3_predicate(Decode& d, bool conjunction) {
  const ptx_text::Operand& to = d.operand(0);
  const Lop3 lop3{d.sink(to.parts[0], Type::b32), d.source(1, Type::b32), d.source(2, Type::b32),
                  d.source(3, Type::b32), static_cast<uint8_t>(d.immediate(4))};
  d.run<execute_lop3_predicate>(
      {lop3, d.destination(to.parts[1], Type::pred), d.predicate(d.operand(5)), conjunction});
}

// bmsk: b ones, starting at bit a.
struct BitMask {
  bool clamps;
  uint32_t operator()(uint32_t a, uint32_t b) const {
    if (clamps && a >= 32) return 0;
    const uint32_t from = a & 31, length = b & 31, ones = ~0u << from;
    return from + length >= 32 || (clamps && b >= 32) ? ones : ones & ~(~0u << (from + length));
  }
};

// szext: the low b bits of a, extended with zeros or with the highest of these bits.
template <bool extends_sign>
struct Extend {
  bool clamps;
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const uint32_t length = b & 31;
    if (clamps && b >= 32) return a;
    const uint32_t above = ~0u << length;
    const bool ones = extends_sign && length != 0 && (a >> (length - 1) & 1);
    return (a & ~above) | (ones ? above : 0);
  }
};

template <class Op>
struct Clamping {
  Binary operands;
  bool clamps;
};

template <class Op>
void execute_clamping(Warp& w, const Clamping<Op>& x, Lanes lanes) {
  each_lane(lanes, Op{x.clamps}, w.at<uint32_t>(x.operands.d), w.at<uint32_t>(x.operands.a),
            w.at<uint32_t>(x.operands.b));
}

template <class Op>
void decode_clamping(Decode& d) {
  const auto mode = d.one_of({"clamp", "wrap"});
  const Binary x = binary_operands(d, Type::b32);
  d.run<execute_clamping<Op>>({x, mode == "clamp"});
}

void decode_szext(Decode& d) {
  d.has("s32") ? decode_clamping<Extend<true>>(d) : decode_clamping<Extend<false>>(d);
}

// fns: the position of the n-th one bit of a mask, counted up or down from `base`.
struct FindNthSet {
  uint32_t operator()(uint32_t mask, uint32_t base, int32_t n) const {
    if (n == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
    const int64_t step = n > 0 ? 1 : -1;
    int64_t left = std::abs(int64_t{n});
    for (int64_t at = base; at >= 0 && at < 32; at += step)
      if ((mask >> at & 1) && --left == 0) return static_cast<uint32_t>(at);
    return ~0u;
  }
};

void decode_fns(Decode& d) {
  const Ternary x = ternary_operands(d, Type::b32);
  d.run<ternary<uint32_t, uint32_t, uint32_t, int32_t, FindNthSet>>(x);
}

enum class PermuteMode : uint8_t { index, f4e, b4e, rc8, ecl, ecr, rc16 };

struct Permute {
  Register d, a, b, c;
  PermuteMode mode;
};

// prmt: selects bytes of {b, a}. The modes derive the selectors from the low two bits of c (PTX ISA, prmt).
uint32_t permute(uint32_t a, uint32_t b, uint32_t c, PermuteMode mode) {
  const uint64_t from = (uint64_t{b} << 32) | a;
  uint32_t selector = c, n = c & 3;
  constexpr uint32_t f4e[] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[] = {0x5670, 0x6701, 0x7012, 0x0123},
                     rc8[] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[] = {0x3210, 0x3211, 0x3222, 0x3333},
                     ecr[] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
  const uint32_t* rows[] = {nullptr, f4e, b4e, rc8, ecl, ecr, rc16};
  if (mode != PermuteMode::index) selector = rows[static_cast<size_t>(mode)][n];
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) {
    uint32_t s = (selector >> (4 * k)) & 15;
    auto byte = static_cast<uint8_t>(from >> (8 * (s & 7)));
    if (mode == PermuteMode::index && s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= static_cast<uint32_t>(byte) << (8 * k);
  }
  return r;
}

void execute_prmt(Warp& w, const Permute& x, Lanes lanes) {
  each_lane(
      lanes, [mode = x.mode](uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c, mode); },
      w.at<uint32_t>(x.d), w.at<uint32_t>(x.a), w.at<uint32_t>(x.b), w.at<uint32_t>(x.c));
}

void decode_prmt(Decode& d) {
  constexpr std::pair<std::string_view, PermuteMode> modes[] = {
      {"f4e", PermuteMode::f4e}, {"b4e", PermuteMode::b4e}, {"rc8", PermuteMode::rc8},
      {"ecl", PermuteMode::ecl}, {"ecr", PermuteMode::ecr}, {"rc16", PermuteMode::rc16}};
  PermuteMode mode = PermuteMode::index;
  for (auto [name, named] : modes)
    if (d.has(name)) mode = named;
  const auto [to, a, b, c] = ternary_operands(d, Type::b32);
  if (c != a && c != b) d.passes(Flow::copies, {a, b});
  d.run<execute_prmt>({to, a, b, c, mode});
}

// shf: a funnel shift of {b, a}.
struct FunnelShift {
  Register d, a, b, c;
  bool left, wrap;
};

void execute_shf(Warp& w, const FunnelShift& x, Lanes lanes) {
  each_lane(
      lanes,
      [left = x.left, wrap = x.wrap](uint32_t a, uint32_t b, uint32_t c) {
        const uint32_t n = wrap ? c & 31 : std::min(c, 32u);
        const uint64_t both = (uint64_t{b} << 32) | a;
        return static_cast<uint32_t>(left ? (both << n) >> 32 : both >> n);
      },
      w.at<uint32_t>(x.d), w.at<uint32_t>(x.a), w.at<uint32_t>(x.b), w.at<uint32_t>(x.c));
}

void decode_shf(Decode& d) {
  const bool left = d.one_of({"l", "r"}) == "l", wrap = d.one_of({"wrap", "clamp"}) == "wrap";
  const auto [to, a, b, c] = ternary_operands(d, Type::b32);
  d.run<execute_shf>({to, a, b, c, left, wrap});
}

void decode_bfe(Decode& d) {
  Type type = d.type();
  const Ternary x{d.destination(0, type), d.source(1, type), d.source(2, Type::u32), d.source(3, Type::u32)};
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.run<ternary<T, T, uint32_t, uint32_t, Bfe<T>>>(x);
  });
}

void decode_bfi(Decode& d) {
  Type type = d.type();
  const BitFieldInsert x{d.destination(0, type), d.source(1, type), d.source(2, type), d.source(3, Type::u32),
                         d.source(4, Type::u32)};
  d.passes(Flow::copies, {x.a, x.b});
  bytes(type) == 8 ? d.run<execute_bfi<uint64_t>>(x) : d.run<execute_bfi<uint32_t>>(x);
}

}  // namespace

void add_bits(DecodeTable& t) {
  t["and"] = decode_logic<And, Flow::conjunction>;
  t["or"] = decode_logic<Or, Flow::disjunction>;
  t["xor"] = decode_logic<Xor, Flow::uses>;
  t["not"] = decode_not;
  t["cnot"] = [](Decode& d) { decode_unary<Cnot>(d, d.type()); };
  t["shl"] = decode_shift<Shl>;
  t["shr"] = decode_shift<Shr>;
  t["popc"] = decode_count<Popc>;
  t["clz"] = decode_count<Clz>;
  t["bfind"] = [](Decode& d) { d.has("shiftamt") ? decode_count<BfindShift>(d) : decode_count<Bfind>(d); };
  t["brev"] = [](Decode& d) { decode_unary<Brev>(d, d.type()); };
  t["bfe"] = decode_bfe;
  t["bfi"] = decode_bfi;
  t["prmt"] = decode_prmt;
  t["shf"] = decode_shf;
  t["lop3"] = decode_lop3;
  t["bmsk"] = decode_clamping<BitMask>;
  t["szext"] = decode_szext;
  t["fns"] = decode_fns;
}

}  // namespace ptxbuilder::runtime::emulator
