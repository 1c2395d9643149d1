#include "ptxbuilder/analysis/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

namespace ptxbuilder::analysis {
namespace {

int64_t wrap(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t bits(int64_t x) { return static_cast<uint64_t>(x); }

Sum constant(int64_t value) { return {.constant = value}; }

Sum plus(const Sum& a, const Sum& b) {
  Sum sum{.constant = wrap(bits(a.constant) + bits(b.constant))};
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first))
      sum.terms.push_back(*i++);
    else if (i == a.terms.end() || j->first < i->first)
      sum.terms.push_back(*j++);
    else {
      if (const int64_t factor = wrap(bits(i->second) + bits(j->second)))
        sum.terms.emplace_back(i->first, factor);
      ++i, ++j;
    }
  }
  return sum;
}

Sum times(const Sum& a, int64_t factor) {
  Sum product{.constant = wrap(bits(a.constant) * bits(factor))};
  for (const auto& [atom, f] : a.terms)
    if (const int64_t scaled = wrap(bits(f) * bits(factor))) product.terms.emplace_back(atom, scaled);
  return product;
}

// Returns whether an instruction has only the modifiers of ordinary integer instructions, so that its first
// word determines the operation.
bool is_integer(const Operation& o) {
  constexpr std::array known = {"b16",    "u16",    "s16",   "b32",   "u32",     "s32", "b64",
                                "u64",    "s64",    "pred",  "lo",    "wide",    "to",  "param",
                                "global", "shared", "local", "const", "volatile"};
  return std::all_of(o.words.begin() + 1, o.words.end(), [&](std::string_view word) {
    return std::find(known.begin(), known.end(), word) != known.end();
  });
}

bool is_memory_read(const Operation& o) {
  return o.is("ld", "ldu", "ldmatrix", "atom", "call", "tld4", "tex");
}

// Returns the mnemonic without parts that do not affect the computed integers; for example, .b32 and .u32 are
// equivalent.
std::string plain_name(const Operation& o) {
  const std::vector<std::string_view> words = o.canonical_words();
  constexpr std::array without_sign = {"add", "sub", "mov", "selp", "and",  "or",   "xor",
                                       "not", "shl", "ld",  "st",   "shfl", "popc", "brev"};
  const bool sign_counts =
      std::find(without_sign.begin(), without_sign.end(), o.words[0]) == without_sign.end() &&
      !(o.is("mul", "mad") && o.has("lo")) && !(o.is("setp") && o.has("eq", "ne"));
  std::string name(o.words[0]);
  for (size_t i = 1; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "u32" || word == "s32" || word == "b32") word = sign_counts && word == "s32" ? "s32" : "32";
    name += fmt::format(".{}", word);
  }
  return name;
}

}  // namespace

Values::Values(const Code& code, const Graph& graph, Numbering& numbering)
    : code_(code),
      graph_(graph),
      definitions_(code, graph),
      numbering_(numbering),
      copies_(definitions_.meets().size()) {
  find_objects();
  int results = 0;
  for (const Operation& o : code.operations) {
    first_result_.push_back(results);
    results += static_cast<int>(o.writes.size());
  }
  constexpr int kMostRounds = 32;  // each round finds copies of the copies found before; in longer chains,
                                   // the last copies remain meets
  int round = 0;
  do {
    atoms_.clear();
    table_.assign(1024, kNone);
    in_table_ = 0;
    results_.assign(at(results), std::nullopt);
    meets_.assign(definitions_.meets().size(), kNone);
    made_at_ = meets_;
    made_.clear();
    evaluate();
  } while (find_copies() && ++round < kMostRounds);
  find_hashes();
  number_objects();
  find_hashes();
  find_of_thread();
}

// Finds the atoms that depend on the thread's number. Atoms of functions are numbered after their inputs. One
// known input may determine the result, such as 0 for `and`.
void Values::find_of_thread() {
  of_thread_.assign(atoms_.size(), kNone);
  const auto is_known = [&](const Sum& sum) {
    return std::all_of(sum.terms.begin(), sum.terms.end(),
                       [&](const auto& term) { return of_thread_[at(term.first)] != kNone; });
  };
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const Atom& a = atoms_[i];
    const bool needs_one = a.name.starts_with("and") || a.name.starts_with("or") ||
                           a.name.starts_with("selp") || a.name == "if" || a.name == "unless";
    const auto inputs = std::count_if(a.inputs.begin(), a.inputs.end(), is_known);
    const bool is_special =
        a.kind == Atom::Kind::special && (a.name.starts_with("%tid") || a.name == "%laneid");
    const bool is_function = a.kind == Atom::Kind::function && !a.inputs.empty();
    if (is_special || (is_function && (needs_one ? inputs > 0 : inputs == std::ssize(a.inputs))) ||
        (a.kind == Atom::Kind::function && a.name.starts_with("elect")))
      of_thread_[i] = count_of_thread_++;
  }
}

void Values::evaluate() {
  // In the graph's order, the inputs of each instruction are already known when it is visited. The inputs of
  // meets are added later.
  for (int block : graph_.order)
    for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
      const Operation& o = code_.operations[at(i)];
      if (o.guard != kNone) before(i, o.guard);
      for (size_t n = o.updates ? 0 : o.results; n < o.operands.size(); ++n) {
        of(i, o.operands[n]);
        for (const Value& part : o.operands[n].parts) of(i, part);  // for a tensor address, the coordinates
      }
      for (int reg : o.writes) after(i, reg);
    }
  for (size_t i = 0; i < made_.size(); ++i) fill(static_cast<int>(i));
}

Sum Values::before(int operation, int reg) { return sum_of(definitions_.before(operation, reg), reg); }
Sum Values::after(int operation, int reg) { return result(operation, reg); }

Sum Values::sum_of(const Definition& from, int reg) {
  if (from.kind == Definition::Kind::result) return result(from.number, reg);
  if (from.kind == Definition::Kind::meet) return meet(from.number);
  const auto& parameters = code_.parameter_registers;
  if (const auto place = std::find(parameters.begin(), parameters.end(), reg); place != parameters.end())
    return atom_of({.kind = Atom::Kind::parameter,
                    .name = "parameter",
                    .inputs = {constant(place - parameters.begin())}});
  return atom_of({.name = "unwritten"});
}

Sum Values::of(int operation, const Value& operand) {
  using enum Value::Kind;
  switch (operand.kind) {
    case reg:
      return plus(before(operation, operand.number), constant(operand.value));
    case integer:
      return constant(operand.value);
    case special:
      // Each read of a clock yields a different value.
      for (const char* name : {"%clock", "%globaltimer", "%pm"})
        if (operand.text.starts_with(name))
          return atom_of({.name = std::string(operand.text), .operation = operation});
      return atom_of({.kind = Atom::Kind::special, .name = std::string(operand.text)});
    case Value::Kind::callee:
      return atom_of({.kind = Atom::Kind::address,
                      .name = "function",
                      .object = static_cast<int>(code_.variables.size()) + operand.number});
    case symbol: {
      if (operand.number != kNone) {
        const std::string space = code_.variables[at(operand.number)].space.substr(1);
        return plus(
            atom_of({.kind = Atom::Kind::address, .name = space, .object = object_of(operand.number)}),
            constant(operand.value));
      }
      for (const auto* list : {&code_.function->parameters, &code_.function->results})
        for (size_t i = 0; i < list->size(); ++i)
          if (!(*list)[i].names.empty() && (*list)[i].names[0].name == operand.text)
            return plus(atom_of({.kind = Atom::Kind::parameter,
                                 .name = list == &code_.function->parameters ? "parameter" : "result",
                                 .inputs = {constant(static_cast<int64_t>(i))}}),
                        constant(operand.value));
      return plus(atom_of({.kind = Atom::Kind::address, .name = std::string(operand.text)}),
                  constant(operand.value));
    }
    case address:
      if (operand.parts.empty()) return {};
      return plus(of(operation, operand.parts[0]), constant(operand.value));
    case vector: {
      std::vector<Sum> parts;
      for (const Value& part : operand.parts) parts.push_back(of(operation, part));
      return function("vector", std::move(parts), operation);
    }
    default:
      return atom_of({.kind = Atom::Kind::function, .name = std::string(operand.text)});
  }
}

Sum Values::result(int operation, int reg) {
  const Operation& o = code_.operations[at(operation)];
  const auto place = std::find(o.writes.begin(), o.writes.end(), reg) - o.writes.begin();
  const size_t slot = at(first_result_[at(operation)]) + static_cast<size_t>(place);
  if (results_[slot]) return *results_[slot];
  // This placeholder remains only for a value in a cycle without a meet, which is possible in unreachable
  // code.
  results_[slot] = atom_of({.name = "cycle", .operation = operation});
  Sum sum = computed(operation, reg);
  if (o.guard != kNone) {
    const Sum old = before(operation, reg), predicate = before(operation, o.guard);
    const auto opposite = o.negated ? this->opposite(predicate) : std::nullopt;
    sum = function(o.negated && !opposite ? "unless" : "if",
                   {opposite.value_or(predicate), std::move(sum), old}, operation);
  }
  results_[slot] = std::move(sum);
  return *results_[slot];
}

const Atom* Values::only_atom(const Sum& sum, std::string_view name) const {
  if (sum.constant != 0 || sum.terms.size() != 1 || sum.terms[0].second != 1) return nullptr;
  const Atom& a = atom(sum.terms[0].first);
  return a.name.starts_with(name) ? &a : nullptr;
}

std::optional<Sum> Values::opposite(const Sum& predicate) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> opposites = {{{"eq", "ne"},
                                                                                        {"lt", "ge"},
                                                                                        {"gt", "le"},
                                                                                        {"lo", "hs"},
                                                                                        {"hi", "ls"},
                                                                                        {"ne", "eq"},
                                                                                        {"ge", "lt"},
                                                                                        {"le", "gt"},
                                                                                        {"hs", "lo"},
                                                                                        {"ls", "hi"}}};
  constexpr std::string_view setp = "setp.";
  const Atom* a = only_atom(predicate, setp);
  if (!a || a->inputs.size() != 2 || a->name.find(".f") != std::string::npos) return std::nullopt;
  const std::string_view name = a->name, type = name.substr(std::min(name.size(), setp.size() + 2));
  for (const auto& [comparison, other] : opposites)
    if (name.substr(setp.size()).starts_with(comparison) && type.starts_with('.') &&
        type.find('.', 1) == type.npos)
      return function(fmt::format("{}{}{}", setp, other, type), a->inputs, kNone);
  return std::nullopt;
}

std::optional<Sum> Values::first(const Atom& a) const {
  if (a.kind == Atom::Kind::counter || a.kind == Atom::Kind::stage) return a.inputs[0];
  if (a.kind != Atom::Kind::meet) return std::nullopt;
  size_t ahead = 0, latches = 0;  // inputs from before the loop precede the inputs from latches
  for (int predecessor : graph_.blocks[at(a.block)].predecessors)
    if (graph_.reaches(predecessor)) ++(graph_.dominates(a.block, predecessor) ? latches : ahead);
  if (latches == 0 || ahead == 0 || a.inputs.size() != ahead + latches) return std::nullopt;
  for (size_t i = 1; i < ahead; ++i)
    if (!(a.inputs[i] == a.inputs[0])) return std::nullopt;
  return a.inputs[0];
}

Sum Values::from(int number, int predecessor) {
  return behind(predecessor, definitions_.meets()[at(atom(number).meet)].reg);
}

bool Values::is_small(const Sum& sum) const {
  int64_t most = sum.constant;
  for (const auto& [number, factor] : sum.terms) {
    const Atom& a = atom(number);
    constexpr int64_t kMost = int64_t{1} << 16;  // bound on registers that count threads
    const bool counts = a.kind == Atom::Kind::special &&
                        (a.name.starts_with("%tid") || a.name.starts_with("%ntid") || a.name == "%laneid" ||
                         a.name == "%warpid" || a.name.starts_with("%cluster_cta"));
    const int64_t of_atom = counts ? kMost : bits_of({.terms = {{number, 1}}});
    constexpr int64_t kEnd = int64_t{1} << 31;
    if (factor < 0 || of_atom < 0 || of_atom >= kEnd || factor >= kEnd) return false;
    most += factor * of_atom;
    if (most < 0 || most >= kEnd) return false;
  }
  return most >= 0 && most < int64_t{1} << 31;
}

bool Values::is_in_shared(const Sum& sum) const {
  return std::any_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
    const Atom& a = atom(term.first);
    return term.second == 1 && a.kind == Atom::Kind::address && a.name == "shared";
  });
}

// Returns a mask of the bits that may be set in a value.
int64_t Values::bits_of(const Sum& sum) const {
  if (sum.is_constant()) return sum.constant;
  if (const Atom* a = only_atom(sum, "and"); a && a->inputs.size() == 2 && a->inputs[1].is_constant())
    return a->inputs[1].constant;
  if (const Atom* a = only_atom(sum, "bfe"); a && a->inputs.size() == 3 && a->inputs[2].is_constant())
    if (const int64_t width = a->inputs[2].constant; width >= 0 && width < 63)
      return (int64_t{1} << width) - 1;
  // The bits of a value that is shifted to the right are bounded by a mask. An address in shared memory is
  // bounded by the size of shared memory, which is at most 256 KB.
  if (const Atom* a = only_atom(sum, "shr"); a && a->inputs.size() == 2 && a->inputs[1].is_constant())
    if (const int64_t by = a->inputs[1].constant; by >= 0 && by < 63) {
      const Atom* masked = only_atom(a->inputs[0], "and");
      const bool has_mask = masked && masked->inputs.size() == 2 && masked->inputs[1].is_constant() &&
                            masked->inputs[1].constant >= 0;
      if (has_mask) return masked->inputs[1].constant >> by;
      if (is_in_shared(a->inputs[0])) return ((int64_t{1} << 18) - 1) >> by;
    }
  // All bits may be set from the lowest bit of the constant or of any term up to the highest bit of the
  // greatest possible sum.
  uint64_t any = bits(sum.constant);
  for (const auto& [number, factor] : sum.terms) {
    const Atom& a = atom(number);
    const bool masked = a.name.starts_with("and") && a.inputs.size() == 2 && a.inputs[1].is_constant();
    const uint64_t mask = masked ? bits(a.inputs[1].constant) : 1;
    any |= bits(factor) * (mask & (~mask + 1));
  }
  const uint64_t from_lowest = ~((any & (~any + 1)) - 1);
  int64_t greatest = sum.constant;
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const auto& [number, factor] : sum.terms) {
    const int64_t most =
        sum.constant == 0 && factor == 1 && sum.terms.size() == 1 ? -1 : bits_of({.terms = {{number, 1}}});
    const bool is_small =
        greatest >= 0 && greatest < kMost && factor > 0 && factor < kMost && most >= 0 && most < kMost;
    greatest = is_small ? greatest + factor * most : -1;
  }
  uint64_t below = ~uint64_t{0};
  for (int shift = 1; greatest >= 0 && shift < 64; shift *= 2) greatest |= greatest >> shift;
  if (greatest >= 0) below = bits(greatest);
  return wrap(from_lowest & below);
}

Sum Values::computed(int operation, int reg) {
  const Operation& o = code_.operations[at(operation)];
  auto input = [&](size_t i) { return i < o.operands.size() ? of(operation, o.operands[i]) : Sum{}; };
  auto whole = [&](const Sum& s) { return s.is_constant(); };
  const bool simple = o.operands.size() >= 2 && o.operands[0].kind == Value::Kind::reg;
  if (simple && is_integer(o)) {
    if (o.is("mov", "cvta")) {
      const Value& from = o.operands[1];
      if (from.kind == Value::Kind::vector) {  // mov.b64 d, {low, high}
        std::vector<Sum> parts;
        for (const Value& part : from.parts) parts.push_back(of(operation, part));
        if (parts.size() == 2 && whole(parts[0]) && whole(parts[1]) && o.has("b64"))
          return constant(wrap((bits(parts[1].constant) << 32) | (bits(parts[0].constant) & 0xffffffff)));
        // Such an instruction combines a low half that has advanced with the high half of the same
        // descriptor.
        if (parts.size() == 2)
          if (const Atom* high = only_atom(parts[1], "part"); high && high->inputs[1] == constant(1))
            for (const auto& [number, factor] : parts[0].terms)
              if (const Atom& low = atom(number); factor == 1 && low.name == "part" &&
                                                  low.inputs[0] == high->inputs[0] &&
                                                  low.inputs[1] == constant(0))
                return plus(low.inputs[0], plus(parts[0], {.terms = {{number, -1}}}));
        return function("pack", std::move(parts), operation);
      }
      return input(1);
    }
    if (o.is("cvt") && o.words.size() == 3) {
      const std::string_view to = o.words[1], from = o.words[2];
      const bool narrows = to.ends_with("32") ? from.ends_with("64") : !to.ends_with("64");
      if (!narrows) return input(1);
      if (to.ends_with("32") && whole(input(1))) return constant(input(1).constant & 0xffffffff);
    }
    if (o.is("add") && !o.has("cc")) return plus(input(1), input(2));
    if (o.is("sub") && !o.has("cc")) return plus(input(1), times(input(2), -1));
    if (o.is("neg")) return times(input(1), -1);
    const Sum a = input(1), b = input(2);
    if (o.is("mul") && !o.has("hi") && (whole(a) || whole(b)))
      return whole(a) ? times(b, a.constant) : times(a, b.constant);
    if (o.is("mad") && !o.has("hi") && !o.has("cc") && (whole(a) || whole(b)))
      return plus(whole(a) ? times(b, a.constant) : times(a, b.constant), input(3));
    // Some compilers emit a mask and a shift for a division by a power of two.
    const bool is_unsigned = o.has("u32", "u64");
    if (o.is("rem", "div") && is_unsigned && whole(b) && b.constant > 0 &&
        std::has_single_bit(bits(b.constant))) {
      const bool is_wide = o.has("u64");
      if (o.is("rem"))
        return function(is_wide ? "and.b64" : "and.32", {a, constant(b.constant - 1)}, operation);
      return function(is_wide ? "shr.u64" : "shr.32", {a, constant(std::countr_zero(bits(b.constant)))},
                      operation);
    }
    if (o.is("shl") && whole(b) && b.constant >= 0 && b.constant < 63)
      return times(a, int64_t{1} << b.constant);
    if (whole(a) && whole(b)) {
      if (o.is("and")) return constant(a.constant & b.constant);
      if (o.is("or")) return constant(a.constant | b.constant);
      if (o.is("xor")) return constant(a.constant ^ b.constant);
      if (o.is("shr") && b.constant >= 0 && b.constant < 64 && a.constant >= 0)
        return constant(a.constant >> b.constant);
    }
    // An `or` of values with disjoint bits, such as the fields of a descriptor, is a sum.
    if (o.is("or") && (bits_of(a) & bits_of(b)) == 0) return plus(a, b);
  }
  // mov.b64 {low, high}, d returns the halves of a packed value.
  std::string& known = plain_names_[o.text->opcode];
  if (known.empty()) known = plain_name(o);
  std::string name = known;
  if (o.is("mov") && !o.operands.empty() && o.operands[0].kind == Value::Kind::vector) {
    const auto& parts = o.operands[0].parts;
    const Sum packed = input(1);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind != Value::Kind::reg || parts[i].number != reg) continue;
      if (packed.is_constant() && parts.size() == 2)
        return constant((packed.constant >> (32 * i)) & 0xffffffff);
      if (const Atom* a = only_atom(packed, "pack"); a && a->inputs.size() == parts.size())
        return a->inputs[i];
      return function("part", {packed, constant(static_cast<int64_t>(i))}, operation);
    }
  }
  if (o.is("ld") && o.has("param") && is_parameter(input(1))) {
    const auto place = std::find(o.writes.begin(), o.writes.end(), reg) - o.writes.begin();
    const std::string_view type = o.words.back();
    const int64_t bytes = type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : type.ends_with("16") ? 2 : 1;
    Atom loaded{.kind = Atom::Kind::parameter,
                .name = "ld",
                .inputs = {plus(input(1), constant(place * bytes))},
                .operation = operation};
    return atom_of(std::move(loaded));
  }
  // A shfl from one lane returns the same value if the value depends only on the warp.
  if (o.is("shfl") && o.has("idx") && o.operands.size() > 2) {
    const Sum a = input(1), lane = input(2);
    const bool counts_warps = std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& term) {
      const Atom& x = atom(term.first);
      return x.name.starts_with("shr") && x.inputs.size() == 2 && x.inputs[1].is_constant() &&
             x.inputs[1].constant >= 5;
    });
    if (lane.is_constant() && counts_warps) return a;
    return function("shfl.sync.idx", {a, lane}, operation);
  }
  std::vector<Sum> inputs;
  for (size_t i = o.updates ? 0 : o.results; i < o.operands.size(); ++i) {
    if (o.updates) continue;  // an accumulator is identified by the instruction that writes it
    inputs.push_back(of(operation, o.operands[i]));
  }
  if (o.writes.size() > 1) {
    const auto place = std::find(o.writes.begin(), o.writes.end(), reg) - o.writes.begin();
    inputs.push_back(constant(place));
  }
  if (is_memory_read(o) || o.updates) {
    // Each load from memory yields a different value.
    return atom_of({.kind = Atom::Kind::unknown,
                    .name = std::move(name),
                    .inputs = std::move(inputs),
                    .operation = operation});
  }
  return function(std::move(name), std::move(inputs), operation);
}

Sum Values::meet(int number) {
  if (const Source& copy = copies_[at(number)]; copy.predecessor != kNone)
    return behind(copy.predecessor, copy.reg);
  int& made = meets_[at(number)];
  if (made == kNone) {
    made = static_cast<int>(atoms_.size());
    made_at_[at(number)] = static_cast<int>(made_.size());
    made_.push_back({number, made});
    atoms_.push_back({.kind = Atom::Kind::meet,
                      .name = "meet",
                      .block = definitions_.meets()[at(number)].block,
                      .meet = number});
    if (has_hashes_) atoms_.back().name_hash = name_hash_of(atoms_.back());
  }
  return {.terms = {{made, 1}}};
}

// Returns the number of stages if `next` is the next stage of a ring: x + 1, or 0 if x + 1 equals the number
// of stages.
std::optional<int64_t> Values::ring_of(const Sum& x, const Sum& next) const {
  const Sum one_more = plus(x, constant(1));
  const Atom* choice = only_atom(next, "selp");
  if (!choice || choice->inputs.size() != 3) return std::nullopt;
  const Atom* equal = only_atom(choice->inputs[2], "setp.eq");
  const Atom* unequal = only_atom(choice->inputs[2], "setp.ne");
  const Atom* test = equal ? equal : unequal;
  if (!test || test->inputs.size() != 2 || !(test->inputs[0] == one_more) || !test->inputs[1].is_constant())
    return std::nullopt;
  const Sum &wrapped = choice->inputs[equal ? 0 : 1], &other = choice->inputs[equal ? 1 : 0];
  if (!(wrapped == constant(0)) || !(other == one_more)) return std::nullopt;
  return test->inputs[1].constant;
}

void Values::fill(int index) {
  const int number = made_[at(index)].atom;
  const auto [block, reg] = definitions_.meets()[at(made_[at(index)].meet)];
  std::vector<Sum> first, again;  // inputs from before the loop, and from its latches
  std::vector<int> from_first, from_again;
  if (block == 0) {
    first.push_back(sum_of({}, reg));
    from_first.push_back(kNone);
  }
  for (int predecessor : graph_.blocks[at(block)].predecessors) {
    if (!graph_.reaches(predecessor)) continue;
    const bool latch = graph_.dominates(block, predecessor);
    Sum sum = behind(predecessor, reg);
    (latch ? again : first).push_back(std::move(sum));
    (latch ? from_again : from_first).push_back(predecessor);
  }
  Atom& made = atoms_[at(number)];
  if (first.size() == 1 && again.size() == 1)
    if (Sum step = plus(again[0], times({.terms = {{number, 1}}}, -1));
        step.is_constant() && step.constant != 0) {
      made.kind = Atom::Kind::counter;
      made.name = "counter";
      made.inputs = {std::move(first[0]), std::move(step)};
      return;
    }
  if (first.size() == 1 && again.size() == 1)
    if (const auto stages = ring_of({.terms = {{number, 1}}}, again[0])) {
      made.kind = Atom::Kind::stage;
      made.name = "stage";
      made.inputs = {std::move(first[0]), constant(*stages)};
      return;
    }
  made.inputs = std::move(first);
  made.inputs.insert(made.inputs.end(), again.begin(), again.end());
  from_first.insert(from_first.end(), from_again.begin(), from_again.end());
  made_[at(index)].predecessors = std::move(from_first);
}

std::span<const int> Values::predecessors(const Atom& a) const {
  if (a.kind != Atom::Kind::meet) return {};
  return made_[at(made_at_[at(a.meet)])].predecessors;
}

Sum Values::function(std::string name, std::vector<Sum> inputs, int operation) {
  return atom_of({.kind = Atom::Kind::function,
                  .name = std::move(name),
                  .inputs = std::move(inputs),
                  .operation = operation});
}

Sum Values::atom_of(Atom made) {
  // A loaded value is specific to its load. Any other value is the same wherever it is computed.
  const auto owner = [](const Atom& a) { return a.kind == Atom::Kind::unknown ? a.operation : kNone; };
  const auto key = [&](const Atom& a) {
    uint64_t hash = mixed(static_cast<uint64_t>(a.kind), std::hash<std::string>()(a.name));
    hash = mixed(mixed(hash, bits(owner(a))), bits(a.object));
    for (const Sum& input : a.inputs) {
      hash = mixed(hash, bits(input.constant));
      for (const auto& [number, factor] : input.terms) hash = mixed(mixed(hash, bits(number)), bits(factor));
    }
    return hash;
  };
  const auto place_of = [&](const Atom& a) {
    size_t place = key(a) & (table_.size() - 1);
    const auto is_other = [&](const Atom& b) {
      return b.kind != a.kind || owner(b) != owner(a) || b.object != a.object || b.name != a.name ||
             b.inputs != a.inputs;
    };
    while (table_[place] != kNone && is_other(atom(table_[place]))) place = (place + 1) & (table_.size() - 1);
    return place;
  };
  size_t place = place_of(made);
  if (table_[place] == kNone) {
    if (2 * ++in_table_ > table_.size()) {
      const std::vector<int> all = std::exchange(table_, std::vector<int>(2 * table_.size(), kNone));
      for (int number : all)
        if (number != kNone) table_[place_of(atom(number))] = number;
      place = place_of(made);
    }
    if (has_hashes_) {
      made.name_hash = name_hash_of(made);
      made.hash = hash_of(made);
    }
    table_[place] = static_cast<int>(atoms_.size());
    atoms_.push_back(std::move(made));
  }
  return {.terms = {{table_[place], 1}}};
}

}  // namespace ptxbuilder::analysis
