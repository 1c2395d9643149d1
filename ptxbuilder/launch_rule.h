// Rules by which the numbers of a launch follow from a kernel's arguments, as text: "ceil_div(count, 128)".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/error.h"  // which reports that C++20 is needed
#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A name in a rule refers to one of these.
struct RuleName {
  // A rule names a scalar parameter, an extent of a tensor, or the number of multiprocessors.
  enum class Kind : uint8_t { parameter, extent, multiprocessors };

  std::string text;  // as in the rule: "count", "extent(A, 1)"
  Kind kind = Kind::parameter;
  size_t parameter = 0;      // its place among the kernel's
  size_t dimension = 0;      // of an extent; 0 is the innermost
  DType dtype = DType::u32;  // of a parameter
};

// The values of the names in one launch.
class RuleValues {
 public:
  virtual ~RuleValues() = default;
  virtual uint64_t bits(size_t parameter) const = 0;                      // of an integer, in the low bytes
  virtual uint64_t extent(size_t parameter, size_t dimension) const = 0;  // elements
  virtual int64_t multiprocessors() const = 0;
};

// A rule has C's operators + - * / % < <= > >= == != with C's precedence, parentheses, ceil_div(a, b), min(a,
// b), max(a, b), integers, the kernel's integer parameters by name, extent(TENSOR, DIMENSION) of its tensor
// maps, innermost dimension first, and `multiprocessors`, those of the GPU. Its numbers have 64 bits and a
// sign; a comparison is 1 or 0.
class LaunchRule {
 public:
  // Errors refer to the rule as `what`, such as "grid.x". Throws Error that names the rule and the column
  // and, for an unknown name, lists the known names.
  LaunchRule(std::string what, std::string text, std::span<const Parameter> parameters);

  const std::string& text() const { return text_; }
  const std::vector<RuleName>& names() const { return names_; }  // that the rule uses, without duplicates

  // Throws Error that names the rule, what went wrong and the values: a division by 0, an overflow, ceil_div
  // of a negative number.
  int64_t value(const RuleValues& values) const;
  // Returns the text of an error: "grid.x = 'ceil_div(count, 0)': a division by 0, with count = 7".
  std::string with_values(const std::string& problem, const RuleValues& values) const;

  // Returns the rule as a C expression of type int64_t over the functions of c_functions(). `value` names a
  // variable for each of names(); `wrong` is a variable of type const char*, NULL at first, that receives
  // what went wrong.
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
    int64_t operand = 0;  // a number, or the place of a name
  };
  struct Operation;
  static const Operation operations[];
  static const Operation& operation(Step step);

  std::string what_, text_;
  std::vector<RuleName> names_;
  std::vector<Instruction> code_;  // of a stack machine
};

// The three rules of Signature::grid.
class GridRule {
 public:
  // The signature must have a grid. Throws Error like LaunchRule.
  explicit GridRule(const Signature& signature);

  const std::array<LaunchRule, 3>& rules() const { return rules_; }

  // Returns the CTAs along x, y and z. Throws Error like LaunchRule, and if there would be less than 1, or
  // 2^32 or more.
  std::array<uint32_t, 3> value(const RuleValues& values) const;

 private:
  std::array<LaunchRule, 3> rules_;
};

}  // namespace ptxbuilder
