#include "ptxbuilder/analysis/protocol_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

namespace ptxbuilder::analysis {
Scalar Terms::interned(Node n) {
  std::string key;
  const auto add = [&](const auto& x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  add(n.operation.kind), add(n.operation.bits), add(n.operation.is_signed), add(n.operation.aside);
  const auto name = names_.try_emplace(std::string(n.operation.name), static_cast<int>(names_.size())).first;
  n.operation.name = name->first;
  add(name->second), add(n.constant);
  for (const auto& [term, factor] : n.addends) add(term), add(factor);
  for (const Scalar& s : n.inputs) add(s.term), add(s.value);
  const auto [found, is_new] = numbers_.try_emplace(std::move(key), static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(n));
  return {.term = found->second};
}

Scalar Terms::symbol(const std::string& name, int bits) {
  return interned(
      {.operation = {.kind = TermKind::symbol, .bits = static_cast<uint8_t>(bits), .name = name}});
}

Scalar Terms::sum(uint64_t constant, std::map<int, uint64_t> addends, int bits) {
  Node n{.operation = {.kind = TermKind::sum, .bits = static_cast<uint8_t>(bits)},
         .constant = constant & mask(bits)};
  for (const auto& [term, factor] : addends)
    if ((factor & mask(bits)) != 0) n.addends.emplace_back(term, factor & mask(bits));
  if (n.addends.empty()) return {.value = n.constant};
  if (n.constant == 0 && n.addends.size() == 1 && n.addends[0].second == 1)
    return {.term = n.addends[0].first};
  if (const auto quotient = quotient_by_floats(n)) return *quotient;
  return interned(std::move(n));
}

// Recognises a quotient that is computed in floating point and corrected with its remainder: q + (r < 0 ? -1
// : 0) + (r >= d ? 1 : 0), where q is the integer part of x * (1 / d), and r is x - q * d. Below 2^21, q
// differs from the quotient by at most one.
std::optional<Scalar> Terms::quotient_by_floats(const Node& sum) {
  const auto input = [&](const Scalar& s, std::string_view opcode, size_t i) -> Scalar {
    const bool is = !s.is_known() && node(s.term).operation.name.starts_with(opcode);
    return is && i < node(s.term).inputs.size() ? node(s.term).inputs[i] : Scalar{};
  };
  const auto bits = sum.operation.bits;
  if (bits != 32 || sum.addends.size() < 3) return std::nullopt;
  for (const auto& [term, factor] : sum.addends) {
    const Scalar q = {.term = term}, product = input(q, "cvt.rzi.u32.f32", 0),
                 x = input(input(product, "mul.rn", 0), "cvt.rn.f32.u32", 0),
                 reciprocal = input(product, "mul.rn", 1), one = input(reciprocal, "div.full", 0),
                 d = input(input(reciprocal, "div.full", 1), "cvt.rn.f32.u32", 0);
    constexpr uint64_t kOne = 0x3f800000;
    if (factor != 1 || one != Scalar{.value = kOne} || (x.is_known() && d.is_known())) continue;
    const auto less = [&](const Scalar& a, const Scalar& b, bool is_signed) {
      return made({.kind = TermKind::less, .bits = bits, .is_signed = is_signed}, {a, b});
    };
    if (resolved(less(x, {.value = uint64_t{1} << 21}, false)) != Scalar{.value = 1}) continue;
    const Scalar r = minus(x, made({.kind = TermKind::mul, .bits = bits}, {q, d}), bits),
                 below = made({.kind = TermKind::shr, .bits = bits, .is_signed = true}, {r, {.value = 31}}),
                 above = made({.kind = TermKind::select, .bits = bits},
                              {negated(less(r, d, true)), {.value = 1}, {.value = 0}});
    std::map<int, uint64_t> rest(sum.addends.begin(), sum.addends.end());
    const auto take = [&](const Scalar& s) {
      return !s.is_known() && rest[s.term] == 1 && rest.erase(s.term) == 1;
    };
    if (!take(q) || !take(below) || !take(above)) continue;
    const Scalar quotient = made({.kind = TermKind::div, .bits = bits}, {x, d});
    return combined(this->sum(sum.constant, rest, bits), 1, quotient, 1, bits);
  }
  return std::nullopt;
}

Scalar Terms::combined(const Scalar& a, uint64_t by_a, const Scalar& b, uint64_t by_b, int bits) {
  uint64_t constant = 0;
  std::map<int, uint64_t> addends;
  const auto add = [&](const Scalar& s, uint64_t by) {
    if (s.is_known()) {
      constant += s.value * by;
    } else if (node(s.term).operation.kind == TermKind::sum && this->bits(s.term) == bits) {
      constant += node(s.term).constant * by;
      for (const auto& [term, factor] : node(s.term).addends) addends[term] += factor * by;
    } else {
      addends[s.term] += by;
    }
  };
  add(a, by_a), add(b, by_b);
  return sum(constant, std::move(addends), bits);
}

std::optional<uint64_t> Terms::computed(const TermOperation& o, const std::vector<Scalar>& in) {
  const int bits = o.bits;
  const auto u = [&](size_t i) { return in[i].value & mask(bits); };
  const auto s = [&](size_t i) { return with_sign(in[i].value, bits); };
  const auto wide = [&](auto x) { return static_cast<uint64_t>(x); };
  switch (o.kind) {
    case TermKind::mul:
      return u(0) * u(1);
    case TermKind::mul_hi:
      return o.is_signed ? wide((static_cast<__int128>(s(0)) * s(1)) >> bits)
                         : wide((static_cast<unsigned __int128>(u(0)) * u(1)) >> bits);
    case TermKind::shl:
      return in[1].value >= static_cast<uint64_t>(bits) ? 0 : u(0) << in[1].value;
    case TermKind::shr: {
      const uint64_t by =
          std::min<uint64_t>(in[1].value, static_cast<uint64_t>(bits) - (o.is_signed ? 1 : 0));
      if (o.is_signed) return wide(s(0) >> by);
      return by >= 64 ? 0 : u(0) >> by;
    }
    case TermKind::div:
      if (u(1) == 0 || (o.is_signed && s(1) == -1)) return std::nullopt;
      return o.is_signed ? wide(s(0) / s(1)) : u(0) / u(1);
    case TermKind::rem:
      if (u(1) == 0 || (o.is_signed && s(1) == -1)) return std::nullopt;
      return o.is_signed ? wide(s(0) % s(1)) : u(0) % u(1);
    case TermKind::bit_and:
      return u(0) & u(1);
    case TermKind::bit_or:
      return u(0) | u(1);
    case TermKind::bit_xor:
      return u(0) ^ u(1);
    case TermKind::bit_not:
      return ~u(0);
    case TermKind::less:
      return o.is_signed ? s(0) < s(1) : u(0) < u(1);
    case TermKind::equal:
      return u(0) == u(1);
    case TermKind::convert:
      return o.is_signed ? wide(with_sign(in[0].value, o.aside)) : in[0].value & mask(o.aside);
    case TermKind::extract: {
      const uint64_t at = in[1].value & 0xff, length = in[2].value & 0xff;
      if (o.is_signed) return std::nullopt;
      return at >= static_cast<uint64_t>(bits)
                 ? 0
                 : (u(0) >> at) & mask(static_cast<int>(std::min<uint64_t>(length, 64)));
    }
    case TermKind::popc:
      return wide(std::popcount(u(0)));
    case TermKind::in_cta:
      return (u(0) & mask(kCtaBits)) | (u(1) + 1) << kCtaBits;
    case TermKind::clz:
      return wide(std::countl_zero(u(0)) - (64 - bits));
    case TermKind::brev: {
      uint64_t turned = 0;
      for (int i = 0; i < bits; ++i) turned |= (u(0) >> i & 1) << (bits - 1 - i);
      return turned;
    }
    case TermKind::symbol:
    case TermKind::sum:
    case TermKind::parameter:
    case TermKind::outcome:
    case TermKind::select:
    case TermKind::other:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Scalar> Terms::simplified(const TermOperation& o, const std::vector<Scalar>& x) {
  const auto is = [&](size_t i, uint64_t value) {
    return x[i].is_known() && (x[i].value & mask(o.bits)) == value;
  };
  switch (o.kind) {
    case TermKind::mul:
      if (x[0].is_known()) return combined(x[1], x[0].value, {}, 0, o.bits);
      if (x[1].is_known()) return combined(x[0], x[1].value, {}, 0, o.bits);
      if (x[0].term > x[1].term) return made(o, {x[1], x[0]});
      return std::nullopt;
    case TermKind::shl:
      if (x[1].is_known() && x[1].value < o.bits)
        return combined(x[0], uint64_t{1} << x[1].value, {}, 0, o.bits);
      return std::nullopt;
    case TermKind::shr: {
      // Simplifies (2 * x + 1) >> 1, which occurs in numbers of tiles of a cluster, to x.
      if (is(1, 0)) return x[0];
      if (!x[1].is_known() || x[1].value >= 31 || x[0].is_known()) return std::nullopt;
      const int by = static_cast<int>(x[1].value);
      const Node& n = node(x[0].term);
      const bool is_multiple =
          n.operation.kind == TermKind::sum && n.operation.bits == o.bits &&
          with_sign(n.constant, o.bits) >= 0 &&
          std::all_of(n.addends.begin(), n.addends.end(), [&](const auto& addend) {
            return with_sign(addend.second, o.bits) > 0 && (addend.second & mask(by)) == 0;
          });
      if (!is_multiple) return std::nullopt;
      std::map<int, uint64_t> addends;
      for (const auto& [term, factor] : n.addends) addends[term] = factor >> by;
      return sum(n.constant >> by, std::move(addends), o.bits);
    }
    case TermKind::bit_xor:
      if (is(1, 0)) return x[0];
      if (is(0, 0)) return x[1];
      return std::nullopt;
    case TermKind::div:
      return is(1, 1) ? std::optional(x[0]) : std::nullopt;
    case TermKind::mul_hi:
    case TermKind::bit_and:
      if (is(0, 0) || is(1, 0)) return Scalar{};
      if (o.kind == TermKind::bit_and && is(0, mask(o.bits))) return x[1];
      if (o.kind == TermKind::bit_and && (is(1, mask(o.bits)) || x[0] == x[1])) return x[0];
      return std::nullopt;
    case TermKind::bit_or:
      if (is(0, 0)) return x[1];
      if (is(1, 0) || x[0] == x[1]) return x[0];
      if (is(0, mask(o.bits)) || is(1, mask(o.bits))) return Scalar{.value = mask(o.bits)};
      return std::nullopt;
    case TermKind::bit_not:
      if (node(x[0].term).operation.kind == TermKind::bit_not) return node(x[0].term).inputs[0];
      return std::nullopt;
    case TermKind::select:
      if (x[0].is_known()) return (x[0].value & 1) != 0 ? x[1] : x[2];
      return x[1] == x[2] ? std::optional(x[1]) : std::nullopt;
    case TermKind::less:
      return x[0] == x[1] ? std::optional(Scalar{}) : std::nullopt;
    case TermKind::convert:
      return o.aside == o.bits && bits(x[0].term) == o.bits ? std::optional(x[0]) : std::nullopt;
    default:
      return std::nullopt;
  }
}

Scalar Terms::made(const TermOperation& given, const std::vector<Scalar>& x) {
  TermOperation o = given;
  // The results of these operations do not depend on whether the numbers are signed.
  constexpr TermKind signless[] = {TermKind::mul,     TermKind::shl,     TermKind::bit_and, TermKind::bit_or,
                                   TermKind::bit_xor, TermKind::bit_not, TermKind::equal,   TermKind::select};
  if (std::find(std::begin(signless), std::end(signless), o.kind) != std::end(signless)) o.is_signed = false;
  if (std::all_of(x.begin(), x.end(), [](const Scalar& s) { return s.is_known(); }))
    if (const auto value = computed(o, x))
      return {.value = *value & mask(o.kind == TermKind::less || o.kind == TermKind::equal ? 1 : o.bits)};
  if (const auto simple = simplified(o, x)) return *simple;
  return interned({.operation = o, .inputs = x});
}

Scalar Terms::negated(const Scalar& p) { return made({.kind = TermKind::bit_not, .bits = 1}, {p}); }

std::optional<Scalar> Terms::compared(std::string_view how, int bits, bool is_signed, const Scalar& a,
                                      const Scalar& b) {
  const auto less = [&](const Scalar& x, const Scalar& y) {
    return made({.kind = TermKind::less, .bits = static_cast<uint8_t>(bits), .is_signed = is_signed}, {x, y});
  };
  const auto equal = [&] {
    return made({.kind = TermKind::equal, .bits = static_cast<uint8_t>(bits)}, {minus(a, b, bits), Scalar{}});
  };
  if (how == "lt" || how == "lo") return less(a, b);
  if (how == "gt" || how == "hi") return less(b, a);
  if (how == "ge" || how == "hs") return negated(less(a, b));
  if (how == "le" || how == "ls") return negated(less(b, a));
  if (how == "eq") return equal();
  if (how == "ne") return negated(equal());
  return std::nullopt;
}

std::optional<int> Terms::find(int term, TermKind kind) const {
  std::vector<int> waiting = {term};
  std::set<int> met;
  while (!waiting.empty()) {
    const int t = waiting.back();
    waiting.pop_back();
    if (!met.insert(t).second) continue;
    const Node& n = node(t);
    if (n.operation.kind == kind) return t;
    for (const auto& addend : n.addends) waiting.push_back(addend.first);
    for (const Scalar& input : n.inputs)
      if (!input.is_known()) waiting.push_back(input.term);
  }
  return std::nullopt;
}

std::string Terms::text(const Scalar& s) const {
  if (s.is_known()) return fmt::format("{}", s.value);
  const Node& n = node(s.term);
  if (n.operation.kind == TermKind::symbol) return std::string(n.operation.name);
  std::string all;
  for (const auto& [term, factor] : n.addends)
    all += fmt::format("{}{}{}", all.empty() ? "" : " + ",
                       factor == 1 ? "" : fmt::format("{} * ", with_sign(factor, n.operation.bits)),
                       text({.term = term}));
  if (n.operation.kind == TermKind::sum)
    return n.constant == 0 ? all : fmt::format("{} + {}", all, with_sign(n.constant, n.operation.bits));
  constexpr std::string_view names[] = {"",    "",     "",    "param", "",     "mul",  "mul.hi", "shl",
                                        "shr", "div",  "rem", "and",   "or",   "xor",  "not",    "lt",
                                        "eq",  "selp", "cvt", "bfe",   "popc", "mapa", "clz",    "brev"};
  for (const Scalar& input : n.inputs) all += fmt::format("{}{}", all.empty() ? "" : ", ", text(input));
  return fmt::format(
      "{}({})",
      n.operation.kind == TermKind::other ? n.operation.name : names[static_cast<size_t>(n.operation.kind)],
      all);
}

}  // namespace ptxbuilder::analysis
