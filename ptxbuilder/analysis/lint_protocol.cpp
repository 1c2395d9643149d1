#include "ptxbuilder/analysis/lint_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace ptxbuilder::analysis {
namespace {

std::optional<Use> use_of(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  Use use{.operation = i};
  if (o.is("mbarrier")) {
    use.inits = o.has("init");
    use.invalidates = o.has("inval");
    use.arrives = o.has("arrive", "arrive_drop");
    use.expects = o.has("expect_tx");
    use.copies = o.has("complete_tx");
    use.waits = o.has("try_wait", "test_wait");
    if (!use.works() && !use.inits && !use.invalidates) return std::nullopt;
  } else if (o.has("mbarrier::complete_tx::bytes")) {
    use.copies = true;
    use.is_remote = o.has("multicast::cluster");
  } else if (o.is("cp") && o.has("mbarrier") && o.has("arrive")) {
    use.arrives = o.has("noinc");
  } else if (o.is("tcgen05") && o.has("commit")) {
    use.arrives = true;  // arrives once, when the products of the thread are complete
    use.is_remote = o.has("multicast::cluster");
  } else {
    return std::nullopt;
  }
  const std::vector<Sum> addresses = kernel.addresses(i);
  if (addresses.empty()) return std::nullopt;
  use.address = use.copies && !o.is("mbarrier") ? addresses.back() : addresses.front();
  if (const Atom* mapped = kernel.values.only_atom(use.address, "mapa")) {
    use.is_remote = true;
    use.address = mapped->inputs[0];
  }
  return use;
}

class Options {
 public:
  using Set = std::set<int64_t>;
  Options(const LintKernel& kernel, ThreadValues& in) : kernel_(kernel), in_(in) {}

  std::optional<Set> operator()(const Sum& sum) {
    kernel_.spend(1);
    Sum rest = in_.rest(sum);
    // A value that depends on a meet, but is not a copy of the meet, needs all of the meet's options, which
    // are not known yet.
    const bool is_copy = rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].second == 1;
    const std::set<int> copied = copied_;
    if (!is_copy) copied_.clear();
    Set all = remainders(rest);
    all = plus(all, {rest.constant}, 1);
    bool known = true;
    ++depth_;
    for (const auto& [number, factor] : rest.terms) {
      const std::optional<Set> of = known && depth_ < kDeepest ? atom(number) : std::nullopt;
      known = of && of->size() * all.size() <= kMost;
      if (known) all = plus(all, *of, factor);
    }
    --depth_;
    copied_ = copied;
    return known ? std::optional(all) : std::nullopt;
  }

 private:
  static constexpr size_t kMost = 256;
  static constexpr int kDeepest = 64;

  static Set plus(const Set& a, const Set& b, int64_t factor) {
    Set sums;
    for (int64_t x : a)
      for (int64_t y : b) sums.insert(x + y * factor);
    return sums;
  }

  // A quotient x / n that is computed with a multiplication and a shift (Warren, Hacker's Delight, "Unsigned
  // Division by Divisors").
  struct Division {
    Sum of;
    int64_t by;
  };
  std::optional<Division> division(int number) const {
    const Atom* a = &kernel_.values.atom(number);
    int64_t shift = 32;
    if (a->name.starts_with("shr") && a->inputs.size() == 2 && a->inputs[1].is_constant()) {
      shift += a->inputs[1].constant;
      a = kernel_.values.only_atom(a->inputs[0], "mul.hi");
    }
    if (!a || !a->name.starts_with("mul.hi") || a->inputs.size() != 2 || !a->inputs[1].is_constant() ||
        shift > 62)
      return std::nullopt;
    const int64_t factor = a->inputs[1].constant & 0xffffffff, power = int64_t{1} << shift;
    if (factor == 0) return std::nullopt;
    const int64_t by = power / factor + 1;
    if (by < 3 || by > static_cast<int64_t>(kMost) || (power + by - 1) / by != factor) return std::nullopt;
    return Division{a->inputs[0], by};
  }

  // Removes terms f * x - f * n * (x / n) from a sum, and returns the possible values of the sum of these
  // terms.
  Set remainders(Sum& rest) const {
    Set all = {0};
    for (const auto& [number, factor] : Sum(rest).terms) {
      const auto d = division(number);
      if (!d || factor % d->by != 0) continue;
      const int64_t times = -factor / d->by;
      std::map<int, int64_t> terms(rest.terms.begin(), rest.terms.end());
      terms.erase(number);
      const bool is_there = std::all_of(d->of.terms.begin(), d->of.terms.end(), [&](const auto& term) {
        const auto found = terms.find(term.first);
        const bool same = found != terms.end() && found->second == times * term.second;
        if (same) terms.erase(found);
        return same;
      });
      if (!is_there) continue;
      rest.constant -= times * d->of.constant;
      rest.terms.assign(terms.begin(), terms.end());
      all = plus(all, below(d->by), times);
    }
    return all;
  }

  static Set below(int64_t count) {
    Set all;
    for (int64_t i = 0; i < count; ++i) all.insert(i);
    return all;
  }
  std::optional<Set> any_of(const Atom& a, size_t first, size_t last) {
    Set all;
    for (size_t i = first; i < last; ++i) {
      const std::optional<Set> of = (*this)(a.inputs[i]);
      if (!of) return std::nullopt;
      all.insert(of->begin(), of->end());
    }
    return all;
  }

  std::optional<Set> atom(int number) {
    const Atom& a = kernel_.values.atom(number);
    const auto whole = [&](size_t i, int64_t most) {
      return i < a.inputs.size() && a.inputs[i].is_constant() && a.inputs[i].constant > 0 &&
             a.inputs[i].constant <= most;
    };
    if (a.kind == Atom::Kind::stage && whole(1, kMost)) return below(a.inputs[1].constant);
    if (a.kind == Atom::Kind::meet) {
      if (copied_.contains(number)) return Set{};  // a copy has only the options of its source
      if (!open_.insert(number).second) return std::nullopt;
      copied_.insert(number);
      const std::optional<Set> all = any_of(a, 0, a.inputs.size());
      open_.erase(number);
      copied_.erase(number);
      return all;
    }
    if (a.kind != Atom::Kind::function) return std::nullopt;
    if (a.name.starts_with("and") && a.inputs.size() == 2)
      for (size_t i : {size_t{0}, size_t{1}})
        if (whole(i, INT32_MAX)) return masked(a.inputs[i].constant);
    if (a.name.starts_with("bfe") && whole(2, 7)) return below(int64_t{1} << a.inputs[2].constant);
    if (a.name.starts_with("rem") && whole(1, kMost)) return below(a.inputs[1].constant);
    if (a.name.starts_with("selp") && a.inputs.size() == 3) {
      if (const auto count = ring(a)) return below(*count);
      return any_of(a, 0, 2);
    }
    if ((a.name == "if" || a.name == "unless") && a.inputs.size() == 3) return any_of(a, 1, 3);
    return std::nullopt;
  }

  static std::optional<Set> masked(int64_t mask) {
    if (__builtin_popcountll(static_cast<uint64_t>(mask)) > 6) return std::nullopt;
    Set all;
    for (int64_t some = mask;; some = (some - 1) & mask) {
      all.insert(some);
      if (some == 0) return all;
    }
  }

  // If `choice` selects between x + 1 and 0, returns the number of stages, which is the value of x + 1 that
  // is replaced with 0.
  std::optional<int64_t> ring(const Atom& choice) const {
    for (const char* compare : {"setp.eq", "setp.ne"}) {
      const Atom* test = kernel_.values.only_atom(choice.inputs[2], compare);
      if (!test || test->inputs.size() != 2 || !test->inputs[1].is_constant()) continue;
      const bool equal = compare == std::string_view("setp.eq");
      const int64_t count = test->inputs[1].constant;
      if (choice.inputs[equal ? 0 : 1] == Sum{} && choice.inputs[equal ? 1 : 0] == test->inputs[0] &&
          count > 0 && count <= static_cast<int64_t>(kMost))
        return count;
    }
    return std::nullopt;
  }

  const LintKernel& kernel_;
  ThreadValues& in_;
  int depth_ = 0;
  std::set<int> open_;    // meets whose options are being computed
  std::set<int> copied_;  // open meets whose values are copied unchanged
};

}  // namespace

std::optional<std::set<int64_t>> options(const LintKernel& kernel, ThreadValues& in, const Sum& sum) {
  return Options(kernel, in)(sum);
}

std::optional<int> Dependent::root(const Sum& sum) {
  std::set<int> roots;
  visit_atoms(kernel_.values, in_.rest(sum), [&](int number, const Atom& a) {
    if (in_({.terms = {{number, 1}}})) return false;
    if (a.kind != Atom::Kind::function) roots.insert(number);
    return a.kind == Atom::Kind::function;
  });
  return roots.size() == 1 ? std::optional(*roots.begin()) : std::nullopt;
}

std::optional<int64_t> Dependent::value(const Sum& sum, int root, int64_t of_root, int depth) {
  int64_t total = sum.constant;
  for (const auto& [number, factor] : sum.terms) {
    const auto of_atom = number == root ? std::optional(of_root) : atom(number, root, of_root, depth);
    if (!of_atom) return std::nullopt;
    total += *of_atom * factor;
  }
  return total;
}

std::optional<int64_t> Dependent::atom(int number, int root, int64_t of_root, int depth) {
  if (const auto known = in_({.terms = {{number, 1}}})) return known;
  const Atom& a = kernel_.values.atom(number);
  if (a.kind != Atom::Kind::function || depth == 0) return std::nullopt;
  std::vector<std::optional<int64_t>> inputs;
  for (const Sum& input : a.inputs) inputs.push_back(value(input, root, of_root, depth - 1));
  return ThreadValues::computed(a, inputs);
}

namespace {

// Returns the values of a counter in one period, if the sums that depend on it are periodic, like i & 1.
std::optional<std::set<int64_t>> turn(Dependent& dependent, int root,
                                      std::initializer_list<const Sum*> sums) {
  constexpr int64_t kTurn = 16, kTurns = 4;
  std::set<int64_t> all;
  for (int64_t v = 0; v < kTurn; ++v) {
    all.insert(v);
    for (const Sum* sum : sums)
      for (int64_t n = 1; n < kTurns; ++n)
        if (const auto value = dependent.value(*sum, root, v);
            !value || value != dependent.value(*sum, root, v + n * kTurn))
          return std::nullopt;
  }
  return all;
}

}  // namespace

std::optional<Pairs> together(const LintKernel& kernel, ThreadValues& in, const Sum& a, const Sum& b,
                              int moves) {
  kernel.spend(4);
  Dependent dependent(kernel, in);
  const auto of_a = dependent.root(a), of_b = dependent.root(b), root = of_b ? of_b : of_a;
  auto values = root ? options(kernel, in, {.terms = {{*root, 1}}}) : std::optional(std::set<int64_t>{0});
  const Atom* moving = root ? &kernel.values.atom(*root) : nullptr;
  const bool is_counter = !values && moving && moving->kind == Atom::Kind::counter;
  if (is_counter) values = turn(dependent, *root, {&a, &b});
  if (!values) return std::nullopt;
  int64_t steps = 0;  // number of steps by which the root has advanced since the access to `a`
  if (moves > 0 && of_a) {
    if (!is_counter && moving->kind != Atom::Kind::stage) return std::nullopt;
    steps = moves * (is_counter ? moving->inputs[1].constant : 1);
  }
  const int64_t count = std::ssize(*values);
  if (of_a && of_b && *of_a != *of_b) {
    const auto ahead = lead(kernel, in, kernel.values.atom(*of_a), kernel.values.atom(*of_b));
    if (!ahead) return std::nullopt;
    steps += *ahead;
  }
  Pairs all;
  for (int64_t v : *values) {
    const int64_t before = steps == 0 ? v : ((v - steps) % count + count) % count;
    const auto x = dependent.value(a, of_a.value_or(kNone), before),
               y = dependent.value(b, of_b.value_or(kNone), v);
    if (!x || !y) return std::nullopt;
    all.emplace_back(*x, *y);
  }
  return all;
}

std::optional<int64_t> lead(const LintKernel& kernel, ThreadValues& in, const Atom& x, const Atom& y) {
  const auto is_ring = [](const Atom& a) { return a.kind == Atom::Kind::stage && a.inputs[1].constant > 0; };
  if (!is_ring(x) || !is_ring(y) || x.block != y.block || !(x.inputs[1] == y.inputs[1])) return std::nullopt;
  const Sum &first = x.inputs[0], &second = y.inputs[0];
  std::vector<int> starts = {kNone};
  for (const Sum* sum : {&first, &second})
    if (sum->constant == 0 && sum->terms.size() == 1 && sum->terms[0].second == 1)
      starts.push_back(sum->terms[0].first);
  Dependent dependent(kernel, in);
  const int64_t count = y.inputs[1].constant;
  for (int start : starts) {
    std::set<std::optional<int64_t>> leads;
    for (int64_t stage = 0; stage < count; ++stage) {
      const auto from = dependent.value(first, start, stage), to = dependent.value(second, start, stage);
      leads.insert(from && to ? std::optional(((*to - *from) % count + count) % count) : std::nullopt);
    }
    if (leads.size() == 1 && *leads.begin()) return *leads.begin();
  }
  return std::nullopt;
}

Protocol& LintKernel::protocol() {
  if (!protocol_) protocol_ = std::make_shared<Protocol>(*this);
  return *protocol_;
}

Protocol::Protocol(LintKernel& kernel) : kernel_(kernel) {
  for (int i = 0; i < kernel.count(); ++i) {
    const std::optional<Use> use = kernel.runs(i) ? use_of(kernel, i) : std::nullopt;
    if (!use || use->invalidates) continue;
    Cells all;
    bool known = true;
    by_class_.emplace_back();
    for (const ThreadClass& c : kernel.classes) {
      const auto of = c.runs[at(i)] == Runs::no ? Cells{} : cells_of(*use, c);
      known = known && of;
      by_class_.back().push_back(of.value_or(Cells{}));
      all.insert(by_class_.back().back().begin(), by_class_.back().back().end());
    }
    is_complete = is_complete && known;
    if (!known) all.clear();
    uses.push_back(*use);
    for (int64_t cell : all) by_cell[cell].push_back(uses.size() - 1);
    cells.push_back(std::move(all));
  }
}

bool Protocol::is_complete_for(Report& report) const {
  for (size_t u = 0; u < uses.size() && !is_complete; ++u)
    if (cells[u].empty()) report.undecided(uses[u].operation, "which mbarrier this reaches");
  return is_complete;
}

std::optional<Cells> Protocol::cells_of_thread(const Use& use, int64_t thread) {
  const std::optional<Sum> offset = kernel_.shared_offset(use.address);
  return offset ? options(kernel_, kernel_.values_in(thread), *offset) : std::nullopt;
}

std::optional<Cells> Protocol::cells_of(const Use& use, const ThreadClass& c) {
  const bool one_tells = c.threads.empty() || kernel_.is_uniform(use.address);
  if (one_tells) return cells_of_thread(use, c.threads.empty() ? kNone : c.threads[0]);
  Cells all;
  for (int64_t t : c.threads) {
    const auto of = cells_of_thread(use, t);
    if (!of) return std::nullopt;
    all.insert(of->begin(), of->end());
  }
  return all;
}

std::optional<int64_t> Protocol::threads_at(const Use& use, int64_t cell) {
  int64_t threads = 0;
  std::optional<Sum> condition;  // the undecided condition, which must be the same for all classes
  for (const ThreadClass& c : kernel_.classes) {
    const Runs runs = c.runs[at(use.operation)];
    if (runs == Runs::no) continue;
    if (c.threads.empty() || !kernel_.comes_as_one(c, use.operation)) return std::nullopt;
    if (runs == Runs::maybe) {
      const Sum rest = kernel_.undecided(
          kernel_.values.before(use.operation, kernel_.operation(use.operation).guard), kernel_.values_in(c));
      if (!kernel_.is_uniform(rest) || (condition && !(*condition == rest))) return std::nullopt;
      condition = rest;
    }
    kernel_.spend(c.threads.size());
    for (int64_t t : c.threads) {
      const auto own = cells_of_thread(use, t);
      if (!own) return std::nullopt;
      threads += own->contains(cell);
    }
  }
  return threads;
}

std::set<int> Protocol::operations(int64_t cell, bool Use::*does) const {
  std::set<int> all;
  if (const auto found = by_cell.find(cell); found != by_cell.end())
    for (size_t u : found->second)
      if (uses[u].*does) all.insert(uses[u].operation);
  return all;
}

bool Protocol::reaches(size_t use, const ThreadClass& c, int64_t cell) const {
  return by_class_[use][static_cast<size_t>(&c - kernel_.classes.data())].contains(cell);
}

namespace {

// Returns whether a loop only waits.
bool only_waits(const LintKernel& kernel, const Loop& loop) {
  for (int block : loop.blocks)
    for (int i = kernel.graph.blocks[at(block)].first; i < kernel.graph.blocks[at(block)].last; ++i) {
      const Operation& o = kernel.operation(i);
      const bool waits = o.is_mbarrier_wait();
      for (const char* other : {"st", "cp", "wgmma", "mma", "bar", "barrier", "red", "atom", "ldmatrix",
                                "stmatrix", "fence", "mbarrier", "ld"})
        if (o.is(other) && !waits) return false;
    }
  return true;
}

}  // namespace

int working_loop(const LintKernel& kernel, int i) {
  int loop = kernel.graph.blocks[at(kernel.graph.block_of[at(i)])].loop;
  while (loop != kNone && only_waits(kernel, kernel.graph.loops[at(loop)]))
    loop = kernel.graph.loops[at(loop)].parent;
  return loop;
}

std::set<int> changing(const LintKernel& kernel, const Sum& sum, const Loop& loop) {
  std::set<int> all;
  visit_atoms(kernel.values, sum, [&](int number, const Atom& a) {
    const bool meets = a.block != kNone;
    const int block = meets ? a.block : a.operation != kNone ? kernel.graph.block_of[at(a.operation)] : kNone;
    const bool changes = block != kNone && loop.contains(block) && (meets || a.kind == Atom::Kind::unknown);
    if (changes) all.insert(number);
    return !changes;
  });
  return all;
}

std::string place(const LintKernel& kernel, int64_t cell) {
  return fmt::format("the mbarrier at {}", kernel.place(cell));
}

}  // namespace ptxbuilder::analysis
