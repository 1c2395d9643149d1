// Helpers that tests of the library share. They search in text, and return the PTX of a kernel.
#pragma once

#include <string>
#include <string_view>

#include "error_kit.h"
#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Merges runs of blanks, so that expected snippets do not depend on the indentation of PTX.
inline std::string squeezed(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\t' || c == '\n') c = ' ';
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out;
}

inline std::string ptx_of(Kernel& k) { return generate_ptx(k.builder()); }

}  // namespace ptxbuilder::test
