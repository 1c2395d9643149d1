// C++ names in texts that people read.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns the text with each mangled C++ name, `_Z...`, as its author wrote it; a long name is shortened in
// the middle. The rest of the text does not change.
std::string demangled(std::string_view text);

}  // namespace ptxbuilder
