// Runs a table of misuses. Each throws an Error that names the rule, the values and the line, and has a twin
// that is accepted.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <vector>

#include "library_kit.h"

namespace ptxbuilder::test {

inline Where marked;                  // the line that the message must name
#define HERE marked = Where::here();  // precedes the wrong call, on the same line
#define ON(target_name) \
  { .target = target_name }  // BuilderOptions

struct Case {
  const char* name;
  std::vector<const char*> phrases;    // the message must contain each of them
  std::function<void(bool bad)> body;  // builds a complete kernel, which is wrong if `bad` is set
};

inline void done(Kernel& k) {
  std::string text = ptx_of(k);  // outside of CHECK, which would catch errors
  CHECK(contains(text, ".visible .entry"));
}

// If `with_line` is set, the message must end with the marked line. Otherwise, the misuse has no line of C++.
inline void check_cases(const std::vector<Case>& cases, bool with_line = true) {
  for (const Case& c : cases) {
    std::string name = c.name;
    CAPTURE(name);
    marked = {};
    std::string text = error_of([&] { c.body(true); });
    CAPTURE(text);
    CHECK_FALSE(text.empty());
    for (std::string phrase : c.phrases) CHECK_MESSAGE(contains(text, phrase), phrase);
    REQUIRE(bool(marked) == with_line);
    std::string line = "(";
    line.append(to_string(marked)).append(")");
    if (with_line) CHECK_MESSAGE(text.ends_with(line), line);
    text = error_of([&] { c.body(false); });
    CHECK_MESSAGE(text.empty(), "the twin is refused: " << text);
    CHECK_THROWS_AS(Builder::current(), Error);  // no kernel remains
  }
}

}  // namespace ptxbuilder::test
