// Names of C++ in texts for people.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// The text with each mangled name of C++ in it, `_Z...`, as its author wrote it; one that is long then is
// shortened in the middle. All else stays as it is.
std::string demangled(std::string_view text);

}  // namespace ptxbuilder
