// Parses layout expressions, and evaluates them at the same time.
#include "ptxbuilder/layout/expression.h"

#include <fmt/format.h>

#include <charconv>

#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/functions.h"

namespace ptxbuilder {
namespace {

constexpr size_t kLongest = 16384, kDeepest = 64;
constexpr int64_t kLargestTable = int64_t{1} << 20;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the text that represents a character in messages.
std::string quoted(char c) {
  if (c >= ' ' && c <= '~') return fmt::format("'{}'", c);
  return fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(c));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  LayoutValue parse() {
    LayoutValue value = expression();
    if (peek()) expected("the end, ':', '(' or 'o'");
    return value;
  }

 private:
  [[noreturn]] void fail(size_t at, std::string_view message) const {
    throw Error(fmt::format("column {}: {}", at + 1, message));
  }
  [[noreturn]] void expected(std::string_view what) {
    char c = peek();
    fail(at_, fmt::format("expected {}, found {}", what, c ? quoted(c) : "the end"));
  }

  // Returns the next character that is not blank, or 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (c == '\0' || peek() != c) return false;
    ++at_;
    return true;
  }
  void require(char c, std::string_view what) {
    if (!accept(c)) expected(what);
  }
  std::string_view word() {
    peek();
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    return text_.substr(at_, end - at_);
  }

  // Calls `f`, and adds the column to the message of an Error that `f` throws.
  template <class F>
  auto at_column(size_t column, F f) const {
    try {
      return f();
    } catch (const Error& e) {
      fail(column, e.what());
    }
  }

  int64_t integer() {
    bool negative = accept('-');
    if (!is_digit(peek())) expected("an integer");
    size_t begin = at_;
    uint64_t magnitude = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), magnitude);
    at_ = static_cast<size_t>(end - text_.data());
    if (error != std::errc() || magnitude > INT64_MAX) fail(begin, "the integer does not fit in 64 bits");
    if (at_ < text_.size() && is_letter(text_[at_])) expected("an operator after the integer");
    return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  }

  // Parses an integer such as 3, -3, or 3@0@1. The innermost mode of a basis is first.
  LayoutValue scaled_integer() {
    int64_t value = integer();
    std::vector<int> basis;
    while (accept('@')) {
      size_t begin = at_;
      int64_t mode = integer();
      if (mode < 0 || mode >= static_cast<int64_t>(kDeepest) || basis.size() >= kDeepest)
        fail(begin, fmt::format("a basis has at most {} levels of as many modes", kDeepest));
      basis.insert(basis.begin(), static_cast<int>(mode));
    }
    return IntTuple(value).scaled_to(basis);
  }

  LayoutValue expression() {
    peek();
    size_t begin = at_;
    if (++depth_ > kDeepest) fail(at_, fmt::format("nested more than {} levels deep", kDeepest));
    std::vector<LayoutValue> chain;
    do {
      if (skip_base(chain)) continue;
      chain.push_back(term());
      if (std::holds_alternative<XorSwizzle>(chain.back()) &&
          peek() == '_') {  // as in Sw<3,4,3>_smem_ptr[16b](0x7f00)
        ++at_;
        if (!skip_base(chain)) expected("a pointer, such as smem_ptr[16b](unset)");
      }
    } while (accept_o());
    --depth_;
    // a o b o c means (a o b) o c, but Sw o offset o layout is a single value.
    return at_column(begin, [&] {
      LayoutValue result = chain[0];
      for (size_t i = 1; i < chain.size(); ++i) {
        const XorSwizzle* swizzle = std::get_if<XorSwizzle>(&result);
        const IntTuple* offset = std::get_if<IntTuple>(&chain[i]);
        if (swizzle && offset && !offset->is_tuple() && i + 1 < chain.size()) {
          result = ComposedLayout(*swizzle, offset->value(), detail::as_layout(chain[i + 1]));
          ++i;
        } else {
          result = detail::compose(result, chain[i]);
        }
      }
      return result;
    });
  }

  // Parses the base that CuTe prints before the layout of a tensor, and returns whether there is one. A base
  // is a pointer, such as smem_ptr[16b](unset) or gmem_ptr[32b](0x7f00), or a coordinate, such as
  // ArithTuple(_0,_0). A swizzle before a pointer acts on byte addresses; this function converts it to act on
  // elements with the pointer's number of bits.
  bool skip_base(std::vector<LayoutValue>& chain) {
    const std::string_view name = word();
    const size_t begin = at_, behind = begin + name.size();
    if (name == "ArithTuple") {
      at_ = behind;
      require('(', "'(' after ArithTuple");
      for (const LayoutValue& first : list(')')) {
        const IntTuple* i = std::get_if<IntTuple>(&first);
        if (!i || i->is_tuple() || i->value() != 0 || !i->basis().empty())
          fail(begin,
               "coordinates that do not begin at 0: remove the base, and add it to the result of the layout");
      }
      if (!chain.empty()) fail(begin, "an ArithTuple comes first");
      return skipped();
    }
    if (behind >= text_.size() || text_[behind] != '[' || !(name.ends_with("ptr") || name == "tmem_"))
      return false;
    at_ = behind + 1;
    const int64_t bits = integer_in_bits();
    require(']', "']' after the bits of an element");
    require('(', "'(' and an address, or unset");
    const size_t close = text_.find(')', at_);
    const std::string_view address = text_.substr(at_, close == std::string_view::npos ? close : close - at_);
    if (address != "unset" && !address.starts_with("0x")) expected("an address in 0x, or unset");
    at_ += address.size();
    require(')', "')' after the address");
    if (chain.empty()) return skipped();
    XorSwizzle* swizzle = chain.size() == 1 ? std::get_if<XorSwizzle>(&chain[0]) : nullptr;
    if (!swizzle) fail(begin, fmt::format("{} comes first, or after a swizzle", name));
    *swizzle = at_column(begin, [&] { return recast(*swizzle, 8, bits); });
    return skipped();
  }

  bool accept_o() {
    const bool is_o = word() == "o";
    if (is_o) ++at_;
    return is_o;
  }
  bool skipped() {
    if (word() != "o") expected("'o' and a layout");
    return true;
  }

  // Parses a number of bits, such as "16b".
  int64_t integer_in_bits() {
    if (!is_digit(peek())) expected("the bits of an element, such as 16b");
    const size_t begin = at_;
    int64_t bits = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits);
    at_ = static_cast<size_t>(end - text_.data());
    if (error != std::errc() || bits < 1 || bits > 128) fail(begin, "an element has 1 to 128 bits");
    require('b', "'b' after the bits of an element");
    return bits;
  }

  LayoutValue term() {
    peek();
    size_t begin = at_;
    LayoutValue value = primary();
    if (accept(':')) {
      LayoutValue stride = primary();
      value = at_column(
          begin, [&] { return LayoutValue(Layout(detail::as_tuple(value), detail::as_tuple(stride))); });
    }
    while (peek() == '(') {
      ++at_;
      std::vector<LayoutValue> coordinate = list(')');
      value = at_column(begin, [&] {
        return detail::apply_layout(value, coordinate.size() == 1 ? coordinate[0] : tuple(coordinate));
      });
    }
    return value;
  }

  LayoutValue primary() {
    char c = peek();
    size_t begin = at_;
    if (is_digit(c) || c == '-') return scaled_integer();
    if (c == '(' || c == '<') {
      ++at_;
      std::vector<LayoutValue> elements = list(c == '(' ? ')' : '>');
      // Parentheses around one layout, or around one value that a tuple cannot hold, only group.
      bool integers =
          std::holds_alternative<IntTuple>(elements[0]) || std::holds_alternative<Tiler>(elements[0]);
      if (c == '(' && elements.size() == 1 && !integers) return elements[0];
      return at_column(begin, [&] { return tuple(elements); });
    }
    std::string_view name = word();
    if (name == "_") {
      ++at_;
      return Tiler(_);
    }
    // CuTe prints static integers as _4.
    if (name.size() > 1 && name[0] == '_' && is_digit(name[1])) {
      ++at_;
      return scaled_integer();
    }
    if (name.empty()) expected("an integer, '_', '(', '<' or a name");
    at_ += name.size();
    if (name == "Sw" || name == "Swizzle") return swizzle(begin);
    require('(', fmt::format("'(' after {}", name));
    std::vector<LayoutValue> arguments = list(')');
    return at_column(begin, [&] { return detail::call_layout_function(name, arguments); });
  }

  // Parses B, M and optionally S, whose default is B.
  LayoutValue swizzle(size_t begin) {
    require('<', "'<' and the swizzle's B,M,S");
    std::vector<int> numbers;
    do {
      int64_t n = integer();
      if (n < -64 || n > 64) fail(begin, fmt::format("a swizzle's {} is out of range", n));
      numbers.push_back(static_cast<int>(n));
    } while (numbers.size() < 3 && accept(','));
    require('>', "'>'");
    if (numbers.size() < 2) fail(begin, "a swizzle has B, M and S: Sw<3,4,3>");
    return at_column(begin, [&] {
      return XorSwizzle(numbers[0], numbers[1], numbers.size() == 3 ? numbers[2] : numbers[0]);
    });
  }

  // Parses expressions up to `close`; one comma may follow the last expression.
  std::vector<LayoutValue> list(char close) {
    std::vector<LayoutValue> elements;
    do {
      if (!elements.empty() && peek() == close) break;
      elements.push_back(expression());
    } while (accept(','));
    require(close, close == ')' ? "',' or ')'" : "',' or '>'");
    return elements;
  }

  static LayoutValue tuple(const std::vector<LayoutValue>& elements) {
    bool integers = true;
    for (const LayoutValue& e : elements) integers &= std::holds_alternative<IntTuple>(e);
    if (integers) {
      std::vector<IntTuple> tuple;
      for (const LayoutValue& e : elements) tuple.push_back(std::get<IntTuple>(e));
      return IntTuple(std::move(tuple));
    }
    std::vector<Tiler> modes;
    for (const LayoutValue& e : elements) modes.push_back(detail::as_tiler(e));
    return Tiler(std::move(modes));
  }

  std::string_view text_;
  size_t at_ = 0, depth_ = 0;
};

template <class L>
std::vector<IntTuple> table_of(const L& layout, const IntTuple& shape) {
  int64_t count = size(shape);
  if (count > kLargestTable)
    throw Error(
        fmt::format("a table can have at most {} entries, but the layout has {}", kLargestTable, count));
  std::vector<IntTuple> table;
  table.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) table.push_back(layout(i));
  return table;
}

}  // namespace

LayoutValue evaluate_layout(std::string_view text) {
  if (text.size() > kLongest)
    throw Error(
        fmt::format("column {}: an expression can have at most {} characters", kLongest + 1, kLongest));
  return Parser(text).parse();
}

std::string to_string(const LayoutValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        if constexpr (std::is_same_v<decltype(v), const bool&>)
          return v ? "true" : "false";
        else
          return to_string(v);
      },
      value);
}

std::vector<IntTuple> index_table(const LayoutValue& value) {
  if (const Layout* layout = std::get_if<Layout>(&value))
    return table_of([&](int64_t i) { return image(IntTuple(i), *layout); }, layout->shape());
  if (const ComposedLayout* c = std::get_if<ComposedLayout>(&value))
    return table_of([&](int64_t i) { return IntTuple((*c)(i)); }, c->shape());
  throw Error(fmt::format("{} is not a layout, so it has no table", to_string(value)));
}

}  // namespace ptxbuilder
