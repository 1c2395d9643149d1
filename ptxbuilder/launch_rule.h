// Defines textual rules, such as "ceil_div(count, 128)", which compute the dimensions of a launch from a
// kernel's arguments.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/error.h"  // reports a missing -std=c++20
#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A name in a rule, and the value to which the name refers.
struct RuleName {
  // A name refers to a scalar parameter, an extent of a tensor, or the number of multiprocessors.
  enum class Kind : uint8_t { parameter, extent, multiprocessors };

  std::string text;  // as written in the rule, such as "count" or "extent(A, 1)"
  Kind kind = Kind::parameter;
  size_t parameter = 0;      // index among the kernel's parameters
  size_t dimension = 0;      // dimension of an extent; 0 is the innermost dimension
  DType dtype = DType::u32;  // type of a parameter
};

// An interface that returns the values of names for one launch.
class RuleValues {
 public:
  virtual ~RuleValues() = default;
  virtual uint64_t bits(size_t parameter) const = 0;                      // an integer, in the low bytes
  virtual uint64_t extent(size_t parameter, size_t dimension) const = 0;  // an extent in elements
  virtual int64_t multiprocessors() const = 0;
};

// A rule. A rule may contain integers, the names of the kernel's integer parameters, extent(TENSOR,
// DIMENSION) for tensor maps (dimension 0 is the innermost), and `multiprocessors`, the number of
// multiprocessors of the GPU. It may also contain parentheses, ceil_div(a, b), min(a, b), max(a, b), and the
// operators + - * / % < <= > >= == != with the meaning and precedence that they have in C. Numbers are signed
// 64-bit integers. A comparison yields 1 or 0.
class LaunchRule {
 public:
  // Parses a rule. Errors refer to the rule as `what`, such as "grid.x". If the text is not a valid rule,
  // throws an Error that names the rule and the column. For an unknown name, the Error lists the known names.
  LaunchRule(std::string what, std::string text, std::span<const Parameter> parameters);

  const std::string& text() const { return text_; }
  const std::vector<RuleName>& names() const { return names_; }  // names in the rule, without duplicates

  // Returns the rule's value. For a division by 0, an overflow, or a ceil_div of a negative number, throws an
  // Error that names the rule, the problem and the values.
  int64_t value(const RuleValues& values) const;
  // Returns an error message, such as "grid.x = 'ceil_div(count, 0)': a division by 0, with count = 7".
  std::string with_values(const std::string& problem, const RuleValues& values) const;

  // Returns the rule as a C expression of type int64_t. The expression calls functions that c_functions()
  // defines. `value` must return the C variable that holds names()[name]. `wrong` is a C variable of type
  // const char*, initially NULL, that receives the description of a problem.
  std::string as_c(const std::function<std::string(size_t name)>& value, const std::string& wrong) const;
  static std::string c_functions();

 private:
  friend class RuleParser;
  enum class Step : uint8_t {
    number,
    name,
    negate,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    not_equal,
    ceil_div,
    min,
    max
  };
  struct Instruction {
    Step step;
    int64_t operand = 0;  // the number, or the index of the name in names_
  };
  struct Operation;
  static const Operation operations[];
  static const Operation& operation(Step step);

  std::string what_, text_;
  std::vector<RuleName> names_;
  std::vector<Instruction> code_;  // the rule as code for a stack machine
};

// The three rules of Signature::grid.
class GridRule {
 public:
  // Parses the rules. The signature must have a grid. Throws Error under the same conditions as LaunchRule.
  explicit GridRule(const Signature& signature);

  const std::array<LaunchRule, 3>& rules() const { return rules_; }

  // Returns the number of CTAs along x, y and z. Throws Error under the same conditions as
  // LaunchRule::value(), and if a number is less than 1 or at least 2^32.
  std::array<uint32_t, 3> value(const RuleValues& values) const;

 private:
  std::array<LaunchRule, 3> rules_;
};

}  // namespace ptxbuilder
