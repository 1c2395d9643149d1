// Reads a test file's own options from the command line, in addition to doctest's, and reports skipped parts.
#pragma once

#include <charconv>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ptxbuilder::test {

// Registers an option. `take` is called with the VALUE of --NAME=VALUE, or with "" for --NAME alone, and
// returns whether it is legal.
void add_option(const char* name, std::function<bool(std::string_view)> take);

// At namespace scope, `const int& repeat = option("repeat", 1);` reads --repeat=N; for a bool, --NAME alone
// sets it. Test files of one executable may share an option.
template <class T>
const T& option(const char* name, T initial) {
  static std::deque<T> values;
  T& value = values.emplace_back(std::move(initial));
  add_option(name, [&value](std::string_view word) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
      return word.empty();
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = word;
      return !word.empty();
    } else {
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      return error == std::errc() && end == word.data() + word.size();
    }
  });
  return value;
}

// --device=emulator|cuda|auto, for runtime::open_device.
inline const std::string& device_name = option<std::string>("device", "emulator");

// Reports that something is skipped, and why. If nothing fails, the whole run then counts as skipped.
void skip(const std::string& reason);

}  // namespace ptxbuilder::test
