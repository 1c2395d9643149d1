// Computes the elements of a buffer with a formula over the elements of other buffers, such as "sum(k, 64,
// a[k, i1] * b[i0, k])".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::command {

// A buffer that a formula may name. Its number is its index in the list of buffers.
struct FormulaBuffer {
  std::string name;
  std::vector<uint64_t> shape;  // innermost dimension first
};

// A formula consists of the operators + - * / % < <= > >= == != with their precedence in C, parentheses,
// numbers, and
//   i, i0, i1, ...       the element's index, and its coordinates, innermost first
//   a[e], a[e0, e1]      an element of the buffer `a`, by its index or by its coordinates
//   sum(k, n, e)         the sum of e for k = 0 to n - 1
//   select(c, e, f)      e if c is not 0, else f; the other one is not evaluated
//   min max pow          functions of two numbers
//   abs exp log sqrt rsqrt sin cos tanh erf floor ceil round trunc   functions of one number
// All numbers are doubles; % has the sign of its left operand, and a comparison is 1 or 0.
class Formula {
 public:
  // Parses a formula. If the text is not valid, throws an Error such as "column 7: ..." that states what was
  // expected, or lists the valid names.
  Formula(std::string_view text, std::span<const FormulaBuffer> buffers, size_t rank);

  // Computes all elements of a shape. `element` returns an element of a buffer, given the element's index. If
  // an index is outside a buffer or a sum has more than 2^32 terms, throws an Error that names the formula
  // and the element.
  std::vector<double> values(std::span<const uint64_t> shape,
                             const std::function<double(size_t buffer, uint64_t i)>& element) const;

 private:
  friend class FormulaParser;
  struct Run;
  enum class Kind : uint8_t { number, variable, element, sum, select, unary, binary };
  struct Node {
    Kind kind;
    double number = 0;
    size_t place = 0;  // index of the variable, the buffer or the function
    std::vector<size_t> operands = {};
  };

  std::string text_;
  std::vector<FormulaBuffer> buffers_;
  std::vector<Node> nodes_;  // operands precede their operators; the last node is the entire formula
  size_t variables_ = 0;     // the element's index, its coordinates, and the variables of sums
};

}  // namespace ptxbuilder::command
