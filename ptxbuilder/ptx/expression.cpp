// Computes the values of constant expressions, and splits mnemonics into their parts.
#include <algorithm>
#include <charconv>

#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::ptx_text {
namespace {

std::optional<int64_t> number_value(std::string_view text) {
  if (!text.empty() && text.back() == 'U') text.remove_suffix(1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) base = 2;
  if (base != 10) text.remove_prefix(2);
  if (base == 10 && text.size() > 1 && text[0] == '0') base = 8;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> binary_value(const std::string& op, int64_t a, int64_t b) {
  auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  auto s = [](uint64_t x) { return static_cast<int64_t>(x); };
  if (op == "+") return s(u(a) + u(b));
  if (op == "-") return s(u(a) - u(b));
  if (op == "*") return s(u(a) * u(b));
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if ((op == "/" || op == "%") && b != 0 && !(b == -1)) return op == "/" ? a / b : a % b;
  if ((op == "<<" || op == ">>") && b >= 0 && b < 64) return op == "<<" ? s(u(a) << b) : a >> b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "&&") return a && b;
  if (op == "||") return a || b;
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> integer_value(const Operand& o) {
  switch (o.kind) {
    case Operand::Kind::number:
      return number_value(o.text);
    case Operand::Kind::list:
      return o.parts.size() == 1 ? integer_value(o.parts[0]) : std::nullopt;
    case Operand::Kind::unary: {
      auto a = integer_value(o.parts[0]);
      if (!a) return std::nullopt;
      if (o.text == "-") return static_cast<int64_t>(0 - static_cast<uint64_t>(*a));
      if (o.text == "~") return ~*a;
      if (o.text == "!") return !*a;
      if (o.text == "+" || o.text == "(.s64)" || o.text == "(.u64)") return a;
      return std::nullopt;
    }
    case Operand::Kind::binary: {
      auto a = integer_value(o.parts[0]), b = integer_value(o.parts[1]);
      if (!a || !b) return std::nullopt;
      if (o.text == "?") return *a ? b : integer_value(o.parts[2]);
      return binary_value(o.text, *a, *b);
    }
    default:
      return std::nullopt;
  }
}

std::vector<std::string_view> split_opcode(std::string_view opcode) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= opcode.size();) {
    size_t dot = std::min(opcode.find('.', start), opcode.size());
    parts.push_back(opcode.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

}  // namespace ptxbuilder::ptx_text
