// Checks that all choices of a run are possible at the same time, by treating conditions as linear
// inequalities between integers.
#include <algorithm>
#include <bit>
#include <set>

#include "ptxbuilder/analysis/protocol_linear.h"
#include "ptxbuilder/analysis/protocol_terms.h"

namespace ptxbuilder::analysis {
namespace {

constexpr size_t kMostWays = 256;     // limit on the number of combinations of alternatives
constexpr size_t kMostSums = 20'000;  // limit on the total number of sums in all combinations

__int128 power(int bits) { return __int128{1} << bits; }

}  // namespace

class Possible {
 public:
  explicit Possible(Terms& terms) : terms_(terms) {}

  bool may_be() {
    for (const auto& [root, domain] : std::map(terms_.domains_)) add_domain(root, domain);
    for (const auto& [fact, holds] : std::map(terms_.facts_)) add_fact(fact, holds);
    return may_hold(0, always_);
  }

 private:
  // An alternative: a conjunction of inequalities, including bounds. At least one of several alternatives
  // must hold.
  using Way = std::vector<Linear>;

  const Terms::Node& node(int term) const { return terms_.node(term); }

  static void bound(Way& way, const Linear& sum, __int128 first, __int128 last) {
    Linear above = sum, below;
    above.constant -= first;
    below.constant = last;
    below.add(sum, -1);
    way.push_back(std::move(above)), way.push_back(std::move(below));
  }
  void always(const Linear& sum) { always_.at_least_zero(sum); }
  void at_most(const Linear& less, const Linear& more, __int128 apart = 0) {
    Linear difference = more;
    difference.add(less, -1);
    difference.constant -= apart;
    always(difference);
  }

  Linear unknown(int term) { return {.factors = {{term, 1}}}; }

  // Returns whether all numbers in a sum are nonnegative.
  static bool is_natural(const Linear& sum) {
    return sum.constant >= 0 &&
           std::all_of(sum.factors.begin(), sum.factors.end(), [](const auto& f) { return f.second >= 0; });
  }

  bool is_known_natural(const Scalar& s, const Linear& sum, int bits) {
    const TermOperation less{.kind = TermKind::less, .bits = static_cast<uint8_t>(bits)};
    return is_natural(sum) || terms_.is_natural(terms_.resolved(s), less);
  }

  // Returns a number as a sum, on the assumption that it does not overflow.
  Linear linear(const Scalar& scalar, int bits) {
    const Scalar s = terms_.resolved(scalar);
    if (s.is_known()) return {.constant = static_cast<int64_t>(s.value << (64 - bits)) >> (64 - bits)};
    const Terms::Node n = node(s.term);
    if (n.operation.kind == TermKind::sum) {
      Linear sum = linear({.value = n.constant}, n.operation.bits);
      for (const auto& [term, factor] : n.addends)
        sum.add(linear({.term = term}, terms_.bits(term)),
                linear({.value = factor}, n.operation.bits).constant);
      return sum;
    }
    if (n.operation.kind == TermKind::convert && !n.operation.is_signed &&
        n.operation.aside < n.operation.bits) {
      const Linear inner = linear(n.inputs[0], n.operation.aside);
      if (is_natural(inner)) return inner;
    }
    if (n.operation.kind == TermKind::bit_and && n.inputs[1].is_known()) {
      const uint64_t bits_kept = n.inputs[1].value + 1;
      if (std::has_single_bit(bits_kept)) return remainder(n.inputs[0], bits_kept, n.operation.bits);
    }
    if (n.operation.kind == TermKind::rem && !n.operation.is_signed && n.inputs[1].is_known())
      return remainder(n.inputs[0], n.inputs[1].value, n.operation.bits);
    if (met_.insert(s.term).second) describe(s.term, n);
    return unknown(s.term);
  }

  Linear remainder(const Scalar& of, uint64_t by, int bits) {
    Linear rest = linear(of, bits);
    rest.add(
        linear(terms_.made({.kind = TermKind::div, .bits = static_cast<uint8_t>(bits)}, {of, {.value = by}}),
               bits),
        -static_cast<__int128>(by));
    return rest;
  }

  std::optional<std::pair<uint64_t, uint64_t>> quotient_of(int term, const Terms::Node& n) {
    if (n.operation.kind != TermKind::div) return std::nullopt;
    const auto domain = terms_.domains_.find(term);
    if (domain == terms_.domains_.end()) return terms_.range(term);
    return std::pair(domain->second.front().first, domain->second.back().second);
  }

  // Adds the inequalities that describe a term in terms of its inputs.
  void describe(int term, const Terms::Node& n) {
    const int bits = n.operation.bits;
    const Linear self = unknown(term);
    always_.between(self, 0, power(bits) - 1);
    const auto hull = [&](const Scalar& s) -> std::optional<std::pair<uint64_t, uint64_t>> {
      const Scalar now = terms_.resolved(s);
      if (now.is_known()) return std::pair(now.value, now.value);
      return terms_.range(now.term);
    };
    const auto scaled = [](const Linear& sum, uint64_t by) {
      Linear all;
      all.add(sum, by);
      return all;
    };
    constexpr uint64_t kLargest = uint64_t{1} << 32;
    switch (n.operation.kind) {
      case TermKind::shr:
      case TermKind::div: {
        const Linear a = linear(n.inputs[0], bits);
        if (n.operation.is_signed || !is_known_natural(n.inputs[0], a, bits)) return;
        at_most(self, a);
        if (n.inputs[1].is_known()) {
          const uint64_t by = n.operation.kind == TermKind::shr
                                  ? uint64_t{1} << std::min<uint64_t>(n.inputs[1].value, 62)
                                  : n.inputs[1].value;
          if (by == 0 || by > kLargest) return;
          at_most(scaled(self, by), a);
          Linear end = scaled(self, by);
          end.constant += by - 1;
          at_most(a, end);
        } else if (const auto quotient = quotient_of(term, n)) {
          const auto [first, last] = *quotient;
          const Linear b = linear(n.inputs[1], bits);
          if (!is_natural(b) || last > kLargest) return;
          at_most(scaled(b, first), a);
          at_most(a, scaled(b, last + 1), 1);
        }
        return;
      }
      case TermKind::rem: {
        const Linear a = linear(n.inputs[0], bits), b = linear(n.inputs[1], bits);
        if (n.operation.is_signed || !is_natural(a) || !is_natural(b)) return;
        at_most(self, a), at_most(self, b, 1);
        return;
      }
      case TermKind::mul:
        always_.between(self, 0, power(bits - 1) - 1);
        for (int which = 0; which < 2; ++which) {
          const auto factor = hull(n.inputs[static_cast<size_t>(which)]);
          const Linear other = linear(n.inputs[static_cast<size_t>(1 - which)], bits);
          if (!factor || factor->second > kLargest || !is_natural(other)) continue;
          at_most(scaled(other, factor->first), self), at_most(self, scaled(other, factor->second));
        }
        return;
      case TermKind::select: {
        const Scalar p = terms_.resolved(n.inputs[0]);
        if (p.is_known() || node(p.term).operation.kind != TermKind::less) return;
        const Linear a = linear(n.inputs[1], bits), b = linear(n.inputs[2], bits);
        if (!is_natural(a) || !is_natural(b)) return;
        const auto& compared = node(p.term).inputs;
        if (compared[0] == terms_.resolved(n.inputs[1]) && compared[1] == terms_.resolved(n.inputs[2]))
          at_most(self, a), at_most(self, b);
        else if (compared[1] == terms_.resolved(n.inputs[1]) && compared[0] == terms_.resolved(n.inputs[2]))
          at_most(a, self), at_most(b, self);
        return;
      }
      default:
        return;
    }
  }

  // Returns a number of `bits` bits as a sum, with bounds. Also returns it as a sum that has wrapped around
  // once, if that is possible.
  std::vector<std::pair<Linear, Way>> values(const Scalar& s, int bits, bool is_signed) {
    const Linear sum = linear(s, bits);
    const __int128 first = is_signed ? -power(bits - 1) : 0, last = first + power(bits) - 1;
    std::vector<std::pair<Linear, Way>> all;
    const auto add = [&](__int128 by) {
      Linear value = sum;
      value.constant += by;
      Way bounds;
      bound(bounds, value, first, last);
      all.emplace_back(std::move(value), std::move(bounds));
    };
    add(0);
    if (is_signed) add(-power(bits));
    if (!is_natural(sum)) add(power(bits));
    return all;
  }

  void add_domain(int root, const Intervals& domain) {
    std::vector<Way> ways;
    // A root is described in terms of its inputs even if the value of the root is already known.
    const Terms::Node n = node(root);
    const Scalar self = n.operation.kind == TermKind::sum ? Scalar{.term = root} : Scalar{.term = root};
    for (const auto& [value, bounds] : of_root(self))
      for (const auto& [first, last] : domain) {
        Way way = bounds;
        bound(way, value, first, last);
        ways.push_back(std::move(way));
      }
    choices_.push_back(std::move(ways));
  }

  std::vector<std::pair<Linear, Way>> of_root(const Scalar& self) {
    const Terms::Node n = node(self.term);
    if (n.operation.kind != TermKind::sum) {
      if (met_.insert(self.term).second) describe(self.term, n);
      return {{unknown(self.term), {}}};
    }
    Linear sum = linear({.value = n.constant}, n.operation.bits);
    for (const auto& [term, factor] : n.addends)
      sum.add(linear({.term = term}, terms_.bits(term)),
              linear({.value = factor}, n.operation.bits).constant);
    std::vector<std::pair<Linear, Way>> all = {{sum, {}}};
    if (!is_natural(sum)) {
      sum.constant += power(n.operation.bits);
      all.emplace_back(sum, Way());
    }
    return all;
  }

  void add_fact(int fact, bool holds) {
    const Terms::Node n = node(fact);
    if (n.operation.kind != TermKind::less) return;
    std::vector<Way> ways;
    for (const auto& [a, of_a] : values(n.inputs[0], n.operation.bits, n.operation.is_signed))
      for (const auto& [b, of_b] : values(n.inputs[1], n.operation.bits, n.operation.is_signed)) {
        Way way = of_a;
        way.insert(way.end(), of_b.begin(), of_b.end());
        Linear difference = holds ? b : a;
        difference.add(holds ? a : b, -1);
        difference.constant -= holds ? 1 : 0;
        way.push_back(std::move(difference));
        ways.push_back(std::move(way));
      }
    choices_.push_back(std::move(ways));
  }

  bool may_hold(size_t from, const LinearSystem& system) {
    if (++ways_ > kMostWays) return true;
    if (!system.may_hold(sums_)) return false;
    if (from == choices_.size()) return true;
    return std::any_of(choices_[from].begin(), choices_[from].end(), [&](const Way& way) {
      LinearSystem with = system;
      for (const Linear& sum : way) with.at_least_zero(sum);
      return may_hold(from + 1, with);
    });
  }

  Terms& terms_;
  LinearSystem always_;
  std::vector<std::vector<Way>> choices_;
  std::set<int> met_;
  size_t ways_ = 0, sums_ = kMostSums;
};

bool Terms::may_be() { return Possible(*this).may_be(); }

}  // namespace ptxbuilder::analysis
