// This is what a kernel's integers are where not all are known: numbers, or terms of parameters and special
// registers. Conditions on them are decided by choices, and each choice narrows what a later one may be.
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

// A number, or a term where that is not known.
struct Scalar {
  int term = kNone;
  uint64_t value = 0;

  bool is_known() const { return term == kNone; }
  bool operator==(const Scalar&) const = default;
};

enum class TermKind : uint8_t {
  symbol,     // that nothing is known of, by its name
  sum,        // constant + the sum of factor times term, modulo 2^bits
  other,      // an instruction's result, of whose value only is known that equal inputs give equal ones
  parameter,  // that is loaded, by its address
  outcome,    // of a test that a run answers
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
  convert,  // from as many bits as `aside` says
  extract,  // bfe
  popc,
  in_cta,  // an address of shared memory in another CTA of the cluster
  clz,
  brev
};

// CTAs of a cluster lie so far apart among the addresses of shared::cluster, and a CTA's own memory ahead of
// all.
inline constexpr int kCtaBits = 24;

// A number with the sign that its highest bit of so many is.
constexpr int64_t with_sign(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// This is what is done with numbers of how many bits.
struct TermOperation {
  TermKind kind = TermKind::other;
  uint8_t bits = 32;
  bool is_signed = false;
  uint8_t aside = 0;
  std::string_view name = {};  // of a symbol, and of another instruction

  auto operator<=>(const TermOperation&) const = default;
};

// One way to decide what a run asks for, and the next way after it.
class Choices {
 public:
  // The next choice of `count` ones: 0 at first.
  int choose(int count);
  // Goes on to another way; false where there is none.
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
  // Throws Refusal where terms take more than `most_work` to follow: a term once, and a quotient each fact.
  Terms(Choices& choices, size_t most_work) : choices_(choices), work_left_(most_work) {}

  // A term that is taken to be no small number of turns, since the protocol fails on an empty problem: the
  // last run's first one that may help. Nothing where there is none.
  std::optional<std::string> assume_more();

  // Forgets what a run has chosen; `most` is up to where a count is chosen whose values are needed.
  void begin_run(int most);

  Scalar symbol(const std::string& name, int bits);
  Scalar made(const TermOperation& operation, const std::vector<Scalar>& inputs);
  Scalar plus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, 1, bits); }
  Scalar minus(const Scalar& a, const Scalar& b, int bits) { return combined(a, 1, b, ~uint64_t{0}, bits); }
  // `how` is lt, le, gt, ge, eq or ne; nothing of another one.
  std::optional<Scalar> compared(std::string_view how, int bits, bool is_signed, const Scalar& a,
                                 const Scalar& b);
  Scalar negated(const Scalar& predicate);

  // This is what is known of it by now.
  Scalar resolved(const Scalar& scalar);
  bool decide(const Scalar& predicate);
  // Answers for an outcome, by its term.
  std::function<std::optional<bool>(int)> ask = {};
  // The number that it is, chosen where a count decides it that a condition has asked for; nothing where none
  // does.
  std::optional<uint64_t> number(const Scalar& scalar);

  std::string text(const Scalar& scalar) const;
  // This is what the last run has chosen: "%clusterid.x < 5, param(n) from 1 to 64".
  std::string chosen() const;
  // False if what was chosen cannot be so together, as sums do not go over the end of their registers.
  bool may_be();
  // This says whether all that was chosen can be so together, for all that is known: sums, shifts and
  // products of parameters are taken to be independent; quotients, bits, counts that are sums and loaded
  // values are not.
  bool can_be() const;

 private:
  friend class Possible;
  struct Node {
    TermOperation operation;
    uint64_t constant = 0;                               // of a sum
    std::vector<std::pair<int, uint64_t>> addends = {};  // of a sum, terms ascending
    std::vector<Scalar> inputs = {};
  };

  // A sum as a number that does not go over the end of its register.
  struct Sum {
    int64_t constant = 0;
    std::map<int, int64_t> factors = {};
    Sum minus(const Sum& other) const;
    Sum times(int64_t by) const;
    bool is_natural() const;  // of numbers that are not negative
  };
  Sum sum_of(const Scalar& s, int bits) const;
  Sum margin_of(const Node& less) const;
  Sum at_least_zero(const Node& less, bool holds) const;
  std::vector<Sum> not_negative(const TermOperation& compared) const;
  bool is_natural(const Scalar& s, const TermOperation& compared) const;
  std::pair<uint64_t, uint64_t> quotient(const Node& n) const;
  std::optional<Scalar> quotient_by_floats(const Node& sum);

  Scalar combined(const Scalar& a, uint64_t by_a, const Scalar& b, uint64_t by_b, int bits);
  Scalar sum(uint64_t constant, std::map<int, uint64_t> addends, int bits);
  Scalar interned(Node node);
  static std::optional<uint64_t> computed(const TermOperation& o, const std::vector<Scalar>& x);
  std::optional<Scalar> simplified(const TermOperation& o, const std::vector<Scalar>& x);
  // The term that alone decides a term, and the values of it for which that is in `values`.
  std::pair<int, Intervals> root(int term, Intervals values) const;
  std::optional<std::pair<int, Intervals>> condition(const Node& comparison) const;
  Intervals reach(const Node& comparison) const;
  std::optional<bool> implied(int predicate);
  void assume(int predicate, bool holds);
  std::optional<std::pair<uint64_t, uint64_t>> range(int term) const;
  bool restrict(int root, const Intervals& to);
  std::optional<int> find(int term, TermKind kind) const;
  bool choose_value(int term);
  const Node& node(int term) const { return nodes_[static_cast<size_t>(term)]; }
  int bits(int term) const { return node(term).operation.bits; }

  void spend(size_t work) const;

  Choices& choices_;
  mutable size_t work_left_;
  int most_ = 0;
  std::deque<Node> nodes_;  // which stay where they are
  std::unordered_map<std::string, int> numbers_;
  std::map<std::string, int, std::less<>> names_;
  std::map<int, Intervals> assumed_;
  // These belong to a run:
  std::map<int, Intervals> domains_;
  std::map<int, bool> facts_;
  std::unordered_map<int, Scalar> resolved_;
};

}  // namespace ptxbuilder::analysis
