// Provides indefinite articles for the nouns of messages.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns the noun after "a" or "an", as it is pronounced: "an f16 64x64 tile", "an 8 B vector", "a bf16
// tile".
inline std::string with_article(std::string_view noun) {
  const char first = noun.empty() ? ' ' : noun[0], second = noun.size() < 2 ? ' ' : noun[1];
  const bool spelled = second >= '0' && second <= '9';  // f16 and s8 begin with the names of letters
  const bool vowel = std::string_view("aeio8").find(first) != std::string_view::npos;
  return (vowel || (spelled && (first == 'f' || first == 's')) ? "an " : "a ") + std::string(noun);
}

}  // namespace ptxbuilder
