#include "ptxbuilder/json_nesting.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr int kDeepestJson = 64;

// The offset behind what begins at `at` and ends with `end`.
size_t behind(std::string_view text, size_t at, std::string_view end) {
  const size_t found = text.find(end, at);
  return found == std::string_view::npos ? text.size() : found + end.size();
}

}  // namespace

void check_json_nesting(std::string_view text, const std::string& name) {
  int depth = 0;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i = behind(text, i, "\n");
    } else if (rest.starts_with("/*")) {
      i = behind(text, i + 2, "*/");
    } else if (rest[0] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
      ++i;
    } else {
      if (rest[0] == '[' || rest[0] == '{') ++depth;
      if (rest[0] == ']' || rest[0] == '}') --depth;
      if (depth > kDeepestJson)
        throw Error(
            fmt::format("{}: {}: JSON nested deeper than {}", name, line_and_column(text, i), kDeepestJson));
      ++i;
    }
  }
}

std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t column = before.size() - (before.find_last_of('\n') + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace ptxbuilder
