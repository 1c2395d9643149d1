// Represents a kernel's integers when not all of them are known: as numbers, or as terms of parameters and
// special registers. Choices decide the conditions on terms, and each choice restricts the later ones.
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
  symbol,     // only its name is known
  sum,        // a constant plus the sum of factors times terms, modulo 2^bits
  other,      // an instruction's result; only equal inputs are known to give equal results
  parameter,  // a loaded parameter, identified by its address
  outcome,    // result of a test, which the run determines
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
  convert,  // from the number of bits in `aside`
  extract,  // bfe
  popc,
  in_cta,  // address of shared memory in another CTA of the cluster
  clz,
  brev
};

// The distance between the CTAs of a cluster among the addresses of shared::cluster; a CTA's own memory comes
// first.
inline constexpr int kCtaBits = 24;

// Returns a number whose highest bit, given the number of bits, is its sign.
constexpr int64_t with_sign(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// An operation on numbers, with their number of bits.
struct TermOperation {
  TermKind kind = TermKind::other;
  uint8_t bits = 32;
  bool is_signed = false;
  uint8_t aside = 0;
  std::string_view name = {};  // name of a symbol, or of another instruction

  auto operator<=>(const TermOperation&) const = default;
};

// A sequence of answers to a run's questions; advance() moves to the next sequence.
class Choices {
 public:
  // Returns the next choice among `count` values, beginning with 0.
  int choose(int count);
  // Moves to the next sequence; returns false if there is none.
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
  // Throws Refusal if following terms costs more than `most_work`. A term costs one, and a quotient costs one
  // for each fact.
  Terms(Choices& choices, size_t most_work) : choices_(choices), work_left_(most_work) {}

  // Assumes that a term is not a small number of iterations, since the protocol fails on an empty problem:
  // chooses the first term of the last run that may help. Returns nothing if there is none.
  std::optional<std::string> assume_more();

  // Discards the choices of the last run. Counts whose values are needed are chosen up to `most`.
  void begin_run(int most);

  Scalar symbol(const std::string& name, int bits);
  Scalar made(const TermOperation& operation, const std::vector<Scalar>& inputs);
  Scalar plus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, 1, bits); }
  Scalar minus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, ~uint64_t{0}, bits); }
  // Returns the result of a comparison; `how` is lt, le, gt, ge, eq or ne. Returns nothing for any other
  // comparison.
  std::optional<Scalar> compared(std::string_view how, int bits, bool is_signed, const Scalar& a,
                                 const Scalar& b);
  Scalar negated(const Scalar& predicate);

  // Returns the scalar, simplified with what is known so far.
  Scalar resolved(const Scalar& scalar);
  bool decide(const Scalar& predicate);
  // Returns the result of an outcome, given the outcome's term.
  std::function<std::optional<bool>(int)> ask = {};
  // Returns the number that a scalar is, if it depends on a count that a condition has requested, which is
  // then chosen; otherwise returns nothing.
  std::optional<uint64_t> number(const Scalar& scalar);

  std::string text(const Scalar& scalar) const;
  // Returns what the last run has chosen: "%clusterid.x < 5, param(n) from 1 to 64".
  std::string chosen() const;
  // Returns false if the choices contradict each other, assuming that sums do not overflow their registers.
  bool may_be();
  // Returns whether all choices are certainly possible together. Sums, shifts and products of parameters are
  // assumed to be independent; quotients, bits, counts that are sums, and loaded values are not.
  bool can_be() const;

 private:
  friend class Possible;
  struct Node {
    TermOperation operation;
    uint64_t constant = 0;                               // for a sum
    std::vector<std::pair<int, uint64_t>> addends = {};  // for a sum: terms, in ascending order
    std::vector<Scalar> inputs = {};
  };

  // A sum as an integer that does not overflow its register.
  struct Sum {
    int64_t constant = 0;
    std::map<int, int64_t> factors = {};
    Sum minus(const Sum& other) const;
    Sum times(int64_t by) const;
    bool is_natural() const;                        // whether it is a sum of nonnegative numbers
    bool is_natural_minus(const Sum& other) const;  // whether minus(other) is natural
  };
  Sum sum_of(const Scalar& s, int bits) const;
  Sum margin_of(const Node& less) const;
  Sum at_least_zero(const Node& less, bool holds) const;
  const std::vector<Sum>& not_negative(const TermOperation& compared) const;
  bool is_natural(const Scalar& s, const TermOperation& compared) const;
  // A fact that compares two numbers that have not wrapped around; the margin is not negative if the
  // comparison holds. comparisons() returns those between numbers of `bits` bits.
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
  // Returns the only term that decides another term, and its values for which the other term is in `values`.
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
  // These follow from the facts and domains, and are valid until one of them changes.
  std::unordered_map<int, Scalar> resolved_;
  mutable std::map<TermOperation, std::vector<Sum>> not_negative_;
  mutable std::map<int, std::vector<Comparison>> comparisons_;  // by bits
};

}  // namespace ptxbuilder::analysis
