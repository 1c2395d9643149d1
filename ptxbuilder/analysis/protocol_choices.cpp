// What a run has chosen, and what of terms follows from it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptxbuilder/analysis/protocol_terms.h"

namespace ptxbuilder::analysis {

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

}  // namespace ptxbuilder::analysis
