// Demangles C++ names in text for human readers.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns `text` with each mangled C++ name (`_Z...`) replaced with the name in the source. Long names are
// shortened in the middle. All other text is unchanged.
std::string demangled(std::string_view text);

}  // namespace ptxbuilder
