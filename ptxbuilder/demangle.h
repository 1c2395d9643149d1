// Makes C++ names readable in text for people.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns the text with each mangled C++ name (`_Z...`) replaced by the name in the source; long names are
// shortened in the middle. The remaining text does not change.
std::string demangled(std::string_view text);

}  // namespace ptxbuilder
