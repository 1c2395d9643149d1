#include "ptxbuilder/launch_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr size_t kLongestRule = 4096, kDeepestRule = 32;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_integer(const Parameter& p) { return p.kind == Parameter::Kind::scalar && !is_float(p.dtype); }

// Defines the arithmetic of rules, both as code that is compiled here and as text that C exports contain.
// `wrong` receives the first error.
#define CODE_AND_TEXT(text, ...) \
  __VA_ARGS__                    \
  constexpr const char* text = #__VA_ARGS__;

// clang-format off
CODE_AND_TEXT(kFunctions,
static inline int64_t rule_failed(const char** wrong, const char* why) {
  if (!*wrong) *wrong = why;
  return 0;
}
static inline int64_t rule_overflow(const char** wrong) {
  return rule_failed(wrong, "its numbers do not fit 64 bits");
}
static inline int64_t rule_unsigned(const char** wrong, uint64_t a) {
  return a >> 63 ? rule_overflow(wrong) : (int64_t)a;
}
static inline int64_t rule_add(const char** wrong, int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? rule_overflow(wrong) : result;
}
static inline int64_t rule_subtract(const char** wrong, int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? rule_overflow(wrong) : result;
}
static inline int64_t rule_multiply(const char** wrong, int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? rule_overflow(wrong) : result;
}
static inline int64_t rule_divide(const char** wrong, int64_t a, int64_t b) {
  if (b == 0) return rule_failed(wrong, "a division by 0");
  return b == -1 ? rule_subtract(wrong, 0, a) : a / b;
}
static inline int64_t rule_remainder(const char** wrong, int64_t a, int64_t b) {
  if (b == 0) return rule_failed(wrong, "a division by 0");
  return b == -1 ? 0 : a % b;
}
static inline int64_t rule_ceil_div(const char** wrong, int64_t a, int64_t b) {
  if (b == 0) return rule_failed(wrong, "a division by 0");
  if (a < 0 || b < 0) return rule_failed(wrong, "ceil_div of a negative number");
  return a / b + (a % b != 0);
}
static inline int64_t rule_min(const char** wrong, int64_t a, int64_t b) { (void)wrong; return a < b ? a : b; }
static inline int64_t rule_max(const char** wrong, int64_t a, int64_t b) { (void)wrong; return a > b ? a : b; }
static inline int64_t rule_less(const char** wrong, int64_t a, int64_t b) { (void)wrong; return a < b; }
static inline int64_t rule_less_equal(const char** wrong, int64_t a, int64_t b) { (void)wrong; return a <= b; }
static inline int64_t rule_equal(const char** wrong, int64_t a, int64_t b) { (void)wrong; return a == b; }
)
// clang-format on
#undef CODE_AND_TEXT

// Returns the number that an argument's bits represent. If a u64 is out of range, `wrong` receives an error.
int64_t number_of(DType type, uint64_t bits, const char** wrong) {
  const int unused = 64 - 8 * size_of(type);
  const bool is_signed = type == DType::s8 || type == DType::s16 || type == DType::s32 || type == DType::s64;
  const auto shifted = bits << unused;
  if (is_signed) return static_cast<int64_t>(shifted) >> unused;
  return rule_unsigned(wrong, shifted >> unused);
}

std::string legal_names(std::span<const Parameter> parameters) {
  std::string names;
  for (const Parameter& p : parameters) {
    if (is_integer(p)) names += p.name + ", ";
    if (p.kind == Parameter::Kind::tensor_map)
      names += fmt::format("extent({}, 0 to {}), ", p.name, p.tensor_map.rank() - 1);
  }
  return names + "multiprocessors";
}

}  // namespace

// An operation on two numbers: its spelling, its precedence (0 for a function), the function that computes
// it, and the name of this function.
struct LaunchRule::Operation {
  Step step;
  std::string_view symbol;
  int binds;
  int64_t (*compute)(const char**, int64_t, int64_t);
  const char* name;
  bool swapped = false;  // the result is compute(b, a)
  bool negated = false;  // the result is 1 if `compute` returns 0, and 0 otherwise
};

#define BY(function) rule_##function, "rule_" #function
const LaunchRule::Operation LaunchRule::operations[] = {
    // Longer symbols must precede their prefixes.
    {Step::less_equal, "<=", 2, BY(less_equal)},
    {Step::greater_equal, ">=", 2, BY(less_equal), true},
    {Step::equal, "==", 1, BY(equal)},
    {Step::not_equal, "!=", 1, BY(equal), false, true},
    {Step::less, "<", 2, BY(less)},
    {Step::greater, ">", 2, BY(less), true},
    {Step::add, "+", 3, BY(add)},
    {Step::subtract, "-", 3, BY(subtract)},
    {Step::multiply, "*", 4, BY(multiply)},
    {Step::divide, "/", 4, BY(divide)},
    {Step::remainder, "%", 4, BY(remainder)},
    {Step::ceil_div, "ceil_div", 0, BY(ceil_div)},
    {Step::min, "min", 0, BY(min)},
    {Step::max, "max", 0, BY(max)},
};
#undef BY

const LaunchRule::Operation& LaunchRule::operation(Step step) {
  return *std::find_if(std::begin(operations), std::end(operations),
                       [step](const Operation& o) { return o.step == step; });
}

std::string LaunchRule::c_functions() {
  std::string text = kFunctions;  // the text is a single line
  const std::string_view between = "} static";
  for (size_t at = 0; (at = text.find(between, at)) != std::string::npos;) text[at + 1] = '\n';
  return text + "\n";
}

class RuleParser {
 public:
  RuleParser(LaunchRule& rule, std::span<const Parameter> parameters)
      : rule_(rule), text_(rule.text_), parameters_(parameters) {}

  void parse() {
    if (text_.size() > kLongestRule) fail(0, fmt::format("it is longer than {} characters", kLongestRule));
    expression(1);
    if (peek()) expected("an operator or the end");
  }

 private:
  using Step = LaunchRule::Step;
  using Operation = LaunchRule::Operation;

  [[noreturn]] void fail(size_t at, std::string_view message) const {
    throw Error(fmt::format("{} = '{}', column {}: {}", rule_.what_, text_, at + 1, message));
  }
  [[noreturn]] void expected(std::string_view what) {
    const char c = peek();
    fail(at_, fmt::format("expected {}, found {}", what, c ? fmt::format("'{}'", c) : "the end"));
  }

  // Returns the next character that is not a space, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void require(char c) {
    if (peek() != c) expected(fmt::format("'{}'", c));
    ++at_;
  }

  const Operation* operation() {
    peek();
    for (const Operation& o : LaunchRule::operations)
      if (o.binds && text_.substr(at_).starts_with(o.symbol)) return &o;
    return nullptr;
  }

  // Parses an expression whose operators have a precedence of at least `least`.
  void expression(int least) {
    if (++depth_ > kDeepestRule) fail(at_, fmt::format("nested more than {} levels deep", kDeepestRule));
    operand();
    for (const Operation* o; (o = operation()) && o->binds >= least;) {
      at_ += o->symbol.size();
      expression(o->binds + 1);
      emit(o->step);
    }
    --depth_;
  }

  void operand() {
    const char c = peek();
    if (c == '-') {
      ++at_;
      if (++depth_ > kDeepestRule) fail(at_, fmt::format("nested more than {} levels deep", kDeepestRule));
      operand();
      --depth_;
      emit(Step::negate);
    } else if (c == '(') {
      ++at_;
      expression(1);
      require(')');
    } else if (is_digit(c)) {
      emit(Step::number, integer());
    } else if (is_letter(c)) {
      word();
    } else {
      expected("a number, a name or '('");
    }
  }

  int64_t integer() {
    if (!is_digit(peek())) expected("an integer");
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(at_, "the integer does not fit in 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string_view identifier() {
    peek();
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void word() {
    const size_t begin = at_;
    const std::string_view name = identifier();
    if (peek() != '(') return named(begin, name);
    if (name == "extent") return extent(begin);
    for (const Operation& o : LaunchRule::operations)
      if (!o.binds && o.symbol == name) {
        require('(');
        expression(1);
        require(',');
        expression(1);
        require(')');
        return emit(o.step);
      }
    fail(begin,
         fmt::format("there is no function '{}'; the functions are ceil_div, min, max and extent", name));
  }

  void named(size_t begin, std::string_view name) {
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].name == name && is_integer(parameters_[i]))
        return use({.text = std::string(name), .parameter = i, .dtype = parameters_[i].dtype});
    if (name == "multiprocessors")
      return use({.text = std::string(name), .kind = RuleName::Kind::multiprocessors});
    unknown(begin, name);
  }

  void extent(size_t begin) {
    require('(');
    const std::string_view name = identifier();
    require(',');
    const int64_t dimension = integer();
    require(')');
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].name == name && parameters_[i].kind == Parameter::Kind::tensor_map &&
          dimension < parameters_[i].tensor_map.rank())
        return use({.text = fmt::format("extent({}, {})", name, dimension),
                    .kind = RuleName::Kind::extent,
                    .parameter = i,
                    .dimension = static_cast<size_t>(dimension)});
    unknown(begin, fmt::format("extent({}, {})", name, dimension));
  }

  [[noreturn]] void unknown(size_t begin, std::string_view name) const {
    fail(begin, fmt::format("there is no '{}'; the names are {}", name, legal_names(parameters_)));
  }

  void use(RuleName name) {
    auto& names = rule_.names_;
    auto known =
        std::find_if(names.begin(), names.end(), [&](const RuleName& n) { return n.text == name.text; });
    if (known == names.end()) known = names.insert(names.end(), std::move(name));
    emit(Step::name, known - names.begin());
  }

  void emit(Step step, int64_t operand = 0) { rule_.code_.push_back({step, operand}); }

  LaunchRule& rule_;
  std::string_view text_;
  std::span<const Parameter> parameters_;
  size_t at_ = 0, depth_ = 0;
};

LaunchRule::LaunchRule(std::string what, std::string text, std::span<const Parameter> parameters)
    : what_(std::move(what)), text_(std::move(text)) {
  RuleParser(*this, parameters).parse();
}

namespace {

int64_t value_of(const RuleName& name, const RuleValues& values, const char** wrong) {
  switch (name.kind) {
    case RuleName::Kind::parameter:
      return number_of(name.dtype, values.bits(name.parameter), wrong);
    case RuleName::Kind::extent:
      return number_of(DType::u64, values.extent(name.parameter, name.dimension), wrong);
    case RuleName::Kind::multiprocessors:
      break;
  }
  return values.multiprocessors();
}

}  // namespace

int64_t LaunchRule::value(const RuleValues& values) const {
  // The stack holds at most two operands per nesting level: a left operand, and the first argument of a
  // function.
  std::array<int64_t, 2 * kDeepestRule + 1> stack;
  size_t top = 0;
  const char* wrong = nullptr;
  for (const auto& [step, operand] : code_) {
    if (step == Step::number) {
      stack[top++] = operand;
    } else if (step == Step::name) {
      stack[top++] = value_of(names_[static_cast<size_t>(operand)], values, &wrong);
    } else if (step == Step::negate) {
      stack[top - 1] = rule_subtract(&wrong, 0, stack[top - 1]);
    } else {
      const Operation& o = operation(step);
      const int64_t b = stack[--top], a = stack[top - 1];
      const int64_t result = o.swapped ? o.compute(&wrong, b, a) : o.compute(&wrong, a, b);
      stack[top - 1] = o.negated ? !result : result;
    }
  }
  if (wrong) throw Error(with_values(wrong, values));
  return stack[0];
}

std::string LaunchRule::with_values(const std::string& problem, const RuleValues& values) const {
  std::string all;
  for (const RuleName& name : names_) {
    const char* wrong = nullptr;
    const int64_t value = value_of(name, values, &wrong);
    all += fmt::format("{} {} = {}", all.empty() ? ", with" : ",", name.text,
                       wrong ? "more than 2^63 - 1" : std::to_string(value));
  }
  return fmt::format("{} = '{}': {}{}", what_, text_, problem, all);
}

std::string LaunchRule::as_c(const std::function<std::string(size_t name)>& value,
                             const std::string& wrong) const {
  std::vector<std::string> stack;
  for (const auto& [step, operand] : code_) {
    if (step == Step::number) {
      stack.push_back(fmt::format("INT64_C({})", operand));
    } else if (step == Step::name) {
      stack.push_back(value(static_cast<size_t>(operand)));
    } else if (step == Step::negate) {
      stack.back() = fmt::format("rule_subtract(&{}, 0, {})", wrong, stack.back());
    } else {
      const Operation& o = operation(step);
      const std::string b = std::move(stack.back());
      stack.pop_back();
      std::string& a = stack.back();
      a = fmt::format("{}{}(&{}, {}, {})", o.negated ? "!" : "", o.name, wrong, o.swapped ? b : a,
                      o.swapped ? a : b);
    }
  }
  return stack[0];
}

GridRule::GridRule(const Signature& s)
    : rules_{LaunchRule("grid.x", s.grid->at(0), s.parameters),
             LaunchRule("grid.y", s.grid->at(1), s.parameters),
             LaunchRule("grid.z", s.grid->at(2), s.parameters)} {}

std::array<uint32_t, 3> GridRule::value(const RuleValues& values) const {
  std::array<uint32_t, 3> grid = {};
  for (size_t i = 0; i < grid.size(); ++i) {
    const int64_t ctas = rules_[i].value(values);
    if (ctas < 1 || ctas > UINT32_MAX)
      throw Error(
          rules_[i].with_values(fmt::format("it is {}, but a launch has {} along each dimension", ctas,
                                            ctas < 1 ? "at least 1 CTA" : "less than 2^32 CTAs"),
                                values));
    grid[i] = static_cast<uint32_t>(ctas);
  }
  return grid;
}

}  // namespace ptxbuilder
