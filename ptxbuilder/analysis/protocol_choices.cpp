// Implements the choices of a run, and the facts about terms that the choices imply.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptxbuilder/analysis/protocol_order.h"
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
  forget_conclusions();
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
      if (n.addends.size() != 1) return {term, values};
      const int64_t factor = with_sign(n.addends[0].second, b), constant = with_sign(n.constant, b);
      next = n.addends[0].first;
      for (const auto& [first, last] : values)
        if (factor == 1)
          add_wrapped(of, first - n.constant, last - n.constant, b);
        else if (factor == -1)
          add_wrapped(of, n.constant - last, n.constant - first, b);
        else
          add_multiplied(of, first, last, factor, constant, b);
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
    // The lowest signed number has the bits of the unsigned number 2^(w - 1).
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

// Returns the values of a term's root for which the term does not overflow.
Intervals Terms::reach(const Node& comparison) const {
  const int term = comparison.inputs[comparison.inputs[0].is_known() ? 1 : 0].term;
  return root(term, {{0, mask(bits(term))}}).second;
}

std::optional<bool> Terms::implied(int predicate) {
  if (const auto fact = facts_.find(predicate); fact != facts_.end()) return fact->second;
  const Node& n = node(predicate);
  if (n.operation.kind != TermKind::less && n.operation.kind != TermKind::equal) return std::nullopt;
  if (const auto c = condition(n)) {
    const auto domain = domains_.find(c->first);
    Intervals now = {{0, mask(bits(c->first))}};
    if (domain != domains_.end()) now = domain->second;
    if (const auto range = this->range(c->first)) now = common(now, {*range});
    now = common(now, reach(n));
    const Intervals both = common(now, c->second);
    if (both.empty()) return false;
    if (both == now) return true;
    return std::nullopt;
  }
  if (n.operation.kind != TermKind::less) return std::nullopt;
  // Numbers of tiles are assumed not to overflow, so comparing two such numbers is equivalent to comparing
  // their difference with 0.
  const Sum margin = margin_of(n);
  if (!is_natural(n.inputs[0], n.operation) || !is_natural(n.inputs[1], n.operation)) return std::nullopt;
  const Sum opposite = sum_of({.value = mask(n.operation.bits)}, n.operation.bits).minus(margin);
  for (const Sum& known : not_negative(n.operation)) {
    if (margin.is_natural_minus(known)) return true;
    if (opposite.is_natural_minus(known)) return false;
  }
  return std::nullopt;
}

Terms::Sum Terms::Sum::minus(const Sum& other) const {
  Sum all = *this;
  all.constant -= other.constant;
  for (const auto& [term, factor] : other.factors)
    if ((all.factors[term] -= factor) == 0) all.factors.erase(term);
  return all;
}

Terms::Sum Terms::Sum::times(int64_t by) const {
  Sum all{.constant = constant * by};
  if (by != 0)
    for (const auto& [term, factor] : factors) all.factors[term] = factor * by;
  return all;
}

bool Terms::Sum::is_natural() const {
  return constant >= 0 &&
         std::all_of(factors.begin(), factors.end(), [](const auto& f) { return f.second > 0; });
}

bool Terms::Sum::is_natural_minus(const Sum& other) const {
  if (constant < other.constant) return false;
  auto theirs = other.factors.begin();
  for (const auto& [term, factor] : factors) {
    for (; theirs != other.factors.end() && theirs->first < term; ++theirs)
      if (theirs->second > 0) return false;
    const bool is_shared = theirs != other.factors.end() && theirs->first == term;
    if (factor < (is_shared ? theirs++->second : 0)) return false;
  }
  return std::all_of(theirs, other.factors.end(), [](const auto& f) { return f.second <= 0; });
}

Terms::Sum Terms::sum_of(const Scalar& s, int bits) const {
  if (s.is_known()) return {.constant = with_sign(s.value, bits)};
  const Node& n = node(s.term);
  if (n.operation.kind != TermKind::sum) return {.factors = {{s.term, 1}}};
  Sum all{.constant = with_sign(n.constant, n.operation.bits)};
  for (const auto& [term, factor] : n.addends) all.factors[term] = with_sign(factor, n.operation.bits);
  return all;
}

Terms::Sum Terms::margin_of(const Node& less) const {
  const int bits = less.operation.bits;
  Sum margin = sum_of(less.inputs[1], bits).minus(sum_of(less.inputs[0], bits));
  --margin.constant;
  return margin;
}

// Returns the sum that is not negative if the comparison holds or, if `holds` is false, if it does not hold.
Terms::Sum Terms::at_least_zero(const Node& less, bool holds) const {
  const Sum margin = margin_of(less);
  return holds ? margin : Sum{.constant = -1}.minus(margin);
}

// Returns the sums that are known not to be negative because of comparisons of one kind, or because of
// quotients.
const std::vector<Terms::Sum>& Terms::not_negative(const TermOperation& compared) const {
  const auto [known, is_new] = not_negative_.try_emplace(compared);
  std::vector<Sum>& all = known->second;
  if (!is_new) return all;
  for (const auto& [fact, holds] : facts_)
    if (node(fact).operation == compared) all.push_back(at_least_zero(node(fact), holds));
  constexpr uint64_t kMost = 1 << 16;
  for (const auto& [root, domain] : domains_) {
    const Node& n = node(root);
    const bool is_quotient = n.operation.kind == TermKind::div && !n.operation.is_signed &&
                             n.operation.bits == compared.bits && !n.inputs[1].is_known();
    if (!is_quotient || domain.empty()) continue;
    const Sum of = sum_of(n.inputs[0], compared.bits), by = sum_of(n.inputs[1], compared.bits);
    const auto [first, last] = std::pair(domain.front().first, domain.back().second);
    if (first <= kMost) all.push_back(of.minus(by.times(static_cast<int64_t>(first))));
    if (last <= kMost) {
      all.push_back(by.times(static_cast<int64_t>(last + 1)).minus(of));
      --all.back().constant;
    }
  }
  return all;
}

// Returns whether an unsigned number is known not to have wrapped around below zero.
bool Terms::is_natural(const Scalar& s, const TermOperation& compared) const {
  const Sum sum = sum_of(s, compared.bits);
  if (compared.is_signed || sum.is_natural()) return true;
  const std::vector<Sum>& known = not_negative(compared);
  return std::any_of(known.begin(), known.end(), [&](const Sum& k) { return sum.is_natural_minus(k); });
}

const std::vector<Terms::Comparison>& Terms::comparisons(int bits) const {
  const auto [known, is_new] = comparisons_.try_emplace(bits);
  std::vector<Comparison>& all = known->second;
  if (!is_new) return all;
  for (const auto& [fact, holds] : facts_) {
    const Node& less = node(fact);
    if (less.operation.kind != TermKind::less || less.operation.bits != bits) continue;
    if (is_natural(less.inputs[0], less.operation) && is_natural(less.inputs[1], less.operation))
      all.push_back({margin_of(less), holds});
  }
  return all;
}

// Returns the bounds of a quotient that comparisons of tile numbers imply. For example, the number of a CTA's
// last tile bounds the number of the CTA's tiles.
std::pair<uint64_t, uint64_t> Terms::quotient(const Node& n) const {
  std::pair<uint64_t, uint64_t> range = {0, mask(n.operation.bits)};
  const Sum of = sum_of(n.inputs[0], n.operation.bits), by = sum_of(n.inputs[1], n.operation.bits);
  if (by.factors.empty() || n.operation.is_signed) return range;
  spend(facts_.size());
  for (const auto& [margin, holds] : comparisons(n.operation.bits)) {
    // The sign of the sum `of` - times * `by` is known.
    const Sum apart = of.minus(margin);
    const auto& [term, factor] = *by.factors.begin();
    const auto found = apart.factors.find(term);
    const int64_t times = found == apart.factors.end() ? 0 : found->second / factor;
    Sum rest = apart;
    for (int64_t i = 0; i < std::min<int64_t>(times, 64); ++i) rest = rest.minus(by);
    if (times < 0 || times > 64 || rest.constant != 0 || !rest.factors.empty()) continue;
    if (holds)
      range.first = std::max(range.first, static_cast<uint64_t>(times));
    else if (times > 0)
      range.second = std::min(range.second, static_cast<uint64_t>(times - 1));
  }
  return range;
}

void Terms::forget_conclusions() {
  resolved_.clear();
  not_negative_.clear();
  comparisons_.clear();
}

bool Terms::restrict(int root, const Intervals& to) {
  const auto domain = domains_.find(root);
  Intervals both = domain == domains_.end() ? to : common(domain->second, to);
  if (both.empty()) return false;
  domains_[root] = std::move(both);
  forget_conclusions();
  return true;
}

void Terms::assume(int predicate, bool holds) {
  facts_[predicate] = holds;
  forget_conclusions();
  const Node& n = node(predicate);
  if (n.operation.kind != TermKind::less && n.operation.kind != TermKind::equal) return;
  if (auto c = condition(n)) restrict(c->first, holds ? c->second : complement(c->second, bits(c->first)));
}

// Returns the smallest and the greatest value of a term, if the values of its root form one interval and the
// term increases with its root.
std::optional<std::pair<uint64_t, uint64_t>> Terms::range(int term) const {
  const Node& n = node(term);
  std::optional<std::pair<uint64_t, uint64_t>> chosen;
  if (const auto domain = domains_.find(term); domain != domains_.end()) {
    if (domain->second.empty()) return std::nullopt;
    chosen = {domain->second.front().first, domain->second.back().second};
  }
  if (n.operation.kind == TermKind::div && !n.inputs[0].is_known() && !n.inputs[1].is_known()) {
    const auto by_tiles = quotient(n);
    if (!chosen) return by_tiles.first <= by_tiles.second ? std::optional(by_tiles) : std::nullopt;
    const std::pair both(std::max(chosen->first, by_tiles.first), std::min(chosen->second, by_tiles.second));
    return both.first <= both.second ? std::optional(both) : std::nullopt;
  }
  if (chosen) return chosen;
  const auto of = [&](const Scalar& s) { return s.is_known() ? std::nullopt : range(s.term); };
  switch (n.operation.kind) {
    case TermKind::sum: {
      const auto inner = n.addends.size() == 1 ? range(n.addends[0].first) : std::nullopt;
      if (!inner) return std::nullopt;
      const auto of = [&](uint64_t value) {
        return with_sign(n.constant, n.operation.bits) +
               static_cast<__int128>(with_sign(n.addends[0].second, n.operation.bits)) * value;
      };
      const auto [low, high] = std::minmax({of(inner->first), of(inner->second)});
      if (low < 0 || high > mask(n.operation.bits)) return std::nullopt;
      return std::pair(static_cast<uint64_t>(low), static_cast<uint64_t>(high));
    }
    case TermKind::shr:
    case TermKind::div: {
      auto inner = of(n.inputs[0]);
      // Nonnegative numbers are divided like unsigned numbers.
      const bool may_be_negative =
          n.operation.is_signed && (!inner || inner->second > mask(n.operation.bits - 1));
      if (!inner || may_be_negative || !n.inputs[1].is_known()) return std::nullopt;
      const auto by = [&](uint64_t value) { return computed(n.operation, {{.value = value}, n.inputs[1]}); };
      const auto first = by(inner->first), last = by(inner->second);
      return first && last ? std::optional(std::pair(*first, *last)) : std::nullopt;
    }
    case TermKind::mul: {
      // Numbers of tiles are assumed not to overflow a signed register.
      const auto a = of(n.inputs[0]), b = of(n.inputs[1]);
      const uint64_t most = mask(n.operation.bits - 1);
      if (!a || !b || (a->first != 0 && b->first > most / a->first)) return std::nullopt;
      const bool is_open = a->second != 0 && b->second > most / a->second;
      return std::pair(a->first * b->first, is_open ? most : a->second * b->second);
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

void Terms::spend(size_t work) const {
  if (work > work_left_) throw Refusal{kNone, "following all paths takes too many steps", {}, true};
  work_left_ -= work;
}

Scalar Terms::resolved(const Scalar& s) {
  if (s.is_known()) return s;
  if (const auto found = resolved_.find(s.term); found != resolved_.end()) return found->second;
  spend(1);
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
        // Two counts may depend on one value, such as the number of all blocks and the number of full blocks.
        if (!condition(n) && !n.inputs[0].is_known() && !n.inputs[1].is_known() &&
            root(n.inputs[0].term, {}).first == root(n.inputs[1].term, {}).first &&
            choose_value(n.inputs[0].term) && resolved(n.inputs[0]).is_known())
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
    // A term whose root occurs in a condition is a count, or depends closely on a count.
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
      continue;  // the domains or the order already decide the comparison
    add(is_less ? fmt::format("{} {} {}", text(n.inputs[0]), holds ? "<" : ">=", text(n.inputs[1]))
                : fmt::format("{}{}", holds ? "" : "not ", text({.term = fact})));
  }
  constexpr size_t kMost = 240;
  return all.size() <= kMost ? all : all.substr(0, kMost) + " ...";
}

}  // namespace ptxbuilder::analysis
