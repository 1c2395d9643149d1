// Divides text at separators.
#pragma once

#include <string_view>
#include <vector>

namespace ptxbuilder::kernels {

// Splits a string at every `at`. The result has one more part than the string has separators, so "" yields
// one empty part.
inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(at)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

}  // namespace ptxbuilder::kernels
