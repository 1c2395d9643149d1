// Represents a kernel's integers as numbers or, if they are not known, as terms of parameters and special
// registers. Conditions on terms are decided by choices, and each choice restricts the later choices.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/protocol_intervals.h"

namespace ptxbuilder::analysis {

// A number, or a term if the number is not known.
struct Scalar {
  int term = kNone;
  uint64_t value = 0;

  bool is_known() const { return term == kNone; }
  bool operator==(const Scalar&) const = default;
};

enum class TermKind : uint8_t {
  symbol,     // a value about which only the name is known
  sum,        // a constant plus the sum of factors times terms, modulo 2^bits
  other,      // any other instruction; equal inputs give equal results, and nothing else is known
  parameter,  // a loaded parameter; its address identifies it
  outcome,    // the result of a test, which is determined during the run
  mul,
  mul_hi,
  shl,
  shr,
  div,
  rem,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  less,
  equal,
  select,   // p ? a : b
  convert,  // a conversion from the number of bits in `aside`
  extract,  // bfe
  popc,
  in_cta,  // an address of shared memory in another CTA of the cluster
  clz,
  brev
};

// In the addresses of shared::cluster, the memories of a cluster's CTAs are 2^kCtaBits bytes apart. A CTA's
// own memory is the first.
inline constexpr int kCtaBits = 24;

// Returns the signed value of a number with this number of bits.
constexpr int64_t with_sign(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// An operation on numbers that have a given number of bits.
struct TermOperation {
  TermKind kind = TermKind::other;
  uint8_t bits = 32;
  bool is_signed = false;
  uint8_t aside = 0;
  std::string_view name = {};  // name of a symbol, or of another instruction

  auto operator<=>(const TermOperation&) const = default;
};

// The sequence of choices in a run. advance() moves to the next sequence.
class Choices {
 public:
  // Returns the next choice among `count` values, beginning with 0.
  int choose(int count);
  // Moves to the next sequence. Returns false if there is none.
  bool advance();
  void begin() { next_ = 0; }
  size_t made() const { return next_; }

 private:
  struct Choice {
    int taken, count;
  };
  std::vector<Choice> taken_;
  size_t next_ = 0;
};

class Terms {
 public:
  // The member functions throw Refusal if the total cost of examining terms exceeds `most_work`. A term costs
  // 1, and a quotient costs 1 for each fact.
  Terms(Choices& choices, size_t most_work) : choices_(choices), work_left_(most_work) {}

  // Excludes empty problems, for which the protocol fails, by assuming that a term is greater than a small
  // number of iterations. Chooses the first suitable term of the last run, and returns the assumption in
  // words. Returns nothing if there is no such term.
  std::optional<std::string> assume_more();

  // Discards the choices of the last run. If the value of a count is needed, it is chosen from the numbers up
  // to `most`.
  void begin_run(int most);

  Scalar symbol(const std::string& name, int bits);
  Scalar made(const TermOperation& operation, const std::vector<Scalar>& inputs);
  Scalar plus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, 1, bits); }
  Scalar minus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, ~uint64_t{0}, bits); }
  // Returns the result of a comparison. `how` is lt, le, gt, ge, eq or ne; for any other word, returns
  // nothing.
  std::optional<Scalar> compared(std::string_view how, int bits, bool is_signed, const Scalar& a,
                                 const Scalar& b);
  Scalar negated(const Scalar& predicate);

  // Returns the scalar, simplified with the facts that the run has established.
  Scalar resolved(const Scalar& scalar);
  bool decide(const Scalar& predicate);
  // A function that returns the result of a test, given the term of its outcome.
  std::function<std::optional<bool>(int)> ask = {};
  // If a scalar depends on a count that a condition has requested, chooses the count, and returns the scalar
  // as a number. Otherwise returns nothing.
  std::optional<uint64_t> number(const Scalar& scalar);

  std::string text(const Scalar& scalar) const;
  // Describes the choices of the last run, such as "%clusterid.x < 5, param(n) from 1 to 64".
  std::string chosen() const;
  // Returns false if the choices contradict each other, on the assumption that sums do not overflow their
  // registers.
  bool may_be();
  // Returns whether it is certain that all choices are possible at the same time. Sums, shifts and products
  // of parameters are assumed to be independent of each other. Quotients, bits, counts that are sums, and
  // loaded values are not.
  bool can_be() const;

 private:
  friend class Possible;
  struct Node {
    TermOperation operation;
    uint64_t constant = 0;                               // for a sum
    std::vector<std::pair<int, uint64_t>> addends = {};  // for a sum: ascending terms, with factors
    std::vector<Scalar> inputs = {};
  };

  // A sum that does not overflow its register, as an integer.
  struct Sum {
    int64_t constant = 0;
    std::map<int, int64_t> factors = {};
    Sum minus(const Sum& other) const;
    Sum times(int64_t by) const;
    bool is_natural() const;  // returns whether the constant and all factors are nonnegative
    bool is_natural_minus(const Sum& other) const;  // returns whether minus(other) is natural
  };
  Sum sum_of(const Scalar& s, int bits) const;
  Sum margin_of(const Node& less) const;
  Sum at_least_zero(const Node& less, bool holds) const;
  const std::vector<Sum>& not_negative(const TermOperation& compared) const;
  bool is_natural(const Scalar& s, const TermOperation& compared) const;
  // A fact that compares two numbers that have not wrapped around. The comparison holds if the margin is not
  // negative. comparisons() returns the facts about numbers of `bits` bits.
  struct Comparison {
    Sum margin;
    bool holds;
  };
  const std::vector<Comparison>& comparisons(int bits) const;
  std::pair<uint64_t, uint64_t> quotient(const Node& n) const;
  std::optional<Scalar> quotient_by_floats(const Node& sum);

  Scalar combined(const Scalar& a, uint64_t by_a, const Scalar& b, uint64_t by_b, int bits);
  Scalar sum(uint64_t constant, std::map<int, uint64_t> addends, int bits);
  Scalar interned(Node node);
  static std::optional<uint64_t> computed(const TermOperation& o, const std::vector<Scalar>& x);
  std::optional<Scalar> simplified(const TermOperation& o, const std::vector<Scalar>& x);
  // Returns the single term on which `term` depends, and the values of that single term for which `term` is
  // in `values`.
  std::pair<int, Intervals> root(int term, Intervals values) const;
  std::optional<std::pair<int, Intervals>> condition(const Node& comparison) const;
  Intervals reach(const Node& comparison) const;
  std::optional<bool> implied(int predicate);
  void assume(int predicate, bool holds);
  std::optional<std::pair<uint64_t, uint64_t>> range(int term) const;
  bool restrict(int root, const Intervals& to);
  std::optional<int> find(int term, TermKind kind) const;
  bool choose_value(int term);
  void forget_conclusions();
  const Node& node(int term) const { return nodes_[static_cast<size_t>(term)]; }
  int bits(int term) const { return node(term).operation.bits; }

  void spend(size_t work) const;

  Choices& choices_;
  mutable size_t work_left_;
  int most_ = 0;
  std::deque<Node> nodes_;  // a deque, so that nodes keep their addresses
  std::unordered_map<std::string, int> numbers_;
  std::map<std::string, int, std::less<>> names_;
  std::map<int, Intervals> assumed_;
  // The following members belong to a run:
  std::map<int, Intervals> domains_;
  std::map<int, bool> facts_;
  // The following caches are derived from the facts and domains, and are valid until one of these changes.
  std::unordered_map<int, Scalar> resolved_;
  mutable std::map<TermOperation, std::vector<Sum>> not_negative_;
  mutable std::map<int, std::vector<Comparison>> comparisons_;  // indexed by number of bits
};

}  // namespace ptxbuilder::analysis
