// Divides text at separators.
#pragma once

#include <string_view>
#include <vector>

namespace ptxbuilder::kernels {

// Returns the parts of a text, one more than the text has separators; "" has one part, which is empty.
inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(at)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

}  // namespace ptxbuilder::kernels
