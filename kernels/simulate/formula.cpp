#include "kernels/simulate/formula.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

constexpr size_t kMostCharacters = 16384;
constexpr int kMostDepth = 64;
constexpr double kMostTerms = 4294967296;

struct Unary {
  std::string_view name;
  double (*value)(double);
};
constexpr Unary unaries[] = {
    {"-", [](double x) { return -x; }},
    {"abs", [](double x) { return std::fabs(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
    {"round", [](double x) { return std::nearbyint(x); }},
    {"trunc", [](double x) { return std::trunc(x); }},
};

// A binary operator or a function of two numbers. The level of an operator determines its precedence;
// functions have no level.
struct Binary {
  std::string_view name;
  int level;
  double (*value)(double, double);
};
constexpr Binary binaries[] = {
    {"==", 1, [](double a, double b) { return a == b ? 1.0 : 0.0; }},
    {"!=", 1, [](double a, double b) { return a != b ? 1.0 : 0.0; }},
    {"<=", 2, [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
    {">=", 2, [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
    {"<", 2, [](double a, double b) { return a < b ? 1.0 : 0.0; }},
    {">", 2, [](double a, double b) { return a > b ? 1.0 : 0.0; }},
    {"+", 3, [](double a, double b) { return a + b; }},
    {"-", 3, [](double a, double b) { return a - b; }},
    {"*", 4, [](double a, double b) { return a * b; }},
    {"/", 4, [](double a, double b) { return a / b; }},
    {"%", 4, [](double a, double b) { return std::fmod(a, b); }},
    {"min", 0, [](double a, double b) { return std::fmin(a, b); }},
    {"max", 0, [](double a, double b) { return std::fmax(a, b); }},
    {"pow", 0, [](double a, double b) { return std::pow(a, b); }},
};
constexpr int kTightest = 4;

}  // namespace

class FormulaParser {
 public:
  FormulaParser(Formula& formula, std::string_view text, size_t rank) : f_(formula), text_(text) {
    names_.emplace_back("i");
    for (size_t d = 0; d < rank; ++d) names_.push_back(fmt::format("i{}", d));
    f_.variables_ = names_.size();
  }

  void parse() {
    operators(1, 0);
    skip_blanks();
    if (at_ < text_.size()) fail(fmt::format("expected an operator, found '{}'", text_[at_]));
  }

 private:
  using Kind = Formula::Kind;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("column {}: {}", at_ + 1, what));
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word))
      fail(fmt::format("expected '{}', found {}", word,
                       at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "the end"));
  }
  std::string_view name() {
    skip_blanks();
    const size_t from = at_;
    auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
    };
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }

  size_t add(Formula::Node node) {
    f_.nodes_.push_back(std::move(node));
    return f_.nodes_.size() - 1;
  }

  size_t operators(int level, int depth) {
    if (depth > kMostDepth) fail(fmt::format("it is nested more than {} levels deep", kMostDepth));
    if (level > kTightest) return operand(depth);
    size_t left = operators(level + 1, depth);
    for (bool more = true; more;) {
      more = false;
      for (size_t k = 0; k < std::size(binaries); ++k)
        if (binaries[k].level == level && take(binaries[k].name)) {
          const size_t right = operators(level + 1, depth);
          left = add({Kind::binary, 0, k, {left, right}});
          more = true;
          break;
        }
    }
    return left;
  }

  size_t operand(int depth) {
    if (take("-")) {
      if (depth > kMostDepth) fail(fmt::format("it is nested more than {} levels deep", kMostDepth));
      return add({Kind::unary, 0, 0, {operand(depth + 1)}});
    }
    if (take("(")) {
      const size_t inner = operators(1, depth + 1);
      expect(")");
      return inner;
    }
    skip_blanks();
    const size_t from = at_;
    if (at_ < text_.size() && std::string_view(".0123456789").find(text_[at_]) != std::string_view::npos) {
      double value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc()) fail("this number is outside the range of a double");
      at_ = static_cast<size_t>(end - text_.data());
      return add({Kind::number, value});
    }
    const std::string_view word = name();
    if (word.empty())
      fail(at_ < text_.size() ? fmt::format("expected a value, found '{}'", text_[at_])
                              : "expected a value, found the end");
    if (take("[")) return element(word, from, depth);
    if (take("(")) return call(word, from, depth);
    for (size_t k = names_.size(); k-- > 0;)
      if (names_[k] == word) return add({Kind::variable, 0, k});
    at_ = from;
    fail(fmt::format("'{}' is not a number here; the numbers are {}", word, fmt::join(names_, ", ")));
  }

  size_t element(std::string_view word, size_t from, int depth) {
    Formula::Node node{Kind::element};
    std::string known;
    for (node.place = 0; node.place < f_.buffers_.size(); ++node.place) {
      if (f_.buffers_[node.place].name == word) break;
      known += (known.empty() ? "" : ", ") + f_.buffers_[node.place].name;
    }
    if (node.place == f_.buffers_.size()) {
      at_ = from;
      fail(fmt::format("there is no buffer '{}'; the buffers are {}", word, known.empty() ? "none" : known));
    }
    do node.operands.push_back(operators(1, depth + 1));
    while (take(","));
    expect("]");
    const size_t rank = f_.buffers_[node.place].shape.size(), given = node.operands.size();
    if (given != 1 && given != rank) fail(fmt::format("'{}' takes 1 index or {}, not {}", word, rank, given));
    return add(std::move(node));
  }

  size_t call(std::string_view word, size_t from, int depth) {
    if (word == "sum") {
      const std::string variable(name());
      if (variable.empty()) fail("expected the name of the sum's variable");
      expect(",");
      const size_t count = operators(1, depth + 1);
      expect(",");
      const size_t place = names_.size();
      names_.push_back(variable);
      f_.variables_ = std::max(f_.variables_, names_.size());
      const size_t body = operators(1, depth + 1);
      names_.pop_back();
      expect(")");
      return add({Kind::sum, 0, place, {count, body}});
    }
    Formula::Node node{Kind::select};
    size_t wanted = word == "select" ? 3 : 0;
    for (size_t k = 0; k < std::size(unaries); ++k)
      if (unaries[k].name == word) node.kind = Kind::unary, node.place = k, wanted = 1;
    for (size_t k = 0; k < std::size(binaries); ++k)
      if (binaries[k].name == word) node.kind = Kind::binary, node.place = k, wanted = 2;
    if (wanted == 0) {
      at_ = from;
      std::string known = "sum, select";
      for (const Unary& u : unaries)
        if (u.name != "-") known += fmt::format(", {}", u.name);
      for (const Binary& b : binaries)
        if (b.level == 0) known += fmt::format(", {}", b.name);
      fail(fmt::format("there is no function '{}'; the functions are {}", word, known));
    }
    do node.operands.push_back(operators(1, depth + 1));
    while (take(","));
    if (node.operands.size() != wanted)
      fail(fmt::format("'{}' takes {} values, not {}", word, wanted, node.operands.size()));
    expect(")");
    return add(std::move(node));
  }

  Formula& f_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> names_;  // the variables that are in scope
};

Formula::Formula(std::string_view text, std::span<const FormulaBuffer> buffers, size_t rank)
    : text_(text), buffers_(buffers.begin(), buffers.end()) {
  if (text.size() > kMostCharacters)
    throw Error(
        fmt::format("a formula has {} characters, but may have at most {}", text.size(), kMostCharacters));
  FormulaParser(*this, text_, rank).parse();
}

struct Formula::Run {
  const Formula& f;
  const std::function<double(size_t, uint64_t)>& element;
  std::vector<double> variables;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("'{}' at element {:g}: {}", f.text_, variables[0], what));
  }

  double value(size_t place) {
    const Node& n = f.nodes_[place];
    switch (n.kind) {
      case Kind::number:
        return n.number;
      case Kind::variable:
        return variables[n.place];
      case Kind::unary:
        return unaries[n.place].value(value(n.operands[0]));
      case Kind::binary: {
        const double left = value(n.operands[0]);
        return binaries[n.place].value(left, value(n.operands[1]));
      }
      case Kind::select:
        return value(n.operands[value(n.operands[0]) != 0 ? 1 : 2]);
      case Kind::sum: {
        const double count = value(n.operands[0]);
        if (!(count <= kMostTerms))
          fail(fmt::format("a sum has {:g} terms, but may have at most {:g}", count, kMostTerms));
        double all = 0;
        for (variables[n.place] = 0; variables[n.place] < count; ++variables[n.place])
          all += value(n.operands[1]);
        return all;
      }
      case Kind::element:
        return element(n.place, index(n));
    }
    return 0;
  }

  uint64_t index(const Node& n) {
    const FormulaBuffer& b = f.buffers_[n.place];
    uint64_t count = 1, at = 0;
    for (uint64_t extent : b.shape) count *= extent;
    const bool flat = n.operands.size() == 1;
    uint64_t stride = 1;
    for (size_t d = 0; d < n.operands.size(); ++d) {
      const double i = value(n.operands[d]);
      const uint64_t extent = flat ? count : b.shape[d];
      if (!(i >= 0 && i < static_cast<double>(extent)) || i != std::trunc(i))
        fail(fmt::format("{:g} is not an index {}of {}, whose extent is {}", i,
                         flat ? "" : fmt::format("{} ", d), b.name, extent));
      at += static_cast<uint64_t>(i) * stride;
      stride *= extent;
    }
    return at;
  }
};

std::vector<double> Formula::values(std::span<const uint64_t> shape,
                                    const std::function<double(size_t, uint64_t)>& element) const {
  uint64_t count = 1;
  for (uint64_t extent : shape) count *= extent;
  Run run{*this, element, std::vector<double>(variables_)};
  std::vector<double> all(count);
  for (uint64_t i = 0; i < count; ++i) {
    run.variables[0] = static_cast<double>(i);
    uint64_t rest = i;
    for (size_t d = 0; d < shape.size(); ++d) {
      run.variables[d + 1] = static_cast<double>(rest % shape[d]);
      rest /= shape[d];
    }
    all[i] = run.value(nodes_.size() - 1);
  }
  return all;
}

}  // namespace ptxbuilder::command
