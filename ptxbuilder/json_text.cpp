#include "ptxbuilder/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr int kDeepestJson = 64;

// Returns the offset after the next occurrence of `end` at or after `at`.
size_t behind(std::string_view text, size_t at, std::string_view end) {
  const size_t found = text.find(end, at);
  return found == std::string_view::npos ? text.size() : found + end.size();
}

void check_nesting(std::string_view text, const std::string& name) {
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
        throw Error(fmt::format("{}: {}: JSON is nested more than {} levels deep", name,
                                line_and_column(text, i), kDeepestJson));
      ++i;
    }
  }
}

// Records the members of all open objects, and the first member that is repeated.
class Twice {
 public:
  void operator()(nlohmann::ordered_json::parse_event_t event, const nlohmann::ordered_json& parsed) {
    using Event = nlohmann::ordered_json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(parsed.get<std::string>()).second && first_.empty())
      first_ = parsed.get<std::string>();
  }
  const std::string& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string first_;
};

// Returns the part of the JSON library's message after a prefix such as "[json.exception.parse_error.101]
// parse error at line 3, column 5: ".
std::string words_of(const std::exception& e, std::string_view behind) {
  const std::string what = e.what();
  const size_t at = what.find(behind);
  return at == std::string::npos ? what : what.substr(at + behind.size());
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text, const std::string& name, bool has_comments) {
  using Json = nlohmann::ordered_json;
  check_nesting(text, name);
  const auto fail = [&](size_t at, const std::string& why) {
    throw Error(fmt::format("{}: {}: {}", name, line_and_column(text, std::min(at, text.size())), why));
  };
  Twice twice;
  Json json;
  try {
    json = Json::parse(
        text,
        [&](int, Json::parse_event_t event, Json& parsed) {
          twice(event, parsed);
          return true;
        },
        true, has_comments);
  } catch (const Json::parse_error& e) {
    fail(std::max<size_t>(e.byte, 1) - 1, "no JSON: " + words_of(e, ": "));
  } catch (const Json::out_of_range& e) {  // such as "number overflow parsing '1e999'"
    const std::string number = words_of(e, "parsing '");
    fail(text.find(number.substr(0, number.find('\''))),
         "a double cannot hold " + number.substr(0, number.find('\'')));
  }
  if (!twice.first().empty())
    throw Error(fmt::format("{}: the member \"{}\" appears twice in one object", name, twice.first()));
  return json;
}

std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t column = before.size() - (before.find_last_of('\n') + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace ptxbuilder
