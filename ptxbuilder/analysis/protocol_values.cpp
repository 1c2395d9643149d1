#include "ptxbuilder/analysis/protocol_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace ptxbuilder::analysis {
namespace {

constexpr uint64_t kGeneric = uint64_t{1} << 40;  // start of shared memory among generic addresses

using Name = IntegerWords::Name;
using Type = IntegerWords::Type;
using Part = IntegerWords::Part;

Type type_of(std::string_view word) {
  if (word == "pred") return {1, false, true};
  if (word.size() < 2 || std::string_view("bsu").find(word[0]) == std::string_view::npos) return {};
  int bits = 0;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), bits);
  if (error != std::errc() || end != word.data() + word.size() || bits > 64) return {};
  return {static_cast<uint8_t>(bits), word[0] == 's', true};
}

Name name_of(std::string_view word) {
  using enum Name;
  static constexpr std::pair<std::string_view, Name> kNames[] = {
      {"mov", mov},   {"cvta", cvta}, {"not", bit_not}, {"neg", neg},     {"popc", popc}, {"clz", clz},
      {"brev", brev}, {"cvt", cvt},   {"add", add},     {"sub", sub},     {"mul", mul},   {"shl", shl},
      {"shr", shr},   {"div", div},   {"rem", rem},     {"and", bit_and}, {"or", bit_or}, {"xor", bit_xor},
      {"min", min},   {"max", max},   {"setp", setp},   {"mapa", mapa},   {"mad", mad},   {"selp", selp},
      {"bfe", bfe},   {"lop3", lop3}, {"bfi", bfi},     {"shf", shf}};
  for (const auto& [text, name] : kNames)
    if (word == text) return name;
  return other;
}

}  // namespace

IntegerWords::IntegerWords(const Operation& o)
    : name(name_of(o.words[0])),
      type(type_of(o.words.back())),
      to(o.words.size() >= 3 ? type_of(o.words[o.words.size() - 2]) : Type{}),
      part(o.has("wide") ? Part::wide
           : o.has("lo") ? Part::lo
           : o.has("hi") ? Part::hi
                         : Part::none),
      is_known(type.is_integer && !o.has("cc", "sat")) {}

ProtocolValues::ProtocolValues(const ProtocolCode& code, Terms& terms) : code_(code), terms_(terms) {
  for (const Operation& o : code.code.operations) words_.emplace_back(o);
}

Scalar ProtocolValues::fresh(const Group& group, int operation) {
  const Operation& o = code_.code.operations[at(operation)];
  const Value& to = o.operands[0];
  const Value& last = to.parts.empty() ? to : to.parts.back();
  const Type type = last.kind == Value::Kind::reg
                        ? type_of(std::string_view(code_.code.registers[at(last.number)].type).substr(1))
                        : Type{};
  const std::string name =
      fmt::format("the result of line {} in warp {} ({})", o.at.line, group.warp, ++fresh_);
  return terms_.made({.bits = std::max<uint8_t>(type.bits, 1), .name = name}, {});
}

Scalar ProtocolValues::special(const Group& group, std::string_view name, int lane) {
  const auto number = [](int64_t n) { return Scalar{.value = static_cast<uint64_t>(n)}; };
  const int64_t thread = group.warp * kLanes + lane;
  const auto axis = [&] { return name.back() == 'y' ? 1u : name.back() == 'z' ? 2u : 0u; };
  const auto along = [&](int64_t index, const std::array<int64_t, 3>& shape) {
    return axis() == 0   ? index % shape[0]
           : axis() == 1 ? index / shape[0] % shape[1]
                         : index / shape[0] / shape[1];
  };
  const auto outer = [&](const char* what) {
    return terms_.symbol(fmt::format("%{}.{}", what, name.back()), 32);
  };
  if (name.starts_with("%tid.")) return number(along(thread, code_.cta));
  if (name.starts_with("%ntid.")) return number(code_.cta[axis()]);
  if (name == "%laneid") return number(lane);
  if (name == "%warpid") return number(group.warp);
  if (name == "%nwarpid" || name == "WARP_SZ")
    return number(name == "WARP_SZ" ? kLanes : (code_.threads() + kLanes - 1) / kLanes);
  if (name == "%cluster_ctarank") return number(group.cta);
  if (name == "%cluster_nctarank") return number(code_.ctas());
  if (name.starts_with("%cluster_ctaid.")) return number(along(group.cta, code_.cluster));
  if (name.starts_with("%cluster_nctaid.")) return number(code_.cluster[axis()]);
  if (name.starts_with("%ctaid.") || name.starts_with("%nctaid.")) {
    const bool counts = name.starts_with("%nctaid.");
    const int64_t size = code_.cluster[axis()];
    const Scalar of = outer(counts ? "nclusterid" : "clusterid");
    const Scalar first = terms_.made({.kind = TermKind::mul, .bits = 32}, {of, number(size)});
    return counts ? first : terms_.plus(first, number(along(group.cta, code_.cluster)), 32);
  }
  if (name.starts_with("%lanemask_")) {
    const auto bit = uint64_t{1} << lane;
    if (name.ends_with("eq")) return {.value = bit};
    if (name.ends_with("lt")) return {.value = bit - 1};
    if (name.ends_with("le")) return {.value = bit | (bit - 1)};
    return {.value = name.ends_with("gt") ? 0xffffffff & ~(bit | (bit - 1)) : 0xffffffff & ~(bit - 1)};
  }
  return terms_.symbol(std::string(name), name.ends_with("64") ? 64 : 32);
}

LaneValues ProtocolValues::operand(const Group& group, const Value& v) {
  using enum Value::Kind;
  switch (v.kind) {
    case reg:
      return in_register(group, v.number);
    case integer:
      return Scalar{.value = static_cast<uint64_t>(v.value)};
    case special: {
      if (v.text != "%laneid" && !v.text.starts_with("%tid") && !v.text.starts_with("%lanemask"))
        return this->special(group, v.text, 0);
      std::array<Scalar, kLanes> each;
      for (int lane = 0; lane < kLanes; ++lane) each[at(lane)] = this->special(group, v.text, lane);
      return LaneValues(each);
    }
    case symbol: {
      const auto place = code_.places.find(v.number);
      if (v.number != kNone && place != code_.places.end())
        return Scalar{.value = place->second + static_cast<uint64_t>(v.value)};
      return terms_.plus(terms_.symbol(std::string(v.text), 64), {.value = static_cast<uint64_t>(v.value)},
                         64);
    }
    case address:
    case vector: {
      if (v.parts.empty()) return Scalar{};
      if (v.kind == vector && v.text == "!") {
        const LaneValues of = operand(group, v.parts[0]);
        return for_lanes(group, {of}, [&](const auto& x) { return terms_.negated(x[0]); });
      }
      const LaneValues base = operand(group, v.parts[0]);
      if (v.value == 0) return base;
      const bool is_wide =
          v.parts[0].kind != reg || code_.code.registers[at(v.parts[0].number)].type.ends_with("64");
      return for_lanes(group, {base}, [&](const auto& x) {
        return terms_.plus(x[0], {.value = static_cast<uint64_t>(v.value)}, is_wide ? 64 : 32);
      });
    }
    default:
      return terms_.symbol(std::string(v.text), 64);
  }
}

LaneValues ProtocolValues::for_lanes(const Group& group, const std::vector<LaneValues>& inputs,
                                     const auto& function) {
  std::vector<Scalar> x(inputs.size());
  const bool is_one =
      std::all_of(inputs.begin(), inputs.end(), [](const LaneValues& v) { return v.is_one(); });
  if (is_one) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = inputs[i][0];
    return function(x);
  }
  std::array<Scalar, kLanes> each;
  bool is_same = true;
  const int first = std::countr_zero(group.lanes);
  for (int lane = first; lane < kLanes; ++lane) {
    if ((group.lanes >> lane & 1) == 0) continue;
    for (size_t i = 0; i < x.size(); ++i) x[i] = inputs[i][lane];
    each[at(lane)] = function(x);
    is_same = is_same && each[at(lane)] == each[at(first)];
  }
  return is_same ? LaneValues(each[at(first)]) : LaneValues(each);
}

void ProtocolValues::set(Group& group, const Value& to, const LaneValues& value, Lanes lanes) {
  if (to.kind != Value::Kind::reg || code_.registers[at(to.number)] == kNone) return;
  LaneValues& reg = group.registers[at(code_.registers[at(to.number)])];
  if (lanes == group.lanes) {
    reg = value;
    return;
  }
  std::array<Scalar, kLanes> each;
  for (int lane = 0; lane < kLanes; ++lane)
    each[at(lane)] = (lanes >> lane & 1) != 0 ? value[lane] : reg[lane];
  reg = LaneValues(each);
}

// Returns the integer result of an instruction, or nothing if this function does not evaluate that
// instruction.
std::optional<Scalar> ProtocolValues::of_integers(int operation, const std::vector<Scalar>& x) {
  const Operation& o = code_.code.operations[at(operation)];
  const IntegerWords& words = words_[at(operation)];
  if (!words.is_known) return std::nullopt;
  const Type type = words.type;
  const auto make = [&](TermKind kind, const std::vector<Scalar>& in) {
    return terms_.made({.kind = kind, .bits = type.bits, .is_signed = type.is_signed}, in);
  };
  const auto widened = [&](const Scalar& s, uint8_t to) {
    return terms_.made(
        {.kind = TermKind::convert, .bits = to, .is_signed = type.is_signed, .aside = type.bits}, {s});
  };
  const auto wide = static_cast<uint8_t>(type.bits * 2);
  const auto product = [&](const Scalar& a, const Scalar& b) -> std::optional<Scalar> {
    switch (words.part) {
      case Part::wide:
        return terms_.made({.kind = TermKind::mul, .bits = wide}, {widened(a, wide), widened(b, wide)});
      case Part::lo:
        return make(TermKind::mul, {a, b});
      case Part::hi:
        return make(TermKind::mul_hi, {a, b});
      default:
        return std::nullopt;
    }
  };
  using enum Name;
  if (x.size() == 1) switch (words.name) {
      case mov:
      case cvta:
        return x[0];
      case bit_not:
        return make(TermKind::bit_not, x);
      case neg:
        return terms_.minus({}, x[0], type.bits);
      case popc:
        return make(TermKind::popc, x);
      case clz:
        return make(TermKind::clz, x);
      case brev:
        return make(TermKind::brev, x);
      case cvt:
        if (!words.to.is_integer) return std::nullopt;
        return terms_.made({.kind = TermKind::convert,
                            .bits = words.to.bits,
                            .is_signed = type.is_signed,
                            .aside = std::min(type.bits, words.to.bits)},
                           x);
      default:
        return std::nullopt;
    }
  if (x.size() == 2) switch (words.name) {
      case add:
        return terms_.plus(x[0], x[1], type.bits);
      case sub:
        return terms_.minus(x[0], x[1], type.bits);
      case mul:
        return product(x[0], x[1]);
      case shl:
        return make(TermKind::shl, x);
      case shr:
        return make(TermKind::shr, x);
      case div:
        return make(TermKind::div, x);
      case rem:
        return make(TermKind::rem, x);
      case bit_and:
        return make(TermKind::bit_and, x);
      case bit_or:
        return make(TermKind::bit_or, x);
      case bit_xor:
        return make(TermKind::bit_xor, x);
      case min:
        return make(TermKind::select, {make(TermKind::less, x), x[0], x[1]});
      case max:
        return make(TermKind::select, {make(TermKind::less, x), x[1], x[0]});
      case setp:
        if (o.words.size() != 3) return std::nullopt;
        return terms_.compared(o.words[1], type.bits, type.is_signed, x[0], x[1]);
      case mapa:
        return make(TermKind::in_cta, x);
      default:
        return std::nullopt;
    }
  const auto are_known = [&] {
    return std::all_of(x.begin(), x.end(), [](const Scalar& s) { return s.is_known(); });
  };
  switch (words.name) {
    case mad:
      if (const auto p = product(x[0], x[1]))
        return terms_.plus(*p, x[2], words.part == Part::wide ? wide : type.bits);
      return std::nullopt;
    case selp:
      return make(TermKind::select, {x[2], x[0], x[1]});
    case bfe:
      return make(TermKind::extract, x);
    case setp: {
      if (o.words.size() != 4) return std::nullopt;
      const auto p = terms_.compared(o.words[1], type.bits, type.is_signed, x[0], x[1]);
      const TermKind with = o.words[2] == "and"  ? TermKind::bit_and
                            : o.words[2] == "or" ? TermKind::bit_or
                                                 : TermKind::bit_xor;
      if (!p) return std::nullopt;
      return terms_.made({.kind = with, .bits = 1}, {*p, x[2]});
    }
    case lop3: {
      if (x.size() != 4 || !are_known()) return std::nullopt;
      uint64_t result = 0;
      for (int bit = 0; bit < 32; ++bit) {
        const uint64_t row =
            (x[0].value >> bit & 1) << 2 | (x[1].value >> bit & 1) << 1 | (x[2].value >> bit & 1);
        result |= (x[3].value >> row & 1) << bit;
      }
      return Scalar{.value = result};
    }
    case bfi: {
      if (x.size() != 4 || !are_known() || x[3].value >= 64 || x[2].value >= 64) return std::nullopt;
      const uint64_t field = ((uint64_t{1} << x[3].value) - 1) << x[2].value;
      return Scalar{.value = (x[1].value & ~field) | (x[0].value << x[2].value & field)};
    }
    case shf: {
      if (x.size() != 3 || !are_known()) return std::nullopt;
      const uint64_t both = (x[1].value & 0xffffffff) << 32 | (x[0].value & 0xffffffff);
      const uint64_t by = o.has("wrap") ? x[2].value & 31 : std::min<uint64_t>(x[2].value & 0xffffffff, 32);
      return Scalar{.value = o.has("l") ? (both << by >> 32) & 0xffffffff : (both >> by) & 0xffffffff};
    }
    default:
      return std::nullopt;
  }
}

LaneValues ProtocolValues::computed(Group& group, int operation) {
  const Operation& o = code_.code.operations[at(operation)];
  std::vector<LaneValues> inputs;
  for (size_t i = o.results; i < o.operands.size(); ++i) {
    const Value& v = o.operands[i];
    if (v.kind == Value::Kind::vector && v.text != "!")
      for (const Value& part : v.parts) inputs.push_back(operand(group, part));
    else
      inputs.push_back(operand(group, v));
  }
  if (o.is("shfl")) {
    // The result is known if all lanes have the same value, or if the number of the source lane is known.
    const LaneValues &from = inputs[0], &which = inputs[1];
    if (from.is_one()) return from;
    if (o.has("idx") && which.is_one() && which[0].is_known() &&
        (group.lanes >> (which[0].value & 31) & 1) != 0)
      return from[static_cast<int>(which[0].value & 31)];
    return fresh(group, operation);
  }
  if (o.is("elect")) {
    const int leader = std::countr_zero(static_cast<Lanes>(inputs[0][0].is_known() ? inputs[0][0].value : 1));
    std::array<Scalar, kLanes> each;
    for (int lane = 0; lane < kLanes; ++lane) each[at(lane)].value = lane == leader ? 1 : 0;
    return LaneValues(each);
  }
  if (o.is("cvta") && o.has("shared")) {
    const bool back = o.has("to");
    return for_lanes(group, inputs, [&](const auto& x) {
      return back ? terms_.minus(x[0], {.value = kGeneric}, 64) : terms_.plus(x[0], {.value = kGeneric}, 64);
    });
  }
  if (o.is("ld") && (o.has("param", "const", "nc") ||
                     (o.has("global") && !o.has("volatile") && !o.has("acquire") && !o.has("relaxed")))) {
    // Such loads are assumed to return the same value each time they read the same address.
    const bool is_param = o.has("param");
    const uint8_t bits = std::max<uint8_t>(words_[at(operation)].type.bits, 1);
    return for_lanes(group, inputs, [&](const auto& x) {
      return is_param ? terms_.made({.kind = TermKind::parameter, .bits = bits}, x)
                      : terms_.made({.kind = TermKind::other, .bits = bits, .name = o.text->opcode}, x);
    });
  }
  if (o.is("ld", "atom", "vote", "match", "activemask", "ldu") || o.has("volatile"))
    return o.is("vote") && inputs[0].is_one() && o.has("any", "all") ? inputs[0]
                                                                     : LaneValues(fresh(group, operation));
  if (o.is("mov") && inputs.size() == 2) {
    const Type type = words_[at(operation)].type;
    const auto half = static_cast<uint8_t>(type.bits / 2);
    return for_lanes(group, inputs, [&](const auto& x) {
      const auto widened = [&](const Scalar& s) {
        return terms_.made({.kind = TermKind::convert, .bits = type.bits, .aside = half}, {s});
      };
      return terms_.plus(
          widened(x[0]),
          terms_.made({.kind = TermKind::shl, .bits = type.bits}, {widened(x[1]), {.value = half}}),
          type.bits);
    });
  }
  return for_lanes(group, inputs, [&](const std::vector<Scalar>& x) {
    if (const auto known = of_integers(operation, x)) return *known;
    const Type type = words_[at(operation)].type;
    const uint8_t bits = o.is("setp", "isspacep") ? 1 : std::max<uint8_t>(type.bits, 1);
    return terms_.made({.kind = TermKind::other, .bits = bits, .name = o.text->opcode}, x);
  });
}

void ProtocolValues::compute(Group& group, int operation, Lanes lanes) {
  const Operation& o = code_.code.operations[at(operation)];
  if (std::none_of(o.writes.begin(), o.writes.end(),
                   [&](int reg) { return code_.registers[at(reg)] != kNone; }))
    return;
  const LaneValues value = computed(group, operation);
  const Value& to = o.operands[0];
  if (to.kind != Value::Kind::vector) return set(group, to, value, lanes);
  // Stores the results of elect (lane|p) and setp (p|q), and the parts of values that are moved or loaded.
  if (o.is("elect")) return set(group, to.parts.back(), value, lanes);
  for (size_t i = 0; i < to.parts.size(); ++i) {
    if (o.is("setp", "shfl")) {
      const bool is_second = i == 1;
      set(group, to.parts[i],
          !is_second     ? value
          : o.is("setp") ? for_lanes(group, {value}, [&](const auto& x) { return terms_.negated(x[0]); })
                         : LaneValues(fresh(group, operation)),
          lanes);
      continue;
    }
    const Type type = type_of(o.words.back());
    const auto part = static_cast<uint8_t>(o.is("mov") ? type.bits / to.parts.size() : type.bits);
    set(group, to.parts[i],
        for_lanes(group, {value},
                  [&](const auto& x) -> Scalar {
                    if (o.is("mov"))
                      return terms_.made({.kind = TermKind::convert, .bits = part, .aside = part},
                                         {terms_.made({.kind = TermKind::shr, .bits = type.bits},
                                                      {x[0], {.value = part * i}})});
                    return terms_.made(
                        {.kind = TermKind::other, .bits = std::max<uint8_t>(part, 1), .name = "part"},
                        {x[0], {.value = i}});
                  }),
        lanes);
  }
}

}  // namespace ptxbuilder::analysis
