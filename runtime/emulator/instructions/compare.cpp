// Comparison and selection (PTX ISA, "Comparison and Selection Instructions").
#include <array>
#include <cmath>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class Relation : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
constexpr std::array<std::string_view, 14> relations = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <Relation relation, class T>
inline bool holds(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (relation) {
    case Relation::eq:
      return a == b;
    case Relation::ne:
      return !unordered && a != b;
    case Relation::lt:
      return a < b;
    case Relation::le:
      return a <= b;
    case Relation::gt:
      return a > b;
    case Relation::ge:
      return a >= b;
    case Relation::equ:
      return a == b || unordered;
    case Relation::neu:
      return a != b;
    case Relation::ltu:
      return a < b || unordered;
    case Relation::leu:
      return a <= b || unordered;
    case Relation::gtu:
      return a > b || unordered;
    case Relation::geu:
      return a >= b || unordered;
    case Relation::num:
      return !unordered;
    case Relation::nan:
      return unordered;
  }
  return false;
}

struct HalfValue {
  uint16_t bits;
  operator float() const { return from_f16(bits); }
};
struct BrainValue {
  uint16_t bits;
  operator float() const { return from_bf16(bits); }
};
template <class T>
auto value(T x) {
  if constexpr (std::is_same_v<T, HalfValue> || std::is_same_v<T, BrainValue>)
    return static_cast<float>(x);
  else
    return x;
}

template <Relation relation, class T>
Lanes compare(const T* a, const T* b) {
  Lanes result = 0;
  for (int k = 0; k < 32; ++k) result |= static_cast<Lanes>(holds<relation>(value(a[k]), value(b[k]))) << k;
  return result;
}

template <class T>
using Comparison = Lanes (*)(const T*, const T*);
template <class T, size_t... n>
constexpr std::array<Comparison<T>, sizeof...(n)> make_table(std::index_sequence<n...>) {
  return {compare<static_cast<Relation>(n), T>...};
}
template <class T>
constexpr auto comparisons = make_table<T>(std::make_index_sequence<14>{});

void set_lanes(Warp& w, uint32_t at, Lanes lanes, Lanes value) {
  if (at == no_register) return;
  uint32_t& p = *w.at<uint32_t>(at);
  p = (p & ~lanes) | (value & lanes);
}

// setp: r[0] and r[1] the predicates, r[2] and r[3] the operands, r[4] a predicate to combine with. mode:
// relation, combination (0 none, 1 and, 2 or, 3 xor), whether r[4] is negated.
Lanes combine(Warp& w, const Instruction& i, Lanes result) {
  if (i.mode[1] == 0) return result;
  Lanes other = *w.at<uint32_t>(i.r[4]);
  if (i.mode[2]) other = ~other;
  return i.mode[1] == 1 ? result & other : i.mode[1] == 2 ? result | other : result ^ other;
}

template <class T>
void execute_setp(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes result = comparisons<T>[i.mode[0]](w.at<T>(i.r[2]), w.at<T>(i.r[3]));
  set_lanes(w, i.r[0], lanes, combine(w, i, result));
  if (i.r[1] != no_register) set_lanes(w, i.r[1], lanes, combine(w, i, ~result));
}

template <class T>
void execute_setp_pair(Warp& w, const Instruction& i, Lanes lanes) {
  T a[2][32], b[2][32];
  for (int k = 0; k < 32; ++k)
    for (int half = 0; half < 2; ++half) {
      a[half][k].bits = static_cast<uint16_t>(w.at<uint32_t>(i.r[2])[k] >> (16 * half));
      b[half][k].bits = static_cast<uint16_t>(w.at<uint32_t>(i.r[3])[k] >> (16 * half));
    }
  set_lanes(w, i.r[0], lanes, combine(w, i, comparisons<T>[i.mode[0]](a[0], b[0])));
  set_lanes(w, i.r[1], lanes, combine(w, i, comparisons<T>[i.mode[0]](a[1], b[1])));
}

// set: as setp into a register, all ones or 1.0. mode[3]: 0 for 32-bit ones, 1 for 1.0f.
template <class T>
void execute_set(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes result = combine(w, i, comparisons<T>[i.mode[0]](w.at<T>(i.r[2]), w.at<T>(i.r[3])));
  const uint32_t yes = i.mode[3] ? 0x3f800000u : ~0u;
  for_lanes(lanes, [&](int k) { w.at<uint32_t>(i.r[0])[k] = (result >> k) & 1 ? yes : 0; });
}

Relation relation_of(Decode& d, bool is_unsigned) {
  for (size_t n = 0; n < relations.size(); ++n)
    if (d.take(relations[n])) return static_cast<Relation>(n);
  constexpr std::pair<std::string_view, Relation> aliases[] = {
      {"lo", Relation::lt}, {"ls", Relation::le}, {"hi", Relation::gt}, {"hs", Relation::ge}};
  for (auto [name, relation] : aliases)
    if (is_unsigned && d.take(name)) return relation;
  d.refuse("it names no comparison");
}

template <class F>
void with_comparable(Decode& d, Type type, F f) {
  switch (type) {
    case Type::f32:
      return f(float{});
    case Type::f64:
      return f(double{});
    case Type::f16:
      return f(HalfValue{});
    case Type::bf16:
      return f(BrainValue{});
    default:
      with_integer(d, type, f);
  }
}

void decode_combination(Decode& d, size_t at) {
  if (auto with = d.take_one({"and", "or", "xor"}); !with.empty()) {
    d.out.mode[1] = with == "and" ? 1 : with == "or" ? 2 : 3;
    bool negated = false;
    d.out.r[4] = d.predicate(d.operand(at), negated);
    d.out.mode[2] = negated;
  }
}

void decode_setp(Decode& d) {
  const ptx::Operand& to = d.operand(0);
  d.take("ftz");
  d.out.mode[0] = static_cast<uint8_t>(relation_of(d, true));
  decode_combination(d, 3);
  Type type = d.take_type();
  d.done();
  const bool two = to.kind == ptx::Operand::Kind::binary && to.text == "|";
  d.out.r[0] = d.sink(two ? to.parts[0] : to, Type::pred);
  if (two) d.out.r[1] = d.sink(to.parts[1], Type::pred);
  d.out.r[2] = d.source(1, type);
  d.out.r[3] = d.source(2, type);
  // Integers know no unordered pair: ne is neu.
  if (d.out.mode[0] == static_cast<uint8_t>(Relation::ne) && !is_float(type))
    d.out.mode[0] = static_cast<uint8_t>(Relation::neu);
  if (type == Type::f16x2)
    d.out.execute = execute_setp_pair<HalfValue>;
  else if (type == Type::bf16x2)
    d.out.execute = execute_setp_pair<BrainValue>;
  else
    with_comparable(d, type, [&](auto zero) { d.out.execute = execute_setp<decltype(zero)>; });
}

void decode_set(Decode& d) {
  d.take("ftz");
  d.out.mode[0] = static_cast<uint8_t>(relation_of(d, true));
  decode_combination(d, 3);
  Type to = d.take_type(), type = d.take_type();
  d.done();
  if (bytes(to) != 4 || is_float(type) != (type == Type::f32 || type == Type::f64))
    d.refuse("this form of set is not supported");
  d.out.r[0] = d.destination(0, to);
  d.out.r[2] = d.source(1, type);
  d.out.r[3] = d.source(2, type);
  d.out.mode[3] = to == Type::f32;
  if (d.out.mode[0] == static_cast<uint8_t>(Relation::ne) && !is_float(type))
    d.out.mode[0] = static_cast<uint8_t>(Relation::neu);
  with_comparable(d, type, [&](auto zero) { d.out.execute = execute_set<decltype(zero)>; });
}

// selp: r[0] = r[3] ? r[1] : r[2]; slct: r[0] = r[3] >= 0 ? r[1] : r[2].
template <class T>
void execute_selp(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes which = *w.at<uint32_t>(i.r[3]);
  if (i.mode[0]) which = ~which;
  T* d = w.at<T>(i.r[0]);
  const T *a = w.at<T>(i.r[1]), *b = w.at<T>(i.r[2]);
  for_lanes(lanes, [&](int k) { d[k] = (which >> k) & 1 ? a[k] : b[k]; });
}
template <class T, class C>
void execute_slct(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(
      lanes, [](T a, T b, C c) { return c >= 0 ? a : b; }, w.at<T>(i.r[0]), w.at<T>(i.r[1]), w.at<T>(i.r[2]),
      w.at<C>(i.r[3]));
}

void decode_selp(Decode& d) {
  Type type = d.take_type();
  d.done();
  d.expect(4, 4);
  d.require(bytes(type) == 2 || bytes(type) == 4 || bytes(type) == 8);
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, type);
  d.passes(Flow::selects, {d.out.r[1], d.out.r[2]});
  bool negated = false;
  d.out.r[3] = d.predicate(d.operand(3), negated);
  d.out.mode[0] = negated;
  d.decides = {d.out.r[3], negated};
  d.out.execute = bytes(type) == 8   ? execute_selp<uint64_t>
                  : bytes(type) == 4 ? execute_selp<uint32_t>
                                     : execute_selp<uint16_t>;
}

void decode_slct(Decode& d) {
  d.take("ftz");
  Type type = d.take_type(), by = d.take_type();
  d.done();
  d.require((bytes(type) == 2 || bytes(type) == 4 || bytes(type) == 8) && bytes(by) == 4);
  for (size_t k = 0; k < 3; ++k) d.out.r[k] = k ? d.source(k, type) : d.destination(k, type);
  d.out.r[3] = d.source(3, by);
  if (d.out.r[3] != d.out.r[1] && d.out.r[3] != d.out.r[2]) d.passes(Flow::copies, {d.out.r[1], d.out.r[2]});
  const bool real = by == Type::f32;
  d.out.execute = bytes(type) == 8 ? (real ? execute_slct<uint64_t, float> : execute_slct<uint64_t, int32_t>)
                  : bytes(type) == 4
                      ? (real ? execute_slct<uint32_t, float> : execute_slct<uint32_t, int32_t>)
                      : (real ? execute_slct<uint16_t, float> : execute_slct<uint16_t, int32_t>);
}

// testp: r[0] a predicate, r[1] the number.
template <class T>
void execute_testp(Warp& w, const Instruction& i, Lanes lanes) {
  const T* a = w.at<T>(i.r[1]);
  Lanes result = 0;
  for (int k = 0; k < 32; ++k) {
    const int c = std::fpclassify(a[k]);
    const bool yes[] = {
        c != FP_NAN && c != FP_INFINITE,  c == FP_INFINITE, c != FP_NAN, c == FP_NAN, c == FP_NORMAL,
        c == FP_SUBNORMAL || c == FP_ZERO};
    result |= static_cast<Lanes>(yes[i.mode[0]]) << k;
  }
  set_lanes(w, i.r[0], lanes, result);
}

void decode_testp(Decode& d) {
  uint8_t n = 0;
  for (std::string_view name : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    if (d.take(name)) d.out.mode[0] = n;
    ++n;
  }
  Type type = d.take_type();
  d.done();
  d.out.r[0] = d.destination(0, Type::pred);
  d.out.r[1] = d.source(1, type);
  if (type != Type::f32 && type != Type::f64) d.refuse("testp takes f32 and f64");
  d.out.execute = type == Type::f32 ? execute_testp<float> : execute_testp<double>;
}

}  // namespace

void add_compare(DecodeTable& t) {
  t["setp"] = decode_setp;
  t["set"] = decode_set;
  t["selp"] = decode_selp;
  t["slct"] = decode_slct;
  t["testp"] = decode_testp;
}

}  // namespace ptxbuilder::runtime::emulator
