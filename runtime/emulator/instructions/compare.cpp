// Executes comparisons and selections (PTX ISA, "Comparison and Selection Instructions").
#include <array>
#include <bit>
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
// A number that counts as 0 if it is subnormal, because of .ftz.
template <class T>
struct Flushed {
  T x;
  operator float() const {
    const float is = x;
    return std::fabs(is) < (sizeof(T) == 2 ? 0x1p-14f : 0x1p-126f) ? 0 : is;
  }
};
template <class T>
auto value(T x) {
  if constexpr (std::is_class_v<T>)
    return static_cast<float>(x);
  else
    return x;
}

// Returns a word with a bit for each of these bytes, which are 0 or 1.
Lanes packed(const std::array<uint8_t, 32>& bytes) {
  Lanes bits = 0;
  for (size_t k = 0; k < 4; ++k) {
    uint64_t eight;
    std::memcpy(&eight, &bytes[8 * k], 8);
    bits |= static_cast<Lanes>(eight * 0x0102040810204080 >> 56) << (8 * k);
  }
  return bits;
}

template <Relation relation, class T>
Lanes compare(const T* a, const T* b) {
  std::array<uint8_t, 32> each;  // a byte per lane lets the compiler compare many lanes at once
  for (size_t k = 0; k < 32; ++k) each[k] = holds<relation>(value(a[k]), value(b[k]));
  return packed(each);
}

template <class T>
using Compare = Lanes (*)(const T*, const T*);
template <class T, size_t... n>
constexpr std::array<Compare<T>, sizeof...(n)> make_table(std::index_sequence<n...>) {
  return {compare<static_cast<Relation>(n), T>...};
}
template <class T>
constexpr auto comparisons = make_table<T>(std::make_index_sequence<14>{});

enum class BoolOp : uint8_t { none, and_, or_, xor_ };

// The result of CmpOp on a and b, combined with c by BoolOp.
struct Comparison {
  Register a, b;
  Predicate c;
  Relation relation;
  BoolOp combination;
};

template <class T>
Lanes compared(const T* a, const T* b, Relation relation) {
  return comparisons<T>[static_cast<size_t>(relation)](a, b);
}

Lanes combine(const Warp& w, const Comparison& x, Lanes result) {
  switch (x.combination) {
    case BoolOp::none:
      break;
    case BoolOp::and_:
      return result & w.truth(x.c);
    case BoolOp::or_:
      return result | w.truth(x.c);
    case BoolOp::xor_:
      return result ^ w.truth(x.c);
  }
  return result;
}

struct SetPredicate {
  Register p, q;  // each may be no_register
  Comparison comparison;
};

// c may be the same register as p or q, so it is read before either is written.
void set_predicates(Warp& w, const SetPredicate& x, Lanes lanes, Lanes of_p, Lanes of_q) {
  of_p = combine(w, x.comparison, of_p);
  of_q = combine(w, x.comparison, of_q);
  w.set_predicate(x.p, lanes, of_p);
  w.set_predicate(x.q, lanes, of_q);
}

template <class T>
void execute_setp(Warp& w, const SetPredicate& x, Lanes lanes) {
  const Comparison& c = x.comparison;
  const Lanes result = compared(w.at<T>(c.a), w.at<T>(c.b), c.relation);
  set_predicates(w, x, lanes, result, ~result);
}

// Returns the results for the lower halves and for the upper halves.
template <class T>
std::pair<Lanes, Lanes> compared_halves(const Warp& w, const Comparison& c) {
  T a[2][32], b[2][32];
  for (int k = 0; k < 32; ++k)
    for (int half = 0; half < 2; ++half) {
      a[half][k] = std::bit_cast<T>(static_cast<uint16_t>(w.at<uint32_t>(c.a)[k] >> (16 * half)));
      b[half][k] = std::bit_cast<T>(static_cast<uint16_t>(w.at<uint32_t>(c.b)[k] >> (16 * half)));
    }
  return {compared(a[0], b[0], c.relation), compared(a[1], b[1], c.relation)};
}

template <class T>
void execute_setp_pair(Warp& w, const SetPredicate& x, Lanes lanes) {
  const auto [low, high] = compared_halves<T>(w, x.comparison);
  set_predicates(w, x, lanes, low, high);
}

// set: like setp, but the result in a register is 1.0 or all ones; for pairs of numbers, one result in each
// half.
struct Set {
  Register d;
  uint32_t yes;
  uint8_t bytes;  // size of d
  Comparison comparison;
};

template <class T>
void execute_set(Warp& w, const Set& x, Lanes lanes) {
  const Comparison& c = x.comparison;
  const Lanes result = combine(w, c, compared(w.at<T>(c.a), w.at<T>(c.b), c.relation));
  for_lanes(lanes, [&](int k) {
    const uint32_t value = (result >> k) & 1 ? x.yes : 0;
    std::memcpy(w.at<std::byte>(x.d) + static_cast<ptrdiff_t>(k) * x.bytes, &value, x.bytes);
  });
}

template <class T>
void execute_set_pair(Warp& w, const Set& x, Lanes lanes) {
  const auto [low, high] = compared_halves<T>(w, x.comparison);
  const Lanes of_low = combine(w, x.comparison, low), of_high = combine(w, x.comparison, high);
  for_lanes(lanes, [&](int k) {
    w.at<uint32_t>(x.d)[k] =
        ((of_low >> k) & 1 ? x.yes & 0xffff : 0) | ((of_high >> k) & 1 ? x.yes << 16 : 0);
  });
}

Relation relation_of(const Decode& d) {
  for (size_t n = 0; n < relations.size(); ++n)
    if (d.has(relations[n])) return static_cast<Relation>(n);
  constexpr std::pair<std::string_view, Relation> aliases[] = {
      {"lo", Relation::lt}, {"ls", Relation::le}, {"hi", Relation::gt}, {"hs", Relation::ge}};
  for (auto [name, relation] : aliases)
    if (d.has(name)) return relation;
  return Relation::eq;
}

template <class F>
void with_comparable(Decode& d, Type type, bool flushes, F f) {
  switch (type) {
    case Type::f32:
      return flushes ? f(Flushed<float>{}) : f(float{});
    case Type::f64:
      return f(double{});
    case Type::f16:
      return flushes ? f(Flushed<HalfValue>{}) : f(HalfValue{});
    case Type::bf16:
      return f(BrainValue{});
    default:
      with_integer(d, type, f);
  }
}

// Decodes CmpOp{.BoolOp}. `combined` is the number of the operand c.
Comparison take_comparison(Decode& d, size_t combined) {
  Comparison x{};
  x.relation = relation_of(d);
  if (auto with = d.one_of({"and", "or", "xor"}); !with.empty()) {
    x.combination = with == "and" ? BoolOp::and_ : with == "or" ? BoolOp::or_ : BoolOp::xor_;
    x.c = d.predicate(d.operand(combined));
  }
  return x;
}

void compared_sources(Decode& d, Type type, Comparison& x) {
  x.a = d.source(1, type);
  x.b = d.source(2, type);
  // Integers are never unordered, so ne is the same as neu.
  if (x.relation == Relation::ne && !is_float(type)) x.relation = Relation::neu;
}

void decode_setp(Decode& d) {
  const ptx_text::Operand& to = d.operand(0);
  const bool flushes = d.has("ftz");
  SetPredicate x{no_register, no_register, take_comparison(d, 3)};
  Type type = d.type();
  const bool two = to.kind == ptx_text::Operand::Kind::binary && to.text == "|";
  x.p = d.sink(two ? to.parts[0] : to, Type::pred);
  if (two) x.q = d.sink(to.parts[1], Type::pred);
  compared_sources(d, type, x.comparison);
  if (type == Type::f16x2)
    flushes ? d.run<execute_setp_pair<Flushed<HalfValue>>>(x) : d.run<execute_setp_pair<HalfValue>>(x);
  else if (type == Type::bf16x2)
    d.run<execute_setp_pair<BrainValue>>(x);
  else
    with_comparable(d, type, flushes, [&](auto zero) { d.run<execute_setp<decltype(zero)>>(x); });
}

void decode_set(Decode& d) {
  const bool flushes = d.has("ftz");
  Comparison comparison = take_comparison(d, 3);
  const Type to = d.type(0), type = d.type(1);
  const bool pairs = type == Type::f16x2 || type == Type::bf16x2;
  const uint32_t ones = pairs ? 0xffff : bytes(to) == 2 ? 0xffff : ~0u;
  const uint32_t yes = to == Type::f16 || to == Type::f16x2     ? 0x3c00
                       : to == Type::bf16 || to == Type::bf16x2 ? 0x3f80
                       : to == Type::f32                        ? 0x3f800000
                                                                : ones;
  const Register destination = d.destination(0, to);
  compared_sources(d, type, comparison);
  const Set x{destination, yes, static_cast<uint8_t>(bytes(to)), comparison};
  if (type == Type::f16x2)
    return flushes ? d.run<execute_set_pair<Flushed<HalfValue>>>(x) : d.run<execute_set_pair<HalfValue>>(x);
  if (type == Type::bf16x2) return d.run<execute_set_pair<BrainValue>>(x);
  with_comparable(d, type, flushes, [&](auto zero) { d.run<execute_set<decltype(zero)>>(x); });
}

// selp: d = c ? a : b.
struct SelectByPredicate {
  Register d, a, b;
  Predicate c;
};

template <class T>
void execute_selp(Warp& w, const SelectByPredicate& x, Lanes lanes) {
  const Lanes which = w.truth(x.c);
  T* d = w.at<T>(x.d);
  const T *a = w.at<T>(x.a), *b = w.at<T>(x.b);
  for_lanes(lanes, [&](int k) { d[k] = (which >> k) & 1 ? a[k] : b[k]; });
}

// slct: selects a if c is not negative, otherwise b.
template <class T, class C>
struct SelectBySign {
  T operator()(T a, T b, C c) const { return c >= 0 ? a : b; }
};

void decode_selp(Decode& d) {
  Type type = d.type();
  const SelectByPredicate x{d.destination(0, type), d.source(1, type), d.source(2, type),
                            d.predicate(d.operand(3))};
  d.passes(Flow::selects, {x.a, x.b});
  d.decides = x.c;
  switch (bytes(type)) {
    case 8:
      return d.run<execute_selp<uint64_t>>(x);
    case 4:
      return d.run<execute_selp<uint32_t>>(x);
    default:
      return d.run<execute_selp<uint16_t>>(x);
  }
}

void decode_slct(Decode& d) {
  const Type type = d.type(0), by = d.type(1);
  const Ternary x{d.destination(0, type), d.source(1, type), d.source(2, type), d.source(3, by)};
  if (x.c != x.a && x.c != x.b) d.passes(Flow::copies, {x.a, x.b});
  auto run = [&](auto zero) {
    using T = decltype(zero);
    if (by == Type::f32)
      d.run<ternary<T, T, T, float, SelectBySign<T, float>>>(x);
    else
      d.run<ternary<T, T, T, int32_t, SelectBySign<T, int32_t>>>(x);
  };
  switch (bytes(type)) {
    case 8:
      return run(uint64_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint16_t{});
  }
}

enum class NumberClass : uint8_t { finite, infinite, number, notanumber, normal, subnormal };
constexpr std::array<std::string_view, 6> number_classes = {"finite",     "infinite", "number",
                                                            "notanumber", "normal",   "subnormal"};

struct TestProperty {
  Register p, a;
  NumberClass property;
};

template <class T>
void execute_testp(Warp& w, const TestProperty& x, Lanes lanes) {
  const T* a = w.at<T>(x.a);
  Lanes result = 0;
  for (int k = 0; k < 32; ++k) {
    const int c = std::fpclassify(a[k]);
    const bool yes[] = {c != FP_NAN && c != FP_INFINITE, c == FP_INFINITE, c != FP_NAN, c == FP_NAN,
                        c == FP_NORMAL || c == FP_ZERO,  c == FP_SUBNORMAL};
    result |= static_cast<Lanes>(yes[static_cast<size_t>(x.property)]) << k;
  }
  w.set_predicate(x.p, lanes, result);
}

void decode_testp(Decode& d) {
  auto property = NumberClass::finite;
  for (size_t n = 0; n < number_classes.size(); ++n)
    if (d.has(number_classes[n])) property = static_cast<NumberClass>(n);
  Type type = d.type();
  const TestProperty x{d.destination(0, Type::pred), d.source(1, type), property};
  type == Type::f32 ? d.run<execute_testp<float>>(x) : d.run<execute_testp<double>>(x);
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
