#include "ptxbuilder/analysis/protocol_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

namespace ptxbuilder::analysis {
namespace {

uint64_t mask(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

int64_t with_sign(uint64_t value, int bits) {
  const int rest = 64 - bits;
  return static_cast<int64_t>(value << rest) >> rest;
}

Intervals united(Intervals all) {
  std::sort(all.begin(), all.end());
  Intervals apart;
  for (const auto& one : all)
    if (!apart.empty() && (apart.back().second == ~uint64_t{0} || one.first <= apart.back().second + 1))
      apart.back().second = std::max(apart.back().second, one.second);
    else
      apart.push_back(one);
  return apart;
}

Intervals common(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (const auto& x : a)
    for (const auto& y : b)
      if (std::max(x.first, y.first) <= std::min(x.second, y.second))
        both.emplace_back(std::max(x.first, y.first), std::min(x.second, y.second));
  return united(both);
}

Intervals complement(const Intervals& of, int bits) {
  Intervals rest;
  uint64_t next = 0;
  for (const auto& [first, last] : of) {
    if (first > next) rest.emplace_back(next, first - 1);
    if (last == mask(bits)) return rest;
    next = last + 1;
  }
  rest.emplace_back(next, mask(bits));
  return rest;
}

// The numbers from first to last, which may go over the end and begin again.
void add_wrapped(Intervals& to, uint64_t first, uint64_t last, int bits) {
  first &= mask(bits), last &= mask(bits);
  if (first <= last) {
    to.emplace_back(first, last);
  } else {
    to.emplace_back(first, mask(bits));
    to.emplace_back(0, last);
  }
}

}  // namespace

int Choices::choose(int count) {
  if (next_ == taken_.size()) taken_.push_back({0, count});
  return taken_[next_++].taken;
}

bool Choices::advance() {
  taken_.resize(next_);
  while (!taken_.empty() && taken_.back().taken + 1 == taken_.back().count) taken_.pop_back();
  if (!taken_.empty()) ++taken_.back().taken;
  return !taken_.empty();
}

void Terms::begin_run(int most) {
  most_ = most;
  domains_ = assumed_;
  facts_.clear();
  resolved_.clear();
}

std::optional<std::string> Terms::assume_more() {
  constexpr uint64_t kSmall = 4096;
  for (const auto& [root, domain] : domains_) {
    const Intervals large = {{kSmall, mask(bits(root) - 1)}};
    if (assumed_.contains(root) || common(domain, {{0, 0}}).empty() || !common(domain, large).empty())
      continue;
    assumed_[root] = complement(domain, bits(root));
    return fmt::format("{} is at least {}", text({.term = root}), assumed_[root][0].first);
  }
  return std::nullopt;
}

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
  return interned(std::move(n));
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
    case TermKind::shr:
    case TermKind::bit_xor:
      if (is(1, 0)) return x[0];
      if (o.kind == TermKind::bit_xor && is(0, 0)) return x[1];
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

Scalar Terms::made(const TermOperation& o, const std::vector<Scalar>& x) {
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

std::pair<int, Intervals> Terms::root(int term, Intervals values) const {
  for (;;) {
    const Node& n = node(term);
    const int b = n.operation.bits;
    Intervals of;
    int next = kNone;
    if (n.operation.kind == TermKind::sum) {
      const bool is_one = n.addends.size() == 1;
      const bool counts_up = is_one && n.addends[0].second == 1,
                 counts_down = is_one && n.addends[0].second == mask(b);
      if (!counts_up && !counts_down) return {term, values};
      next = n.addends[0].first;
      for (const auto& [first, last] : values)
        if (counts_up)
          add_wrapped(of, first - n.constant, last - n.constant, b);
        else
          add_wrapped(of, n.constant - last, n.constant - first, b);
    } else if ((n.operation.kind == TermKind::shr || n.operation.kind == TermKind::div) &&
               !n.operation.is_signed && !n.inputs[0].is_known() && n.inputs[1].is_known()) {
      const bool shifts = n.operation.kind == TermKind::shr;
      if (shifts ? n.inputs[1].value >= static_cast<uint64_t>(b) : n.inputs[1].value == 0)
        return {term, values};
      const auto by =
          static_cast<unsigned __int128>(shifts ? uint64_t{1} << n.inputs[1].value : n.inputs[1].value);
      next = n.inputs[0].term;
      for (const auto& [first, last] : values) {
        const auto low = by * first, high = by * last + (by - 1);
        if (low > mask(b)) continue;
        of.emplace_back(static_cast<uint64_t>(low), high > mask(b) ? mask(b) : static_cast<uint64_t>(high));
      }
    } else if (n.operation.kind == TermKind::convert && !n.operation.is_signed && n.operation.aside < b) {
      next = n.inputs[0].term;
      of = common(values, {{0, mask(n.operation.aside)}});
    } else {
      return {term, values};
    }
    term = next;
    values = united(of);
  }
}

std::optional<std::pair<int, Intervals>> Terms::condition(const Node& n) const {
  if (n.operation.kind != TermKind::less && n.operation.kind != TermKind::equal) return std::nullopt;
  const Scalar &a = n.inputs[0], &b = n.inputs[1];
  const int w = n.operation.bits;
  if (a.is_known() == b.is_known()) return std::nullopt;
  Intervals values;
  const uint64_t known = (a.is_known() ? a.value : b.value) & mask(w);
  if (n.operation.kind == TermKind::equal) {
    values = {{known, known}};
  } else {
    // Numbers with a sign begin at the one in the middle.
    const uint64_t least = n.operation.is_signed ? uint64_t{1} << (w - 1) : 0, most = (least - 1) & mask(w);
    if (b.is_known() ? known == least : known == most)
      return std::pair(root(b.is_known() ? a.term : b.term, {}));
    if (b.is_known())
      add_wrapped(values, least, known - 1, w);
    else
      add_wrapped(values, known + 1, most, w);
  }
  return root(b.is_known() ? a.term : b.term, united(values));
}

std::optional<bool> Terms::implied(int predicate) {
  if (const auto fact = facts_.find(predicate); fact != facts_.end()) return fact->second;
  const Node& n = node(predicate);
  if (n.operation.kind != TermKind::less && n.operation.kind != TermKind::equal) return std::nullopt;
  if (const auto c = condition(n)) {
    const auto domain = domains_.find(c->first);
    const Intervals all = {{0, mask(bits(c->first))}}, &now = domain == domains_.end() ? all : domain->second;
    const Intervals both = common(now, c->second);
    if (both.empty()) return false;
    if (both == now) return true;
    return std::nullopt;
  }
  if (n.operation.kind != TermKind::less) return std::nullopt;
  // Sums of numbers that are not negative do not go over the end: a tile behind the last one is behind it as
  // well.
  const auto is_at_least = [&](const Scalar& a, const Scalar& b) {
    const Scalar d = combined(a, 1, b, ~uint64_t{0}, n.operation.bits);
    const uint64_t half = uint64_t{1} << (n.operation.bits - 1);
    if (d.is_known()) return d.value < half;
    const Node& by = node(d.term);
    if (by.operation.kind != TermKind::sum) return true;
    return by.constant < half && std::all_of(by.addends.begin(), by.addends.end(),
                                             [&](const auto& addend) { return addend.second < half; });
  };
  for (const auto& [other, holds] : facts_) {
    const Node& fact = node(other);
    if (fact.operation != n.operation) continue;
    const bool is_weaker =
                   is_at_least(n.inputs[0], fact.inputs[0]) && is_at_least(fact.inputs[1], n.inputs[1]),
               is_stronger =
                   is_at_least(fact.inputs[0], n.inputs[0]) && is_at_least(n.inputs[1], fact.inputs[1]);
    if (!holds && is_weaker) return false;
    if (holds && is_stronger) return true;
  }
  return std::nullopt;
}

bool Terms::restrict(int root, const Intervals& to) {
  const auto domain = domains_.find(root);
  Intervals both = domain == domains_.end() ? to : common(domain->second, to);
  if (both.empty()) return false;
  domains_[root] = std::move(both);
  resolved_.clear();
  return true;
}

void Terms::assume(int predicate, bool holds) {
  facts_[predicate] = holds;
  resolved_.clear();
  const Node& n = node(predicate);
  if (n.operation.kind != TermKind::less && n.operation.kind != TermKind::equal) return;
  if (auto c = condition(n)) restrict(c->first, holds ? c->second : complement(c->second, bits(c->first)));
}

// The least and the most that a term can be, where its root's values lie together and the term grows with
// them.
std::optional<std::pair<uint64_t, uint64_t>> Terms::range(int term) const {
  if (const auto domain = domains_.find(term); domain != domains_.end())
    return domain->second.size() == 1 ? std::optional(domain->second[0]) : std::nullopt;
  const Node& n = node(term);
  const auto of = [&](const Scalar& s) { return s.is_known() ? std::nullopt : range(s.term); };
  switch (n.operation.kind) {
    case TermKind::sum: {
      auto inner =
          n.addends.size() == 1 && n.addends[0].second == 1 ? range(n.addends[0].first) : std::nullopt;
      if (!inner || n.constant > mask(n.operation.bits) - inner->second) return std::nullopt;
      return std::pair(inner->first + n.constant, inner->second + n.constant);
    }
    case TermKind::shr:
    case TermKind::div: {
      auto inner = of(n.inputs[0]);
      // Numbers that are not negative are divided as those without a sign.
      const bool may_be_negative =
          n.operation.is_signed && (!inner || inner->second > mask(n.operation.bits - 1));
      if (!inner || may_be_negative || !n.inputs[1].is_known()) return std::nullopt;
      const auto by = [&](uint64_t value) { return computed(n.operation, {{.value = value}, n.inputs[1]}); };
      const auto first = by(inner->first), last = by(inner->second);
      return first && last ? std::optional(std::pair(*first, *last)) : std::nullopt;
    }
    case TermKind::convert: {
      auto inner = of(n.inputs[0]);
      if (!inner || inner->second > mask(n.operation.aside - (n.operation.is_signed ? 1 : 0)))
        return std::nullopt;
      return inner;
    }
    default:
      return std::nullopt;
  }
}

Scalar Terms::resolved(const Scalar& s) {
  if (s.is_known()) return s;
  if (const auto found = resolved_.find(s.term); found != resolved_.end()) return found->second;
  const Node n = node(s.term);
  Scalar result = s;
  if (n.operation.kind == TermKind::sum) {
    result = {.value = n.constant};
    for (const auto& [term, factor] : n.addends)
      result = combined(result, 1, resolved({.term = term}), factor, n.operation.bits);
  } else if (!n.inputs.empty()) {
    std::vector<Scalar> inputs;
    for (const Scalar& input : n.inputs) inputs.push_back(resolved(input));
    result = made(n.operation, inputs);
  }
  if (!result.is_known()) {
    const TermKind kind = node(result.term).operation.kind;
    if (bits(result.term) == 1 || kind == TermKind::less || kind == TermKind::equal) {
      if (const auto holds = implied(result.term)) result = {.value = *holds ? 1u : 0u};
    } else if (const auto range = this->range(result.term); range && range->first == range->second) {
      result = {.value = range->first};
    }
  }
  return resolved_[s.term] = result;
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

bool Terms::choose_value(int term) {
  std::vector<Intervals> ways;
  const int to = root(term, {}).first;
  const auto domain = domains_.find(to);
  for (int v = 0; v <= most_; ++v) {
    Intervals values = root(term, {{static_cast<uint64_t>(v), static_cast<uint64_t>(v)}}).second;
    if (domain != domains_.end()) values = common(values, domain->second);
    if (!values.empty()) ways.push_back(std::move(values));
  }
  if (ways.empty()) return false;
  return restrict(to, ways[static_cast<size_t>(choices_.choose(static_cast<int>(ways.size())))]);
}

bool Terms::decide(const Scalar& predicate) {
  for (;;) {
    const Scalar p = resolved(predicate);
    if (p.is_known()) return (p.value & 1) != 0;
    const Node n = node(p.term);
    switch (n.operation.kind) {
      case TermKind::bit_not:
        return !decide(n.inputs[0]);
      case TermKind::bit_and:
        return decide(n.inputs[0]) && decide(n.inputs[1]);
      case TermKind::bit_or:
        return decide(n.inputs[0]) || decide(n.inputs[1]);
      case TermKind::bit_xor:
        return decide(n.inputs[0]) != decide(n.inputs[1]);
      case TermKind::less:
      case TermKind::equal: {
        if (const auto select = find(p.term, TermKind::select)) {
          decide(node(*select).inputs[0]);
          continue;
        }
        // Two counts that one value decides, such as all blocks and those that are full.
        if (!condition(n) && !n.inputs[0].is_known() && !n.inputs[1].is_known() &&
            root(n.inputs[0].term, {}).first == root(n.inputs[1].term, {}).first &&
            choose_value(n.inputs[0].term))
          continue;
        break;
      }
      default:
        break;
    }
    const auto answer = n.operation.kind == TermKind::outcome && ask ? ask(p.term) : std::nullopt;
    const bool holds = answer ? *answer : choices_.choose(2) == 0;
    assume(p.term, holds);
    return holds;
  }
}

std::optional<uint64_t> Terms::number(const Scalar& scalar) {
  for (;;) {
    const Scalar s = resolved(scalar);
    if (s.is_known()) return s.value;
    if (const auto select = find(s.term, TermKind::select)) {
      decide(node(*select).inputs[0]);
      continue;
    }
    // A term of whose root a condition has asked is a count, or near one.
    std::vector<int> waiting = {s.term};
    std::set<int> met;
    bool chosen = false;
    while (!waiting.empty() && !chosen) {
      const int t = waiting.back();
      waiting.pop_back();
      if (!met.insert(t).second) continue;
      const Node n = node(t);
      if (n.operation.kind != TermKind::sum && domains_.contains(root(t, {}).first)) {
        chosen = choose_value(t);
        continue;
      }
      for (const auto& addend : n.addends) waiting.push_back(addend.first);
      for (const Scalar& input : n.inputs)
        if (!input.is_known()) waiting.push_back(input.term);
    }
    if (!chosen) return std::nullopt;
  }
}

bool Terms::can_be() const {
  const auto is_open = [&](int term) {
    for (TermKind kind : {TermKind::div, TermKind::rem, TermKind::mul_hi, TermKind::bit_and, TermKind::bit_or,
                          TermKind::bit_xor, TermKind::extract, TermKind::other})
      if (find(term, kind)) return true;
    return false;
  };
  return std::none_of(domains_.begin(), domains_.end(),
                      [&](const auto& d) {
                        return node(d.first).operation.kind == TermKind::sum || is_open(d.first);
                      }) &&
         std::none_of(facts_.begin(), facts_.end(), [&](const auto& f) { return is_open(f.first); });
}

std::string Terms::chosen() const {
  std::string all;
  const auto add = [&](const std::string& one) { all += (all.empty() ? "" : ", ") + one; };
  for (const auto& [root, domain] : domains_)
    if (domain.size() == 1)
      add(domain[0].first == domain[0].second
              ? fmt::format("{} is {}", text({.term = root}), domain[0].first)
              : fmt::format("{} is from {} to {}", text({.term = root}), domain[0].first, domain[0].second));
  for (const auto& [fact, holds] : facts_) {
    const Node& n = node(fact);
    const bool is_less = n.operation.kind == TermKind::less;
    if (condition(n) || n.operation.kind == TermKind::outcome)
      continue;  // which the domains tell, or the order
    add(is_less ? fmt::format("{} {} {}", text(n.inputs[0]), holds ? "<" : ">=", text(n.inputs[1]))
                : fmt::format("{}{}", holds ? "" : "not ", text({.term = fact})));
  }
  constexpr size_t kMost = 240;
  return all.size() <= kMost ? all : all.substr(0, kMost) + " ...";
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
