#include "ptxbuilder/analysis/thread_values.h"

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

using Number = std::optional<int64_t>;

// Returns the operand's bits as an unsigned number with the instruction's width.
uint64_t bits_of(std::string_view type, int64_t x) {
  const auto bits = static_cast<uint64_t>(x);
  if (type.ends_with("64")) return bits;
  return bits & (type.ends_with("16") ? 0xffff : 0xffffffff);
}

int64_t number_of(std::string_view type, int64_t x) {
  if (!type.starts_with("s")) return static_cast<int64_t>(bits_of(type, x));
  if (type.ends_with("64")) return x;
  return type.ends_with("16") ? static_cast<int16_t>(x) : static_cast<int32_t>(x);
}

Number compared(std::string_view how, std::string_view type, int64_t x, int64_t y) {
  const uint64_t u = bits_of(type, x), v = bits_of(type, y);
  if (how == "eq") return u == v;
  if (how == "ne") return u != v;
  const bool is_signed = type.starts_with("s");
  const bool less = is_signed ? number_of(type, x) < number_of(type, y) : u < v;
  if (how == "lt" || how == "lo") return less;
  if (how == "le" || how == "ls") return less || u == v;
  if (how == "gt" || how == "hi") return !less && u != v;
  if (how == "ge" || how == "hs") return !less;
  return std::nullopt;
}

Number of_one(std::string_view name, std::string_view type, int64_t x) {
  if (name == "not") return type == "pred" ? !x : ~x;
  return std::nullopt;
}

Number of_two(std::string_view name, std::string_view type, int64_t x, int64_t y) {
  if (name == "and") return x & y;
  if (name == "or") return x | y;
  if (name == "xor") return x ^ y;
  if (name == "shl" && y >= 0 && y < 63) return static_cast<int64_t>(bits_of(type, x) << y);
  if (name == "shr" && y >= 0 && y < 64)
    return type.starts_with("s") ? number_of(type, x) >> y : static_cast<int64_t>(bits_of(type, x) >> y);
  if (name == "mul") return x * y;
  const int64_t a = number_of(type, x), b = number_of(type, y);
  if (name == "div" && b > 0 && a >= 0) return a / b;
  if (name == "rem" && b > 0 && a >= 0) return a % b;
  if (name == "min") return std::min(a, b);
  if (name == "max") return std::max(a, b);
  return std::nullopt;
}

}  // namespace

Number ThreadValues::operator()(const Sum& sum) {
  int64_t total = sum.constant;
  for (const auto& [number, factor] : sum.terms) {
    const Number value = atom(number);
    if (!value) return std::nullopt;
    total += *value * factor;
  }
  return total;
}

Sum ThreadValues::rest(const Sum& sum) {
  Sum rest{.constant = sum.constant};
  for (const auto& term : sum.terms) {
    if (const Number value = atom(term.first))
      rest.constant += *value * term.second;
    else
      rest.terms.push_back(term);
  }
  return rest;
}

Number ThreadValues::atom(int number) {
  const int place = loops_ == Loops::unknown ? values_.place_in_thread(number) : number;
  if (place == kNone) return std::nullopt;
  if (at(place) >= states_.size()) {
    states_.resize(at(place) + 1, State::open);
    numbers_.resize(states_.size());
  }
  if (states_[at(place)] == State::open) {
    states_[at(place)] = State::unknown;  // used if the atom depends on itself
    constexpr int kDeepest = 2000;
    ++depth_;
    const Number value = depth_ < kDeepest ? found(values_.atom(number)) : std::nullopt;
    --depth_;
    if (value) states_[at(place)] = State::known, numbers_[at(place)] = *value;
  }
  return states_[at(place)] == State::known ? Number(numbers_[at(place)]) : std::nullopt;
}

Number ThreadValues::special(std::string_view name) const {
  if (!thread_) return std::nullopt;
  if (name == "%tid.x") return *thread_;
  if (name == "%tid.y" || name == "%tid.z") return 0;
  if (name == "%laneid") return *thread_ % hopper::warp_threads;
  return std::nullopt;
}

Number ThreadValues::found(const Atom& a) {
  if (a.kind == Atom::Kind::special) return special(a.name);
  if (loops_ == Loops::at_start)
    if (const std::optional<Sum> first = values_.first(a)) return (*this)(*first);
  if (a.kind != Atom::Kind::function) return std::nullopt;
  std::vector<Number> inputs;
  for (const Sum& input : a.inputs) inputs.push_back((*this)(input));
  if (a.name.starts_with("elect") && thread_) {
    if (inputs.size() == 2 && inputs[1] == 0) return 0;  // {lane, p}: the elected lane is 0
    return *thread_ % hopper::warp_threads == 0;
  }
  return computed(a, inputs);
}

Number ThreadValues::computed(const Atom& function, const std::vector<Number>& x) {
  const std::vector<std::string_view> words = ptx_text::split_opcode(function.name);
  const std::string_view name = words[0], type = words.back();
  // One known input may determine the result.
  if (name == "and" && x.size() == 2 && (x[0] == 0 || x[1] == 0)) return 0;
  if (name == "or" && type == "pred" && x.size() == 2 && ((x[0] && *x[0]) || (x[1] && *x[1]))) return 1;
  if (name == "selp" && x.size() == 3 && x[2]) return *x[2] ? x[0] : x[1];
  if ((name == "if" || name == "unless") && x.size() == 3 && x[0])
    return (*x[0] != 0) == (name == "if") ? x[1] : x[2];
  for (const Number& value : x)
    if (!value) return std::nullopt;
  if (name == "shfl" && !x.empty()) return x[0];  // all lanes have the same value
  if (name == "cvt" && x.size() == 1 && words.size() == 3) return number_of(words[1], *x[0]);
  if (name == "bfe" && x.size() == 3 && !type.starts_with("s") && *x[1] >= 0 && *x[2] >= 0 && *x[1] < 64 &&
      *x[2] < 32)
    return static_cast<int64_t>((bits_of(type, *x[0]) >> *x[1]) & ((uint64_t{1} << *x[2]) - 1));
  if (x.size() == 1) return of_one(name, type, *x[0]);
  if (x.size() != 2 || type.starts_with("f") || (words.size() == 3 && words[1] == "hi")) return std::nullopt;
  if (name == "setp") return words.size() == 3 ? compared(words[1], type, *x[0], *x[1]) : std::nullopt;
  return of_two(name, type, *x[0], *x[1]);
}

}  // namespace ptxbuilder::analysis
