// Elements as a formula of other elements, such as "sum(k, 64, a[k, i1] * b[i0, k])".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::command {

// The buffers that a formula may name, in the order of their numbers.
struct FormulaBuffer {
  std::string name;
  std::vector<uint64_t> shape;  // innermost first
};

// A formula has C's operators + - * / % < <= > >= == != with C's precedence, parentheses, numbers, and
//   i, i0, i1, ...       the element's number, and its coordinates, innermost first
//   a[e], a[e0, e1]      an element of the buffer `a`, by its number or by its coordinates
//   sum(k, n, e) the sum of e for k = 0 to n - 1 select(c, e, f) e if c is not 0, else f; the other is not
//   evaluated min max pow of two, abs exp log sqrt rsqrt sin cos tanh erf floor ceil round trunc of one
// Its numbers are doubles; % has the sign of its left side, a comparison is 1 or 0.
class Formula {
 public:
  // Throws Error "column 7: ..." that says what was expected, or lists the valid names for an unknown one.
  Formula(std::string_view text, std::span<const FormulaBuffer> buffers, size_t rank);

  // Computes each element of a shape. `element` returns an element of a buffer by its number. Throws Error
  // that names the formula and the element for an index outside a buffer, and for a sum of more than 2^32
  // terms.
  std::vector<double> values(std::span<const uint64_t> shape,
                             const std::function<double(size_t buffer, uint64_t i)>& element) const;

 private:
  friend class FormulaParser;
  struct Run;
  enum class Kind : uint8_t { number, variable, element, sum, select, unary, binary };
  struct Node {
    Kind kind;
    double number = 0;
    size_t place = 0;  // of a variable, a buffer, or a function
    std::vector<size_t> operands = {};
  };

  std::string text_;
  std::vector<FormulaBuffer> buffers_;
  std::vector<Node> nodes_;  // operands precede their operators; the last node is the formula
  size_t variables_ = 0;     // the number of the element, its coordinates, those of sums
};

}  // namespace ptxbuilder::command
